"""Translation models: word ids in, logits out. Only torch is used here: no Lightning, Hydra, W&B or text.

Dimensions in signatures and comments:

    batch: sentences (B)
    hypothesis: rows of the decoder, one per sentence in training and one per beam in search (N = B * beams)
    source: source positions (S)
    target: target positions (T)
    annotation: size of an encoder annotation h_j
    hidden: size of a decoder state s_i
    context: size of c_i, which is the annotation's size, or 0 without attention
    word: size of a word embedding e(y)
    query: size of the query q that the attention gets

Each part of a decoder is a function of two values, which `bind(source)` makes from the encoded source:

    bound: tensors that are fixed for a sentence; their first dimension is the sentence
    state: tensors that change at every step; their first dimension is the hypothesis
"""
