"""Corruptions of a test set that need nothing but its table of probabilities and its labels.

They stand in for a benchmark of corrupted images. Each drift has a severity, at one value of which nothing
happens, and takes numbers drawn once, so that two severities of one split differ in the severity alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from onlinecal.arrays import Floats, Ints
from onlinecal.recalibration.classical.temperature import FLOOR, tempered

Corruption = Callable[[Floats, Ints, float, np.random.Generator], tuple[Floats, Ints]]
"""From probabilities (n, C), labels (n,), a severity and a source of chance to n corrupted rows."""


def factor_on_logits(
    table: Floats, labels: Ints, factor: float, rng: np.random.Generator
) -> tuple[Floats, Ints]:
    """Rows proportional to p^factor: the network is surer (above 1) or less sure; no answer changes."""
    return tempered(table, factor), labels


def label_shift(table: Floats, labels: Ints, ratio: float, rng: np.random.Generator) -> tuple[Floats, Ints]:
    """As many rows, drawn again by class: the classes, in a random order, are weighted from 1 to `ratio`.

    The weights are geometric in the place of the class in that order. Rows of a class are drawn alike, so
    the probabilities given the class stay what they were.
    """
    n, k = table.shape
    weights = float(ratio) ** (rng.permutation(k) / max(k - 1, 1))
    order = rng.permutation(n)
    order = order[np.argsort(labels[order], kind="stable")]
    ends = np.cumsum(weights[labels[order]])
    # evenly spaced: a class comes as often as its weight says, and so does each of its rows, up to rounding
    picks = order[np.searchsorted(ends, (np.arange(n) + rng.random()) / n * ends[-1], side="right")]
    return table[picks], labels[picks]


def noise_on_logits(
    table: Floats, labels: Ints, deviation: float, rng: np.random.Generator
) -> tuple[Floats, Ints]:
    """Gaussian noise of this standard deviation on every log-probability."""
    noise = rng.standard_normal(table.shape)
    return softmax(np.log(table + FLOOR) + deviation * noise, axis=1), labels


@dataclass(frozen=True)
class Drift:
    """A corruption, the severities to try, the one of them that changes nothing, and the axis's words."""

    corrupt: Corruption
    severities: tuple[float, ...]
    clean: float
    axis: str
    logarithmic: bool


DRIFTS = {
    "temperature": Drift(
        factor_on_logits, (0.5, 0.71, 1.0, 1.41, 2.0, 2.83), 1.0, "factor on the logits", True
    ),
    "label shift": Drift(
        label_shift, (1.0, 2.0, 4.0, 8.0, 16.0, 32.0), 1.0, "commonest class : rarest class", True
    ),
    "noise": Drift(
        noise_on_logits,
        (0.0, 0.5, 1.0, 1.5, 2.0, 3.0),
        0.0,
        "noise on the logits (standard deviation, nats)",
        False,
    ),
}
