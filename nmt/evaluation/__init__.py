"""Scores and figures of one run."""
