"""Decoders: one step function each, called alike by training and by search.

`begin(source)` binds attention and memory and gives the first state; `prepare(embedded)` does for all words at once
what needs no state; `step(inputs, state, bound)` does only what must be sequential. States are values (see `tree`).
"""
