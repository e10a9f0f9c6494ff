"""Which labels there are, which of two counts as outcome 1, and answers over them that sum to 1."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.elementary import in_turn
from onlinecal.forecasters.simplex.input import check_label, class_of, is_soft
from onlinecal.recalibration.flooring import spread_rest
from onlinecal.remarks import LabelWarning

Label = Any


def refuse_weight(keywords: Mapping[str, Any]) -> None:
    """ValueError for a weight `w` other than 1 among the keywords of the wrapped model."""
    weight = keywords.get("w", 1)
    if not (isinstance(weight, Real) and weight == 1):
        raise ValueError(
            f"w must be left out, got {weight!r}: only the wrapped model would learn of it, while the "
            "forecast counts as one round; weigh by the label in the model's own loss, or learn a row twice"
        )


class Labels:
    """The labels met so far, in order, from outcomes and from the wrapped model's answers.

    Of two labels the positive one is True (or 1, for numbers 0 and 1); of other labels it is the first
    that was met as an outcome. Once there are two, `pair` is (negative, positive).

    Parameters
    ----------
    declared
        All labels there are, at least two, if that is known beforehand: no other can then be met, and the
        second of them is the positive one.
    """

    _strange = _declared = False

    def __init__(self, declared: Sequence[Label] = ()) -> None:
        self.known: dict[Label, int] = {}
        self.positive: Label | None = None
        self.pair: tuple[Label, Label] | None = None
        if len(declared):
            self._declared, self.positive = True, declared[1]
            self.known = {label: int(label == self.positive) for label in declared}
            self.pair = (declared[0], declared[1]) if len(declared) == 2 else None

    def meet(self, label: Label) -> None:
        """Take note of an outcome's label; numpy's scalars count as the Python values they equal.

        ValueError if others were declared.
        """
        label = plain(label)
        if self._declared:
            class_of(label, self.known, "y")
        if self.positive is None:
            self.positive = label
            if isinstance(label, (bool, int)) and label in (0, 1):
                kind = type(label)
                self.positive = kind(1)
                self.known = {kind(0): 0, kind(1): 1}
        self.known.setdefault(label, int(label == self.positive))
        if len(self.known) == 2:
            first, second = self.known
            self.pair = (second, first) if self.positive == first else (first, second)

    def read(self, answer: Mapping[Label, float]) -> float:
        """The positive label's probability in a model's answer; 1/2 if the model has none to give.

        Warns, once, of a model that names none of the labels when two have come.
        """
        positive = True if self.positive is None else self.positive
        if positive in answer:
            return answer[positive]
        if not answer or self.positive is None:
            return 0.5
        if self.pair is not None and not self._strange and not any(label in answer for label in self.known):
            self._strange = True
            warnings.warn(
                f"classifier answers with the labels {', '.join(map(repr, answer))}, and none of them has "
                f"come; those that have are {', '.join(map(repr, self.known))}",
                LabelWarning,
                stacklevel=3,
            )
        return 1.0 - in_turn(answer.values())

    def both(self, answer: Mapping[Label, float], p: float) -> dict[Label, float]:
        """The forecast p of the positive label as a river answer over the labels known so far."""
        if self.positive is None:
            # 0 and 1 are False and True, and may be two of many
            return {False: 1.0 - p, True: p} if answer and answer.keys() <= {False, True} else {}
        names = self.known if len(self.known) > 1 else {**self.known, **dict.fromkeys(answer)}
        if len(names) == 1:
            return {self.positive: 1.0}
        others = (1.0 - p) / (len(names) - 1)
        return {label: p if label == self.positive else others for label in names}


def checked_label(y: Any) -> Label:
    """The label of a round; ValueError if it is none, or a share or soft label: no model learns from it."""
    if is_soft(y):
        raise ValueError(
            f"y must be a class label, got {y!r}: models learn from labels; soft labels go with "
            "SimplexAlmostOneStepAhead, whose observe takes them, and a model's probabilities as hint"
        )
    if isinstance(y, (float, np.floating)) and math.isfinite(y) and not float(y).is_integer():
        raise ValueError(
            f"y must be a class label, got {y!r}: models learn from labels; outcomes between 0 and 1 go with "
            "AlmostOneStepAhead, whose observe takes them, and a model's probability as hint"
        )
    return check_label(y, "y")


def plain(label: Label) -> Label:
    """A numpy scalar as the Python value that it is."""
    return label.item() if isinstance(label, np.generic) else label


def spread_top(masses: dict[Label, float], best: Label, p: float) -> dict[Label, float]:
    """The probability p for the best label, the rest shared by the others as `spread_rest` does.

    NaN counts as no mass, and values are moved into [0, 1].
    """
    others = {label: min(max(0.0, mass), 1.0) for label, mass in masses.items() if label != best}
    return {best: p, **dict(zip(others, spread_rest(list(others.values()), p), strict=True))}


def normalised(masses: dict[Label, float]) -> dict[Label, float]:
    """Non-negative masses divided by their sum; equal shares if all are zero."""
    total = in_turn(masses.values())
    if total <= 0.0:
        return {label: 1.0 / len(masses) for label in masses}
    return {label: mass / total for label, mass in masses.items()}


def normalised_rows(masses: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same for masses of shape (T, k), to the bit."""
    total = sum_of_rows(masses)
    some = total > 0.0
    return np.where(some, masses / np.where(some, total, 1.0), 1.0 / masses.shape[1])


def sum_of_rows(masses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums over columns from left to right, of shape (T, 1)."""
    total = np.zeros((len(masses), 1))
    for column in masses.T:
        total[:, 0] += column
    return total


def completed(masses: list[float], hints: list[float]) -> list[float]:
    """Masses in [0, 1] moved to the sum 1 towards hints, whose sum is 1: all up, or all down.

    No distribution is nearer to the masses in l1: what is moved in all is how far their sum is from 1.
    """
    missing = 1.0 - in_turn(masses)
    way = [(hint - mass) * missing for mass, hint in zip(masses, hints, strict=True)]
    total = in_turn(towards for towards in way if towards > 0.0)
    if total <= 0.0:
        return list(normalised(dict(enumerate(masses))).values())
    # masses that do not move are given back as they are, but for the sign of a zero
    moved = [
        mass + missing * (towards / total) if towards > 0.0 else mass + 0.0
        for mass, towards in zip(masses, way, strict=True)
    ]
    return [mass if mass > 0.0 else 0.0 for mass in moved]


def completed_rows(masses: NDArray[np.float64], hints: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same for masses and hints of shape (T, k), to the bit."""
    missing = 1.0 - sum_of_rows(masses)
    way = np.maximum((hints - masses) * missing, 0.0)
    total = sum_of_rows(way)
    some = total > 0.0
    moved = np.maximum(masses + missing * (way / np.where(some, total, 1.0)), 0.0)
    return np.where(some, moved, normalised_rows(masses))
