"""Translate text with trained models: loading, unknown words, long lines, 8-bit products."""
