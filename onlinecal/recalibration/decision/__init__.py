"""Recalibration for decisions."""
