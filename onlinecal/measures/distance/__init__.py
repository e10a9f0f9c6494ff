"""Distance to calibration: exact, in a bracket, from below, and for several classes."""
