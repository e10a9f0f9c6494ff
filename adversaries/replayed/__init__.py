"""Adversaries that play what was recorded, or found before."""
