"""Rounds that may be split: the lower distance, its proof, and whole rounds near a split solution."""
