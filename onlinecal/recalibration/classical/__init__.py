"""The classical recalibrators: temperature, vector and Dirichlet scaling, beta calibration, isotonic maps.
Nothing here has a state."""
