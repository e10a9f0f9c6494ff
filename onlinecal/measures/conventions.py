"""What other packages compute under the names of our measures, as records: `convention="torchmetrics"`.

Packages differ in where bins are cut, which end belongs to a bin, what becomes of 0 and 1, how classes are
put together, and in the precision of the numbers. A `Convention` says so of one package at one version.
`tests/peers` runs the packages and compares; docs/in-their-numbers.md has the table.

Nothing here has a state. A *binning* sorts forecasts into bins. Its `intervals` is one of the functions
below, from a number of bins B to their lower and upper ends, each of shape (B,), or of another length where
the package makes more bins or fewer. An entry of CONVENTIONS may change only with the version of its package,
and with the figures that `tests/peers` has of it. OURS is what expected calibration errors in bins take by
themselves: other cuts there change answers. `members` wants its values increasing, which `Counts` are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.catalogue import did_you_mean
from onlinecal.texts import shown
from onlinecal.validation import check_count

Intervals: TypeAlias = Callable[[int], tuple[Floats, Floats]]
"""A function from a number of bins to their lower and upper ends."""


def between(cuts: Floats) -> tuple[Floats, Floats]:
    """The intervals from each cut to the next."""
    return cuts[:-1], cuts[1:]


def whole_fractions(n_bins: int) -> tuple[Floats, Floats]:
    """Cuts at i/B, each correctly rounded: 0.29 is the lower end of the 30th of a hundred bins."""
    return between(np.append(np.arange(n_bins) / n_bins, np.inf))


def from_minus_infinity(n_bins: int) -> tuple[Floats, Floats]:
    """Cuts at i/B, where the upper end belongs to a bin; the first bin also has the forecasts of 0."""
    return between(np.append(-np.inf, np.arange(1, n_bins + 1) / n_bins))


def numpy_steps(n_bins: int) -> tuple[Floats, Floats]:
    """Cuts of `numpy.linspace`, i * (1/B): some are off by a last bit, as 0.30000000000000004."""
    cuts = np.linspace(0.0, 1.0, n_bins + 1)
    cuts[-1] = np.inf
    return between(cuts)


def numpy_steps_above_zero(n_bins: int) -> tuple[Floats, Floats]:
    """Cuts of `numpy.linspace`, where the upper end belongs to a bin, and forecasts of 0 are in none."""
    return between(np.linspace(0.0, 1.0, n_bins + 1))


def numpy_steps_a_little_wider(n_bins: int) -> tuple[Floats, Floats]:
    """Cuts of `numpy.linspace` from 0 to 1 + 1e-8, so that 1 is in the last bin."""
    return between(np.linspace(0.0, 1.0 + 1e-8, n_bins + 1))


def numpy_edges(edges: int) -> tuple[Floats, Floats]:
    """Cuts of `numpy.linspace`, of which the number says how many there are: that makes one bin less.

    Forecasts of exactly 0 have a bin of their own.
    """
    if edges < 2:
        raise ValueError(
            f"n_bins must be at least 2 with convention 'mapie', which counts edges, got {edges}"
        )
    return between(np.append(-np.inf, np.linspace(0.0, 1.0, edges)))


def torch_steps(n_bins: int) -> tuple[Floats, Floats]:
    """Cuts of `torch.linspace` in float32, stepped from both ends; 1 has a bin of its own.

    Torch's code multiplies and adds in one instruction, which rounds once. Here the two are done in float64,
    and then rounded to float32, once, too.
    """
    place, step = np.arange(n_bins + 1), np.float64(np.float32(1.0) / np.float32(n_bins))
    cuts = np.where(place < (n_bins + 1) // 2, place * step, 1.0 - (n_bins - place) * step)
    return between(np.append(cuts.astype(np.float32).astype(np.float64), np.inf))


def widths_added_up(n_bins: int) -> tuple[Floats, Floats]:
    """Upper ends of `numpy.arange`, and lower ends one width below.

    Both are rounded, so a forecast at an end may be in one bin, in two or in none.
    """
    width = 1.0 / n_bins
    upper = np.arange(width, 1.0 + width, width)
    lower = upper - width
    return np.where(lower == 0.0, -np.inf, lower), upper


def divided_by_width(n_bins: int) -> tuple[Floats, Floats]:
    """Bin i has the forecasts whose quotient by the width, rounded down, is i; 1 may have its own bin."""
    width = 1.0 / n_bins
    place = np.arange(int(1.0 / width) + 1)
    cuts = place * width
    # a lower end is the least number whose rounded quotient is i; it lies within a few last bits of i * width
    for _ in range(4):
        lower = np.nextafter(cuts, -1.0)
        cuts = np.where((lower >= 0.0) & (lower / width >= place), lower, cuts)
        cuts = np.where(cuts / width < place, np.nextafter(cuts, 2.0), cuts)
    return between(np.append(cuts, np.inf))


class Binning(NamedTuple):
    """How forecasts are sorted into bins.

    Attributes
    ----------
    intervals
        The ends of so many bins.
    closed
        Which end belongs to a bin.
    counts_the_binned
        Whether averages are over the rows in bins; else they are over all rows.
    dtype
        The precision of forecasts and ends.
    """

    intervals: Intervals
    closed: Literal["left", "right"] = "left"
    counts_the_binned: bool = False
    dtype: type[np.floating[Any]] = np.float64

    def rounded(self, forecasts: Floats) -> Floats:
        """Forecasts of any shape in the precision of the bins."""
        return forecasts.astype(self.dtype).astype(np.float64)

    def members(self, values: Floats, n_bins: int) -> tuple[Ints, Ints]:
        """The places of those of the increasing `values`, shape (K,), that are in bins, and each one's bin.

        Both arrays have the same length. A value that is in no bin has no place there, and one that is in two
        bins has its place twice.
        """
        values, side = self.rounded(values), self.closed
        first, last = (np.searchsorted(values, ends, side=side) for ends in self.intervals(n_bins))
        sizes = np.maximum(last - first, 0)
        numbers = np.repeat(np.arange(len(sizes)), sizes)
        places = np.arange(sizes.sum()) + np.repeat(first - (np.cumsum(sizes) - sizes), sizes)
        return places, numbers


OURS = Binning(whole_fractions)
"""The bins that are taken where no convention is named."""


@dataclass(frozen=True, kw_only=True)
class Convention:
    """What a package does where packages differ; None: it has no such measure.

    Attributes
    ----------
    version
        The version that was run.
    n_bins
        How many bins it takes by itself.
    event, confidence, classwise, top_label
        The bins of the expected calibration error of one event, of the largest probability, of each class,
        and of the largest probability within the rows of its class.
    averages_classes
        Whether errors of classes are averaged, one of few rows like one of many; else they are added up.
    reads_the_second_of_two
        Whether a table of two columns is taken for forecasts of the second.
    margin
        How far from 0 and from 1 the log loss keeps forecasts.
    """

    version: str
    n_bins: int = 15
    event: Binning | None = None
    confidence: Binning | None = None
    classwise: Binning | None = None
    top_label: Binning | None = None
    averages_classes: bool = False
    reads_the_second_of_two: bool = False
    margin: float | None = None


DOUBLE_SPACING = float(np.finfo(np.float64).eps)
_OURS = Convention(version="", event=OURS, confidence=OURS, classwise=OURS, top_label=OURS)
_NETCAL = Binning(numpy_steps)
_TORCH = Binning(torch_steps, dtype=np.float32)
_MAPIE = Binning(numpy_edges, "right")
_PYCALIB = Binning(numpy_steps_a_little_wider)
_RELPLOT = Binning(divided_by_width)
_CALZONE = Binning(numpy_steps_above_zero, "right", counts_the_binned=True)
_UNCERTAINTY = Binning(from_minus_infinity, "right")

CONVENTIONS = {
    "calzone-tool": Convention(version="0.1.0", n_bins=10, event=_CALZONE, confidence=_CALZONE),
    "evidently": Convention(version="0.7.23", margin=DOUBLE_SPACING),
    "mapie": Convention(
        version="1.6.0",
        n_bins=50,
        event=_MAPIE,
        confidence=_MAPIE,
        classwise=_MAPIE,
        top_label=_MAPIE,
        averages_classes=True,
    ),
    "mcgrad": Convention(version="0.1.5", n_bins=40, event=_NETCAL, margin=1e-15),
    "netcal": Convention(
        version="1.4.0", n_bins=10, event=_NETCAL, confidence=_NETCAL, reads_the_second_of_two=True
    ),
    "pycalib": Convention(
        version="0.1.0.dev6",
        event=_PYCALIB,
        confidence=Binning(widths_added_up, "right"),
        classwise=_PYCALIB,
        averages_classes=True,
    ),
    "r-cran-metrics": Convention(version="0.1.4", margin=0.0),
    "r-cran-mlmetrics": Convention(version="1.1.1", margin=1e-15),
    "r-cran-modelmetrics": Convention(version="1.2.2.2", margin=1e-15),
    "relplot": Convention(version="1.0.3", n_bins=10, event=_RELPLOT, confidence=_RELPLOT),
    "river": Convention(version="0.26.1", margin=1e-15),
    "scikit-learn": Convention(version="1.9.1", margin=DOUBLE_SPACING),
    "scoringrules": Convention(version="0.10.0", margin=0.0),
    "torchmetrics": Convention(version="1.9.0", event=_TORCH, confidence=_TORCH),
    "uncertainty-calibration": Convention(
        version="0.1.4",
        event=_UNCERTAINTY,
        confidence=_UNCERTAINTY,
        classwise=_UNCERTAINTY,
        averages_classes=True,
    ),
}
"""By the names of the packages at PyPI, and at Debian where they are R's."""

Kind: TypeAlias = Literal["event", "confidence", "classwise", "top_label"]
MEASURED: dict[Kind, str] = {
    "event": "forecasts of one event",
    "confidence": "the probability of the top label",
    "classwise": "each class",
    "top_label": "each top label",
}
"""What each kind of error is of, for errors."""


class Chosen(NamedTuple):
    """The bins to take, how many (None: level sets), and the convention that they are of."""

    binning: Binning
    n_bins: int | None
    convention: Convention


def convention_of(name: str, argument: str = "convention") -> Convention:
    """The convention of this name; ValueError with the names there are."""
    if not isinstance(name, str) or name not in CONVENTIONS:
        known = did_you_mean(name, CONVENTIONS, "Known are")
        raise ValueError(f"{argument} must be the name of a package that is known, got {shown(name)}{known}")
    return CONVENTIONS[name]


def chosen(name: str | None, kind: Kind, n_bins: int | None) -> Chosen:
    """What an error of this kind is measured by; n_bins=None: by level sets, or in a package's own number."""
    n_bins = None if n_bins is None else check_count(n_bins, "n_bins")
    if name is None:
        return Chosen(OURS, n_bins, _OURS)
    convention = convention_of(name)
    binning: Binning | None = getattr(convention, kind)
    if binning is None:
        able = ", ".join(package for package, other in CONVENTIONS.items() if getattr(other, kind))
        raise ValueError(
            f"convention must be that of a package that measures {MEASURED[kind]}, as {able}, got {name!r}"
        )
    return Chosen(binning, n_bins or convention.n_bins, convention)
