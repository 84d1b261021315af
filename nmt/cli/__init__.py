"""Commands: one file each, arguments in, text out."""
