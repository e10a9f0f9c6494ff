"""Demonstrations to look at and to start from."""
