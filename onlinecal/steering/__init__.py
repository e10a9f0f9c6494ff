"""Steering: a model's probabilities are mapped to better ones, learnt from their outcomes so far.

All of it is functions over flat arrays. Wrappers and the engine hold these arrays, and keep them in pickles
and ledgers: `binary`, `vector`, `combining` and `trust` say which fields there are, and who writes them.
"""
