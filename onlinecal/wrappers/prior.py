"""A model's probabilities, put right for base rates other than those that it was trained on.

A model that was trained on a table from which rows of the frequent class were left out, or in which those of
the rare one were repeated, says that table's chances. If rows of each class are what they were, and only
their shares are others, odds are off by the quotient of the odds of the shares, and by nothing else.

References
----------
Elkan, "The foundations of cost-sensitive learning" (2001), Theorem 2; Saerens, Latinne and Decaestecker,
"Adjusting the outputs of a classifier to new a priori probabilities" (2002).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.forecasters.simplex.input import class_of
from onlinecal.validation import ROW_TOLERANCE, check_open_unit
from onlinecal.wrappers.labels import Label, Labels, normalised, normalised_rows

Prior = tuple[Any, Any]
"""The share of the second of two classes, or by class those of all: in training, and in the stream."""


def prior_weights(prior: Prior, classes: Sequence[Hashable]) -> Floats:
    """By how much the probability of each class is multiplied, before all are divided by their sum; (k,)."""
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
    """A model's answer over declared labels, put right, to the bit as `corrected_rows`; none stays none."""
    if not answer:
        return {}
    if labels.pair is not None:
        negative, positive = labels.pair
        p = min(max(labels.read(answer), 0.0), 1.0)
        answer = {negative: 1.0 - p, positive: p}
    masses = zip(labels.known, weights.tolist(), strict=True)
    return normalised({one: min(max(answer.get(one, 0.0), 0.0), 1.0) * weight for one, weight in masses})
