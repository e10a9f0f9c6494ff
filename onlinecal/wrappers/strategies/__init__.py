"""How a wrapper makes forecasts out of a model's probabilities: steered, then projected."""
