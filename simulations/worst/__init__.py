"""Worst cases: of one forecaster, by playing every outcome sequence, and of the best forecaster of all.

Nothing here has a state.
"""
