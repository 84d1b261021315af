"""Data: text in, batches of word ids out.

Rule: nothing here knows of a model, a search or a score. Only `batches`, `given_links` and `datamodule` import torch,
because every preprocessing process would have to load it.
"""
