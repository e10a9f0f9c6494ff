"""How a wrapper makes forecasts out of a model's probabilities: steered, then projected.

`plan.py` says which strategy plays; `strategy.py` says what all of them have.
"""
