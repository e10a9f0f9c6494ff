"""Errors of class probabilities for those who decide by them."""

from onlinecal.lazy import lazy_names

# pickles of 0.1.0 look for it here
__getattr__, __dir__ = lazy_names(__name__, {"DecisionLosses": ".errors"})
