"""Experiments with attention-based recurrent translation models."""

__version__ = "0.1.0"
