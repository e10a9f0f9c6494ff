"""Steering: a model's probabilities are mapped to better ones, learnt from their outcomes so far."""
