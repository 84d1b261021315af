"""From word numbers to log-probabilities. Knows nothing of Lightning, Hydra, W&B or text.

Dimensions, in signatures and comments:

    batch       sentences (B)
    hypothesis  rows of the decoder: one a sentence in training, one a beam in search (N = B * beams)
    source      source positions (S), target  target positions (T)
    annotation  size of an encoder annotation h_j, hidden  size of a decoder state s_i
    context     size of c_i: the annotation's size, or 0 without attention
    word        size of a word embedding e(y), query  size of what the attention is asked with
"""
