"""Errors of class probabilities by their level sets, and how sure they are."""
