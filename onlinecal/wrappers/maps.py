"""Maps from a model's probabilities to better ones, learnt online: no guarantee comes with them."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from typing import Any, Protocol

from river import base, optim

from onlinecal.forecasters.binary.cells import clip
from onlinecal.forecasters.simplex.input import check_label
from onlinecal.steering.binary import N_BINS, bin_mean, bin_of, within
from onlinecal.validation import check_count
from onlinecal.wrappers.labels import Label, Labels, normalised, refuse_weight
from onlinecal.wrappers.wrapper import ClassifierWrapper

PLATT_RATE = 0.05
"""Of the gradient steps by which a logistic curve follows the outcomes."""
CLIP = 1e-4
"""Probabilities are kept this far from 0 and 1 before the logit."""


def logit(p: float) -> float:
    """log(p / (1 - p)) with p kept within [CLIP, 1 - CLIP]."""
    p = clip(p, CLIP, 1.0 - CLIP)
    return math.log(p / (1.0 - p))


class ProbabilityMap(Protocol):
    """A map from [0, 1] to [0, 1] that learns from outcomes."""

    def apply(self, p: float) -> float:
        """What the map makes of p."""

    def learn(self, p: float, outcome: int) -> None:
        """Learn that p was followed by this outcome."""


class MappedClassifier(ClassifierWrapper):
    """Maps a classifier's probabilities; subclasses say which map.

    With two labels one map serves the positive one (True, or 1, or the first label seen); from the third
    label on, each label has its own and the answers are made to sum to 1.
    """

    def __init__(self, classifier: base.Classifier) -> None:
        super().__init__(classifier)
        self._labels = Labels()
        self._maps: dict[Label | None, ProbabilityMap] = {}

    @abstractmethod
    def _new_map(self) -> ProbabilityMap:
        """A map that has learnt nothing."""

    def _map(self, label: Label | None) -> ProbabilityMap:
        if label not in self._maps:
            self._maps[label] = self._new_map()
        return self._maps[label]

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Label, float]:
        """The mapped probabilities of the labels known so far; they sum to 1."""
        answer = self.classifier.predict_proba_one(x, **kwargs)
        if len(self._labels.known) <= 2:
            return self._labels.both(answer, self._map(None).apply(within(self._labels.read(answer))))
        names = dict.fromkeys([*answer, *self._labels.known])
        return normalised({k: self._map(k).apply(within(answer.get(k, 0.0))) for k in names})

    def learn_one(self, x: Any, y: Any, **kwargs: Any) -> None:
        """Let the maps learn from the model's answer, then the model from the label."""
        refuse_weight(kwargs)
        label = check_label(y, "y")
        answer = self.classifier.predict_proba_one(x)
        self._labels.meet(label)
        if len(self._labels.known) <= 2:
            self._map(None).learn(within(self._labels.read(answer)), int(label == self._labels.positive))
        else:
            for k in self._labels.known:
                self._map(k).learn(within(answer.get(k, 0.0)), int(label == k))
        self.classifier.learn_one(x, y, **kwargs)


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
        z = self.weights["slope"] * logit(p) + self.weights["intercept"]
        return 1.0 / (1.0 + math.exp(-clip(z, -30.0, 30.0)))

    def learn(self, p: float, outcome: int) -> None:
        """One gradient step on the log loss."""
        error = self.apply(p) - outcome
        self.weights = self.optimizer.step(self.weights, {"slope": error * logit(p), "intercept": error})


class BinnedMean(MappedClassifier):
    """Replace each probability by the mean of the outcomes after probabilities like it: calibeating.

    Good where the model's ranking is right and its scale is not, in any way that stays put; slow after
    a change. Wrap it in CalibratedClassifier to have a guarantee.

    Parameters
    ----------
    classifier
        The model whose probabilities are mapped.
    n_bins
        Number of equal-width bins. A bin's centre counts as one outcome, so empty bins leave p about as
        it is.

    Examples
    --------
    >>> from river import datasets, evaluate, naive_bayes, metrics
    >>> from onlinecal import BinnedMean
    >>> model = BinnedMean(naive_bayes.GaussianNB(), n_bins=10)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 87.67%

    References
    ----------
    Foster and Hart (2023), "Calibeating": beating forecasters at their own game.
    """

    def __init__(self, classifier: base.Classifier, n_bins: int = N_BINS) -> None:
        check_count(n_bins, "n_bins")
        super().__init__(classifier)
        self.n_bins = n_bins

    def _new_map(self) -> BinMap:
        return BinMap(self.n_bins)


class BinMap:
    """Sums and counts of one label's bins."""

    def __init__(self, n_bins: int) -> None:
        self.totals = [0.0] * n_bins
        self.counts = [0.0] * n_bins

    def apply(self, p: float) -> float:
        """The mean outcome of p's bin so far."""
        b = bin_of(p, len(self.counts))
        return bin_mean(self.totals[b], self.counts[b], b, len(self.counts))

    def learn(self, p: float, outcome: int) -> None:
        """Count one outcome in p's bin."""
        b = bin_of(p, len(self.counts))
        self.totals[b] += outcome
        self.counts[b] += 1.0
