"""Decoders. Training and search call the same three functions.

    begin(source): bind attention and memory, and compute the first state
    prepare(embedded): compute everything that needs the target words but no state, for all steps at once
    step(inputs, state, bound): compute one step; only what is sequential

A new decoder defines these three functions. States are values, never attributes (see `tree.py`).
"""
