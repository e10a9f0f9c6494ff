"""Which labels there are, which of two counts as outcome 1, and answers over them that sum to 1."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.compiling import compiled
from onlinecal.elementary import in_turn
from onlinecal.forecasters.simplex.input import check_label, class_of, is_soft
from onlinecal.recalibration.flooring import spread_rest
from onlinecal.remarks import warn_of
from onlinecal.validation import ROW_TOLERANCE, check_open_unit

Label = Any
Prior = tuple[Any, Any]
"""The share of the second of two classes, or by class those of all: in training, and in the stream."""


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

    Of two labels the positive one is True (or 1, for numbers 0 and 1), else the first that was met as an
    outcome, or the second of those that were declared. Once there are two, `pair` is (negative, positive).
    """

    _strange = declared = False

    def __init__(self, declared: Sequence[Label] = ()) -> None:
        self.known: dict[Label, int] = {}
        self.positive: Label | None = None
        self.pair: tuple[Label, Label] | None = None
        if len(declared):
            self.declared, self.positive = True, declared[1]
            self.known = {label: int(label == self.positive) for label in declared}
            self.pair = (declared[0], declared[1]) if len(declared) == 2 else None

    def meet(self, label: Label) -> None:
        """Take note of an outcome's label; ValueError if others were declared."""
        label = plain(label)
        if self.declared:
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
        """The positive label's probability in a model's answer; 1/2 if the model has none to give."""
        positive = True if self.positive is None else self.positive
        if positive in answer:
            return answer[positive]
        if not answer or self.positive is None:
            return 0.5
        if self.pair is not None and not self._strange and not any(label in answer for label in self.known):
            self._strange = True
            said, came = (", ".join(map(repr, labels)) for labels in (answer, self.known))
            text = f"labels {said}, and none of them has come; those that have are {came}"
            warn_of([f"classifier answers with the {text}"], level=4)
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
    is_share = isinstance(y, (float, np.floating)) and math.isfinite(y) and not float(y).is_integer()
    if is_share or is_soft(y):
        raise ValueError(
            f"y must be a class label, got {y!r}: models learn from labels; with a model's probabilities "
            "as hints shares go with AlmostOneStepAhead, soft labels go with SimplexAlmostOneStepAhead"
        )
    return check_label(y, "y")


def plain(label: Label) -> Label:
    """A numpy scalar as the Python value that it is."""
    return label.item() if isinstance(label, np.generic) else label


def spread_top(masses: dict[Label, float], best: Label, p: float) -> dict[Label, float]:
    """The probability p for the best label, the rest shared by the others as `spread_rest` does."""
    others = {label: min(max(0.0, mass), 1.0) for label, mass in masses.items() if label != best}
    return {best: p, **dict(zip(others, spread_rest(list(others.values()), p), strict=True))}


def normalised(masses: dict[Label, float]) -> dict[Label, float]:
    """Non-negative masses divided by their sum; equal shares if all are zero."""
    total = in_turn(masses.values())
    if total <= 0.0:
        return {label: 1.0 / len(masses) for label in masses}
    return {label: mass / total for label, mass in masses.items()}


def normalised_rows(masses: Floats) -> Floats:
    """The same for masses of shape (T, k), to the bit."""
    total = np.cumsum(masses, axis=1)[:, -1:]  # from left to right
    equal = np.full_like(masses, 1.0 / masses.shape[1])
    return np.divide(masses, total, out=equal, where=total > 0.0)


@compiled
def completed(masses: Floats, hints: Floats) -> Floats:
    """Masses in [0, 1], shape (T, k), moved to the sum 1 towards hints, whose sum is 1: all up, or all down.

    No distribution is nearer to the masses in l1: what is moved in all is how far their sum is from 1.
    """
    found = np.empty_like(masses)
    for row in range(len(masses)):
        sum_of_masses, way = 0.0, 0.0
        for mass in masses[row]:
            sum_of_masses += mass
        missing = 1.0 - sum_of_masses
        for i in range(masses.shape[1]):
            way += max((hints[row, i] - masses[row, i]) * missing, 0.0)
        for i in range(masses.shape[1]):
            towards = max((hints[row, i] - masses[row, i]) * missing, 0.0)
            if way > 0.0:
                found[row, i] = max(masses[row, i] + missing * (towards / way), 0.0)
            elif sum_of_masses > 0.0:
                found[row, i] = masses[row, i] / sum_of_masses
            else:
                found[row, i] = 1.0 / masses.shape[1]
    return found


def prior_weights(prior: Prior, classes: Sequence[Hashable]) -> Floats:
    """By how much the probability of each class is multiplied, before all are divided by their sum; (k,).

    A model that was trained on a table from which rows of the frequent class were left out, or in which those
    of the rare one were repeated, says that table's chances. If rows of each class are what they were, and
    only their shares are others, odds are off by the quotient of the odds of the shares, and by nothing else.

    References
    ----------
    Elkan, "The foundations of cost-sensitive learning" (2001), Theorem 2; Saerens, Latinne and Decaestecker,
    "Adjusting the outputs of a classifier to new a priori probabilities" (2002).
    """
    if isinstance(prior, str | Mapping) or not hasattr(prior, "__len__") or len(prior) != 2:
        raise ValueError(
            "prior must be a pair, base rates in the table that the model was trained on and in the stream, "
            f"as (0.5, 0.01), got {prior!r}"
        )
    trained, actual = (_shares(one, f"prior[{place}]", classes) for place, one in enumerate(prior))
    return actual / trained


def _shares(given: Any, name: str, classes: Sequence[Hashable]) -> Floats:
    """The shares of the classes, shape (k,), all above 0, with sum 1."""
    if isinstance(given, Real) and len(classes) == 2:
        share = check_open_unit(given, name)
        return np.array([1.0 - share, share])
    if not isinstance(given, Mapping):
        number = "or the share of the second of two" if len(classes) == 2 else f"of {len(classes)}"
        raise ValueError(f"{name} must be a dict with the share of each class, {number}, got {given!r}")
    for label in given:
        class_of(label, dict.fromkeys(classes, 0), name)
    missing = [label for label in classes if label not in given]
    if missing:
        raise ValueError(f"{name} must have a share of each class, got none of {missing[0]!r}")
    shares = np.array([check_open_unit(given[label], f"{name} of {label!r}") for label in classes])
    if abs(shares.sum() - 1.0) > ROW_TOLERANCE:
        raise ValueError(f"{name} must have shares with sum 1, got {shares.sum():g}")
    return shares / shares.sum()


def corrected_rows(table: Floats, weights: Floats) -> Floats:
    """Probabilities of the classes, shape (T, k), put right; of two classes only the second counts."""
    if len(weights) == 2:
        table = np.column_stack([1.0 - table[:, 1], table[:, 1]])
    return normalised_rows(table * weights)


def corrected(answer: Mapping[Label, float], labels: Labels, weights: Floats) -> dict[Label, float]:
    """A model's answer over declared labels, put right; none stays none."""
    if not answer:
        return {}
    said = [answer.get(label, 0.0) for label in labels.known]
    if labels.pair is not None:
        said[1] = labels.read(answer)
    row = np.array([[min(max(one, 0.0), 1.0) for one in said]])
    return dict(zip(labels.known, corrected_rows(row, weights)[0].tolist(), strict=True))
