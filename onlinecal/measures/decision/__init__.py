"""Errors of class probabilities for those who decide by them."""
