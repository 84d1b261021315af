"""Commands: a file for each, arguments in, text out."""
