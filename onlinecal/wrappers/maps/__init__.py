"""Maps from a model's probabilities to better ones, learnt online: no guarantee comes with them."""
