"""Errors of class probabilities by their level sets, and how sure they are.

`errors` has the measures, which keep nothing. `level_sets` says which rows share a level set, for
recalibrators, too, and has the running error that the engine keeps.
"""
