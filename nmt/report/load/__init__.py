"""Load untrusted folders of runs into values."""
