"""The papers' equations as slow float64 loops over one sentence: what the fast implementation is proved against."""
