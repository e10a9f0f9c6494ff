"""Several classes: a linear program below, a search over groupings above, and the distance itself.

`multiclass_calibration_distance` alone uses these modules, and nothing in them outlives one call of it.
"""
