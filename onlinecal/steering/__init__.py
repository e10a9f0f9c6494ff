"""Steering: a model's probabilities are mapped to better ones, by what followed them so far."""
