"""Recalibrating a table of probabilities from the command line: read, fit, compare, draw."""
