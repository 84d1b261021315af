"""Fit one run: from a composed configuration to a finished folder."""
