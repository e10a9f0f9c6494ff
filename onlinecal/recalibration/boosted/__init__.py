"""Recalibration for all groups that a learner can find."""
