"""Recalibration for groups."""
