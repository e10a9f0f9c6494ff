"""Sweeps: plans of whole grids of games, playing them by processes or clusters, and their results on disk.

Nothing here has a state.
"""
