"""Adversaries that make their outcomes up, by what they see."""
