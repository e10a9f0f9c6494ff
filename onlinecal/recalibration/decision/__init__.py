"""Recalibration for decisions: loss tables, the rounds of the algorithm, and the recalibrator. Nothing here
has a state."""
