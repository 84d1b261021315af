"""The page of `translate.py serve=true`."""
