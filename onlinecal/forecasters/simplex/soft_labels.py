"""Outcomes that are soft labels: what users hand in, checked, and as whole weights.

All functions raise ValueError and leave their arguments alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.forecasters.simplex.input import check_distributions, check_label, class_of, shown, totals

MOST_PARTS = 1 << 16
"""Into so many parts a round is divided at most: soft labels are rounded to multiples of one over this."""


SOFT_TYPES = frozenset({dict, list, np.ndarray})
"""Of a sequence's soft labels; none of its labels can have them."""


class Soft(NamedTuple):
    """A soft label over the known classes and `newcomers`, which have the numbers behind theirs."""

    vector: NDArray[np.float64]
    newcomers: tuple[Any, ...] = ()


def is_soft(outcome: Any) -> bool:
    """Whether an outcome can only be meant as a distribution: a dict, a list, an array; no label is one."""
    # what has a hash is a label; looked at first, as it is quick, and by callers in hot loops before the call
    if type(outcome).__hash__ is not None:
        return False
    return isinstance(outcome, (Mapping, list)) or (isinstance(outcome, np.ndarray) and outcome.ndim > 0)


def soft_of(outcome: Any, known: dict[Any, int], fixed: bool, name: str) -> Soft:
    """The distribution, from a dict by label (missing: 0) or a sequence in the order of the known classes.

    Labels that are not known are newcomers if they have weight, unless the classes are `fixed`.
    """
    if not isinstance(outcome, Mapping):
        if not known:
            raise ValueError(
                f"{name} must be a label or a dict while no class is known, got {shown(outcome)}"
            )
        if any(not isinstance(p, (Real, np.generic)) for p in outcome) or len(outcome) != len(known):
            wanted = f"one of the classes {shown(list(known))}, or {len(known)} probabilities"
            raise ValueError(f"{name} must be {wanted}, got {shown(outcome)}")
        return Soft(whole(check_distributions(outcome, (len(known),), name)))
    if not outcome:
        raise ValueError(f"{name} must be a label, or probabilities that sum to 1, got {outcome!r}")
    vector: list[Any] = [0.0] * len(known)
    newcomers: list[Any] = []
    for label, value in outcome.items():
        number = class_of(label, known, f"the labels of {name}") if fixed else known.get(label)
        if number is not None:
            vector[number] = value
        else:
            newcomers.append(check_label(label, f"the labels of {name}"))
            vector.append(value)
    checked = whole(check_distributions(vector, (len(vector),), name))
    kept = [i for i, p in enumerate(checked.tolist()) if i < len(known) or p > 0.0]
    return Soft(checked[kept], tuple(newcomers[i - len(known)] for i in kept if i >= len(known)))


class SoftTable(NamedTuple):
    """Soft labels of a whole sequence: `vectors` (T, k) over the k classes that are known at the end.

    `newcomers` has the classes that are first met in a row, by row.
    """

    vectors: NDArray[np.float64]
    newcomers: dict[int, tuple[Any, ...]]

    def row(self, t: int, known: int) -> Soft:
        """That row, when so many classes are known."""
        newcomers = self.newcomers.get(t, ())
        return Soft(self.vectors[t, : known + len(newcomers)], newcomers)


def soft_table(outcomes: Any, known: dict[Any, int], fixed: bool, name: str = "outcomes") -> SoftTable | None:
    """The soft labels of a table (T, k), or of a list of labels of which some are soft; None of any other."""
    if getattr(outcomes, "ndim", 1) == 2:
        rows, columns = outcomes.shape
        if columns != len(known) or not known:
            wanted = f"or a table of soft labels over the {len(known)} known classes"
            raise ValueError(f"{name} must be one-dimensional, {wanted}, got shape {outcomes.shape}")
        return SoftTable(whole(check_distributions(outcomes, (rows, len(known)), name)), {})
    if not isinstance(outcomes, (list, tuple)) or not SOFT_TYPES.intersection(map(type, outcomes)):
        return None
    numbers, found, newcomers = dict(known), [], {}
    for t, outcome in enumerate(outcomes):
        try:
            # a label is a distribution, too
            soft = soft_of(outcome if is_soft(outcome) else {outcome: 1.0}, numbers, fixed, name)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{error} at row {t}") from error
        if soft.newcomers:
            newcomers[t] = soft.newcomers
            numbers |= {label: len(numbers) + i for i, label in enumerate(soft.newcomers)}
        found.append(soft.vector)
    vectors = np.zeros((len(found), len(numbers)))
    for row, vector in zip(vectors, found, strict=True):
        row[: len(vector)] = vector
    return SoftTable(vectors, newcomers)


def whole(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows divided by their sums, however near these are to one: an only class has then all of its label."""
    total = totals(vectors)[..., None]
    return np.where(total == 1.0, vectors, vectors / total)


def certain(vector: NDArray[np.float64]) -> int | None:
    """The class that has all the weight, if there is one."""
    return int(vector.argmax()) if vector.max() == 1.0 else None


def weights_of(vectors: NDArray[np.float64], parts: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Whole weights that add up to `parts`, shape (..., k), and how far in l1 they are from the vectors.

    The sums up to each class are rounded: so that is at most (k - 1)/parts, and no weight stays none.
    """
    upto = np.rint(np.minimum(np.cumsum(vectors, axis=-1), 1.0) * parts).astype(np.int64)
    # behind the last class with weight the sum is one, but for rounding
    upto = np.where(np.cumsum(vectors[..., ::-1], axis=-1)[..., ::-1] - vectors <= 0.0, parts, upto)
    weights = np.diff(upto, axis=-1, prepend=0)
    return weights, totals(np.abs(vectors - weights / parts))
