"""Compare runs in three steps: load folders, compare values, render pages."""
