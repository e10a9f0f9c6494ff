"""Whole grids of games, over processes or clusters, and what they leave on disk."""
