"""Rounds that may be split: the lower distance, its proof, and whole rounds near a split solution.

Nothing in these modules outlives a call. What `relaxation` bounds from below is proven, whatever `interior`
found; what `rounding` finds is calibrated, however near it comes.
"""
