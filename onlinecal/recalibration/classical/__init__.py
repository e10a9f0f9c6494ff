"""The usual recalibrators: temperature, Dirichlet, isotonic on the top label."""
