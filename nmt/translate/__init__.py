"""Translate text with trained models: loading, long lines, unknown words, 8-bit products."""
