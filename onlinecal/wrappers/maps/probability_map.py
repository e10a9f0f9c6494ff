"""The river face that PlattScaling and BinnedMean share: a map of probabilities learnt per label."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol

from river import base

from onlinecal.forecasters.simplex.input import check_label
from onlinecal.steering.three_maps import within
from onlinecal.wrappers.labels import Label, Labels, normalised
from onlinecal.wrappers.wrapper import ClassifierWrapper


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
        label = check_label(y, "y")
        answer = self.classifier.predict_proba_one(x)
        self._labels.meet(label)
        if len(self._labels.known) <= 2:
            self._map(None).learn(within(self._labels.read(answer)), int(label == self._labels.positive))
        else:
            for k in self._labels.known:
                self._map(k).learn(within(answer.get(k, 0.0)), int(label == k))
        self.classifier.learn_one(x, y, **kwargs)
