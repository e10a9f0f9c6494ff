"""Adversaries that make their outcomes up, by what they see.

Nothing here has a state.
"""
