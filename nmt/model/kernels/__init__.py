"""Faster versions of plain formulas. Each file states its formula and its gain, measured in docs/performance.md."""
