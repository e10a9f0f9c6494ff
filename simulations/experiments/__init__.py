"""The decision paper's experiments, on any table of predictions."""
