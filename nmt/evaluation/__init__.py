"""Scores and figures of one run: counted, written to its result files, and read from them again."""
