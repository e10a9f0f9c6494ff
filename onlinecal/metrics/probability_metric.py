"""What the metrics share: how they read labels and answers, and what river wants to know of them."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from river import metrics

from onlinecal.validation import OUTCOMES, check_probability, share_of

ROUNDING = 1e-9
"""By so much a model's probability may lie outside [0, 1]: normalising leaves such crumbs."""


class ProbabilityMetric(metrics.base.BinaryMetric):
    """A metric of the probability of one event; subclasses say how a round counts, and how to forget it.

    Parameters
    ----------
    pos_val
        The event is that this label comes; all other labels count as the other outcome. With a boolean, as by
        default, labels must be 0, 1, False or True, or numbers between: shares, ties, rates.
    top_label
        True: the event is that the answer's most probable label comes (of several, the first one), whatever
        the labels are.

    Notes
    -----
    `update` and `revert` take a label and an answer: the probability itself, or a dictionary of labels and
    probabilities, in which a missing label has probability 0, as for `river.metrics.LogLoss`. With
    `top_label` the answer must be a dictionary; an empty one is no forecast, and such a round is not counted.

    They raise ValueError, and change nothing, when the probability is not a number in [0, 1], when the weight
    is not a finite one of at least 0, or when a label cannot be told to be the positive one or not. `get`
    raises ValueError when two other labels have come or been answered, and the positive one neither: then it
    is misspelt, or there is nothing to say about it yet.
    What is printed of the metric says so instead.
    """

    _fmt = ".6f"

    def __init__(self, pos_val: Any = True, top_label: bool = False) -> None:
        if not isinstance(top_label, bool):
            raise ValueError(f"top_label must be False or True, got {top_label!r}")
        if top_label and pos_val is not True:
            raise ValueError(f"pos_val and top_label exclude each other, got pos_val={pos_val!r}")
        super().__init__(pos_val=pos_val)
        self.top_label = top_label
        # whether the positive label has come or been answered, and up to two labels that are not it
        self._met = top_label or isinstance(pos_val, bool)
        self._others: tuple[Any, ...] = ()

    @property
    def bigger_is_better(self) -> bool:
        """False: these are errors."""
        return False

    @property
    def requires_labels(self) -> bool:
        """False: they are fed probabilities."""
        return False

    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Count one round."""
        if self._announced(y_pred):
            self._count(*self._read(y_true, y_pred), _weight(w))
            if not self._met:
                self._meet((y_true, *(y_pred if isinstance(y_pred, Mapping) else ())))

    def revert(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Take back one round that was counted, as rolling windows do."""
        if self._announced(y_pred):
            self._uncount(*self._read(y_true, y_pred), _weight(w))

    def get(self) -> float:
        """The average over rounds; ValueError while it would speak of a label that nobody has named."""
        self._check_met()
        return self._average()

    def __repr__(self) -> str:
        # river shows metrics while a stream is on its way: a rare label that is still to come must not end it
        if self._is_unmet:
            return f"{type(self).__name__}: none yet, pos_val={self.pos_val!r} has not come"
        return super().__repr__()

    @abstractmethod
    def _count(self, forecast: float, outcome: float, w: float) -> None:
        """Count a forecast and its outcome, w times."""

    @abstractmethod
    def _uncount(self, forecast: float, outcome: float, w: float) -> None:
        """Undo `_count`."""

    @abstractmethod
    def _average(self) -> float:
        """The average over the rounds counted."""

    def _announced(self, y_pred: Any) -> bool:
        return not (self.top_label and isinstance(y_pred, Mapping) and not y_pred)

    def _read(self, y_true: Any, y_pred: Any) -> tuple[float, float]:
        if self.top_label:
            if not isinstance(y_pred, Mapping):
                raise ValueError(f"y_pred must be a dictionary of labels for top_label=True, got {y_pred!r}")
            positive = max(y_pred, key=lambda label: _probability(y_pred[label]))
        else:
            positive = self.pos_val
            if isinstance(positive, bool):
                for label in y_pred if isinstance(y_pred, Mapping) else ():
                    self._check_binary(label, "y_pred")
        p = y_pred.get(positive, 0.0) if isinstance(y_pred, Mapping) else y_pred
        return _probability(p), self._outcome(y_true, positive)

    def _outcome(self, y_true: Any, positive: Any) -> float:
        if not isinstance(positive, bool) or self.top_label:
            return int(y_true == positive)
        try:
            share = share_of(y_true)
        except ValueError:
            raise ValueError(self._strange("y_true", y_true)) from None
        return share if positive else 1.0 - share

    def _check_binary(self, label: Any, name: str) -> None:
        try:
            known = label in OUTCOMES
        except TypeError:
            known = False
        if not known:
            raise ValueError(self._strange(name, label))

    def _strange(self, name: str, label: Any) -> str:
        kind = type(self).__name__
        return (
            f"{name} has the label {label!r}, and the positive one of labels other than 0, 1, False and "
            f"True must be named: {kind}(pos_val={label!r}), say; or {kind}(top_label=True), whether the "
            "answer's most probable label comes"
        )

    def _meet(self, labels: Iterable[Any]) -> None:
        for label in labels:
            if label == self.pos_val:
                self._met, self._others = True, ()
                return
            if len(self._others) < 2 and label not in self._others:
                self._others = (*self._others, label)

    @property
    def _is_unmet(self) -> bool:
        return not self._met and len(self._others) > 1

    def _check_met(self) -> None:
        if self._is_unmet:
            first, second = self._others
            raise ValueError(
                f"pos_val={self.pos_val!r} has not come, and no answer has named it, though {first!r} and "
                f"{second!r} have: name one of the labels there are, or ask again once it has come"
            )


def _probability(p: Any) -> float:
    if isinstance(p, float) and -ROUNDING <= p <= 1.0 + ROUNDING:
        p = min(max(p, 0.0), 1.0)
    return check_probability(p, "y_pred")


def _weight(w: float) -> float:
    if not 0.0 <= w < math.inf:
        raise ValueError(f"w must be a finite number of at least 0, got {w!r}")
    return w
