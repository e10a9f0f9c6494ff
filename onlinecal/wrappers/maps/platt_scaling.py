"""Platt scaling, online: a logistic curve in the logit of the model's probability."""

from __future__ import annotations

import copy
from typing import Any

from river import base, optim

from onlinecal.steering.three_maps import PLATT_RATE, platt, platt_gradient
from onlinecal.wrappers.maps.probability_map import MappedClassifier


class PlattScaling(MappedClassifier):
    """Online Platt scaling: corrects the slope and the offset of a model's log odds.

    No guarantee comes with it: a fold, a flip or labels that fight back defeat it. Wrap it in
    CalibratedClassifier to have one.

    Parameters
    ----------
    classifier
        The model whose probabilities are mapped.
    optimizer
        Any of river's optimizers that step on dictionaries of weights; plain gradient descent with rate
        0.05 by default.

    Examples
    --------
    >>> from river import datasets, evaluate, linear_model, metrics, preprocessing
    >>> from onlinecal import PlattScaling
    >>> model = PlattScaling(preprocessing.StandardScaler() | linear_model.LogisticRegression())
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 89.12%

    References
    ----------
    Platt (1999), probabilistic outputs for support vector machines.
    """

    def __init__(self, classifier: base.Classifier, optimizer: Any = None) -> None:
        if optimizer is not None and (isinstance(optimizer, type) or not hasattr(optimizer, "step")):
            raise ValueError(f"optimizer must be a river optimizer such as SGD(0.05), got {optimizer!r}")
        super().__init__(classifier)
        self.optimizer = optimizer

    def _new_map(self) -> PlattMap:
        return PlattMap(optim.SGD(PLATT_RATE) if self.optimizer is None else copy.deepcopy(self.optimizer))


class PlattMap:
    """Slope and intercept of one label, and the optimizer that moves them."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.weights = {"slope": 1.0, "intercept": 0.0}

    def apply(self, p: float) -> float:
        """The logistic curve at the logit of p."""
        return platt(self.weights["slope"], self.weights["intercept"], p)

    def learn(self, p: float, outcome: int) -> None:
        """One gradient step on the log loss."""
        slope, intercept = platt_gradient(p, self.apply(p), outcome)
        self.weights = self.optimizer.step(self.weights, {"slope": slope, "intercept": intercept})
