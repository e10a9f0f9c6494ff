"""Multicalibration: how far forecasts are from calibrated inside each of many, overlapping groups.

All figures here are averages over the n rounds, as in the sources, and need not be divided by n.

Nothing here has a state, and a report never changes. Lines are in the order of the groups that were given.
The names of `rows` are keys of JSON. `GroupRecalibrator` divides forecasts by `level_sets` and
`grid_level`, and violations are summed in the order of levels: both are part of what it fits.

References
----------
Hebert-Johnson, Kim, Reingold and Rothblum (2018), "Multicalibration: calibration for the (computationally
identifiable) masses". Globus-Harris, Harrison, Kearns, Roth and Sorrell (2023), "Multicalibration as
boosting for regression" (real-valued test functions). docs/theory-tables.md has definitions and proofs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.html import Bar, Shown, Table
from onlinecal.measures.counts import check_weights, total_of
from onlinecal.tables.columns import (
    as_numbers,
    check_groups,
    check_history,
    check_order_of,
    check_probabilities,
    check_same_index,
    check_same_length,
    refuse,
)
from onlinecal.tables.frames import as_array
from onlinecal.texts import shown
from onlinecal.validation import check_count


def grouped_history(
    forecasts: ArrayLike, outcomes: ArrayLike, groups: ArrayLike
) -> tuple[Floats, NDArray[np.uint8], NDArray[np.bool_]]:
    """Forecasts and outcomes, both (n,), and membership (n, G) of the same rounds, or ValueError."""
    check_same_index(forecasts, groups, "forecasts and groups")
    p, y = check_history(forecasts, outcomes)
    return p, y, check_groups(groups, len(p))


def multicalibration_error(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    groups: ArrayLike,
    *,
    n_bins: int | None = None,
    sample_weight: ArrayLike | None = None,
) -> Floats:
    """How wrong forecasts are inside each group: the average squared bias of the group's level sets.

    With the rounds of a group sorted into level sets, those of one forecast v, it is the sum over v of (share
    of all rounds that are in the level set) times (v - their mean outcome)^2. Papers write it mu(g) K2(f, g),
    with mu(g) the group's share of all rounds, and call a forecaster alpha-multicalibrated if no group's
    error exceeds alpha.

    Parameters
    ----------
    forecasts
        Probabilities, shape (n,).
    outcomes
        0/1 or boolean, shape (n,).
    groups
        Whether round i is in group g, boolean or 0/1, at [i, g]: shape (n, G). Groups may overlap and need
        not cover all rounds.
    n_bins
        None: a level set is all rounds with exactly the same forecast. A number m: all forecasts that round
        to the same i/m (halves go up) share a level set, and their mean stands for v. These are the level
        sets that `GroupRecalibrator(n_levels=m)` corrects.
    sample_weight
        For how many rounds each counts, shape (n,), at least 0; None: for one.

    Returns
    -------
    float64 array of shape (G,)
        One error for each group, an average over all rounds, in or out of it. A group without rounds, or
        without weight, has error 0.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes, groups, n_bins or sample_weight; the message names the argument, the value
        and its row.

    Examples
    --------
    Calibrated over all rounds, and wrong by 1/2 in each of two groups:

    >>> f, y = [0.5, 0.5, 0.5, 0.5], [0, 0, 1, 1]
    >>> everyone, left, right = [1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]
    >>> multicalibration_error(f, y, np.column_stack([everyone, left, right])).tolist()
    [0.0, 0.125, 0.125]
    """
    p, y, members = grouped_history(forecasts, outcomes, groups)
    level, _, _ = level_sets(p, n_bins)
    return violations_of_levels(p, y, members, level, check_weights(sample_weight, len(p), forecasts))


def group_mean_error(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    groups: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
) -> Floats:
    """Mean forecast minus mean outcome inside each group.

    Parameters
    ----------
    forecasts
        Probabilities, shape (n,).
    outcomes
        0/1 or boolean, shape (n,).
    groups
        Whether round i is in group g, boolean or 0/1, at [i, g]: shape (n, G). Groups may overlap and need
        not cover all rounds.
    sample_weight
        For how many rounds each counts, shape (n,), at least 0; None: for one.

    Returns
    -------
    float64 array of shape (G,)
        Averages over the rounds of each group: above 0 where forecasts are too high, NaN for groups without
        rounds or weight.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes, groups or sample_weight; the message names the argument, the value and its
        row.
    """
    p, y, members = grouped_history(forecasts, outcomes, groups)
    weights = check_weights(sample_weight, len(p), forecasts)
    # sums of numpy have the same bits everywhere, and products of BLAS have not
    counts, biases = (
        np.array([terms[inside].sum() for inside in members.T]) for terms in (weights, weights * (p - y))
    )
    with np.errstate(invalid="ignore"):
        return np.asarray(biases / np.where(counts == 0, np.nan, counts))


def functional_multicalibration_error(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    functions: ArrayLike,
    *,
    n_bins: int | None = None,
    sample_weight: ArrayLike | None = None,
) -> Floats:
    """How wrong forecasts are as test functions h see it, functions of the features with real values.

    With the rounds sorted into level sets, those of one forecast v, it is the sum over v of P(f=v) E[h(x)
    (y - v) | f=v]^2: P(f=v) is the level set's share of the rounds, E the average over its rounds. Papers
    write it K2(f, h).

    If h is 1 inside a group and 0 outside, this is at most the group's `multicalibration_error`, and less if
    the group is only a part of a level set, since the part's share counts squared here. If one of the two is
    0, both are.

    Parameters
    ----------
    forecasts
        Probabilities, shape (n,).
    outcomes
        Real numbers in [0, 1] or boolean, shape (n,).
    functions
        Values h(x) of each test function at each round, finite, shape (n, H); (n,) for a single one.
    n_bins
        None: a level set is all rounds with exactly the same forecast. A number m: all forecasts that round
        to the same i/m (halves go up) share one, and their mean stands for v.
    sample_weight
        For how many rounds each counts, shape (n,), at least 0; None: for one.

    Returns
    -------
    float64 array of shape (H,)
        One error for each function, an average over all rounds.

    Raises
    ------
    ValueError
        Bad arguments; the message names the argument, the value and its row.
    """
    p = check_probabilities(forecasts)
    y = check_probabilities(outcomes, "outcomes")
    check_same_length(p, y, "forecasts and outcomes")
    check_order_of(p, y)
    values = as_array(functions, "functions", "a table of numbers")
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) != len(p):
        raise ValueError(
            f"functions must have a row for each of {len(p)} forecasts, got shape {values.shape}"
        )
    values = as_numbers(values, "functions must be numbers")
    refuse(~np.isfinite(values), values, "functions must be finite", axes=("row", "column"))
    weights = check_weights(sample_weight, len(p), forecasts)
    level, order, starts = level_sets(p, n_bins)
    # a level set without weight adds nothing: its sums are 0
    counts = np.maximum(np.bincount(level, weights), np.finfo(np.float64).tiny)
    centred = p if n_bins is None else (np.bincount(level, weights * p) / counts)[level]
    sums = np.add.reduceat((values * (weights * (y - centred))[:, None])[order], starts[:-1], axis=0)
    return np.asarray((sums**2 / counts[:, None]).sum(axis=0) / weights.sum())


def level_sets(p: Floats, n_bins: int | None) -> tuple[Ints, Ints, Ints]:
    """Level sets in use, by increasing forecast.

    Returns
    -------
    level
        The level set of each round, 0..K-1, shape (n,).
    order
        Round numbers sorted by level set (ties by round), shape (n,).
    starts
        Where each level set begins in `order`, and its end; shape (K + 1,).
    """
    keys: NDArray[Any] = p
    if n_bins is not None:
        keys = grid_level(p, check_count(n_bins, "n_bins"))
        # numbers of 16 bits are sorted by counting
        keys = keys.astype(np.uint16) if n_bins < 1 << 16 else keys
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    new = np.flatnonzero(ranked[1:] != ranked[:-1]) + 1
    starts = np.concatenate([[0], new, [len(p)]]).astype(np.int64)
    level = np.empty(len(p), np.int64)
    level[order] = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return level, order.astype(np.int64), starts


def grid_level(p: Floats, n_bins: int) -> Ints:
    """The number i of the nearest grid point i/m; halves go up."""
    return np.floor(p * n_bins + 0.5).astype(np.int64)


def violations_of_levels(
    p: Floats, y: NDArray[np.uint8], members: NDArray[np.bool_], level: Ints, weights: Floats
) -> Floats:
    """mu(g) K2(f, g) for level sets as `level_sets` returns them; shape (G,)."""
    violations = np.zeros(members.shape[1])
    for g, inside in enumerate(members.T):
        counts, forecasts, outcomes = sums_of_levels(p, y, level, weights, inside)
        # a group may have no rounds, or none that has a weight
        if len(counts):
            # sums in the order of the levels have the same bits everywhere
            violations[g] = np.cumsum((forecasts - outcomes) ** 2 / counts)[-1]
    return violations / weights.sum()


def sums_of_levels(
    p: Floats, y: NDArray[np.uint8], level: Ints, weights: Floats, inside: NDArray[np.bool_]
) -> tuple[Floats, Floats, Floats]:
    """Sums of the weights, and of p and y times the weights, over the level sets of some rounds; (K,) each.

    Level sets without weight are left out.
    """
    where, w = level[inside], weights[inside]
    sums = np.array([np.bincount(where, w * terms) for terms in (1.0, p[inside], y[inside])], np.float64)
    counts, forecasts, outcomes = sums[:, sums[0] > 0.0]
    return counts, forecasts, outcomes


@dataclass(frozen=True)
class WorstLevelSet:
    """The rounds of one group that share a forecast, or a bin of forecasts.

    Attributes
    ----------
    forecast, outcome
        Mean forecast and mean outcome of these rounds.
    count
        The number of these rounds, or the sum of their weights.
    violation
        What they add to the group's violation: count/n (forecast - outcome)^2 with n all rounds.
    """

    forecast: float
    outcome: float
    count: float
    violation: float


@dataclass(frozen=True)
class GroupLine:
    """One group of a `MulticalibrationReport`.

    `violation` and `noise` are averages over all rounds, the other averages are over the group's rounds.

    Attributes
    ----------
    name
        The group's name.
    count, mass
        How many rounds are in the group, or the sum of their weights, and their share of all rounds.
    forecast, outcome
        Mean forecast and mean outcome; NaN in an empty group, as is `squared_error`.
    squared_error
        Mean of (forecast - outcome)^2, the Brier score within the group.
    violation
        The group's `multicalibration_error`: the sum over its level sets of (their share of all rounds) times
        (mean forecast - mean outcome)^2.
    noise
        The `violation` that chance alone is expected to cause when every forecast is right.
    n_level_sets
        How many level sets, different forecasts or bins of forecasts, the group's rounds have.
    worst
        The level set that adds most to the violation, with `forecast` and `outcome` (means), `count` and
        `violation` (what it adds); None in an empty group.
    """

    name: str
    count: float
    mass: float
    forecast: float
    outcome: float
    squared_error: float
    violation: float
    noise: float
    n_level_sets: int
    worst: WorstLevelSet | None


@dataclass(frozen=True)
class MulticalibrationReport(Shown):
    """How calibrated forecasts are inside each group; printing it shows a table, the worst group first.

    Attributes
    ----------
    lines
        A `GroupLine` for each group, a tuple in the order of the groups.
    n_rounds
        The number of all rounds, in a group or not, or the sum of their weights.
    """

    lines: tuple[GroupLine, ...]
    n_rounds: float

    @property
    def worst(self) -> GroupLine:
        """The `GroupLine` with the largest violation, of several the first."""
        return max(self.lines, key=lambda line: line.violation)

    def rows(self) -> list[dict[str, Any]]:
        """One flat dictionary for each group, in the order of the groups, ready for a data frame.

        The keys are the attributes of `GroupLine`, with four keys in place of `worst`: `worst_forecast`,
        `worst_outcome`, `worst_count` and `worst_violation`, which are None in an empty group.
        """
        flat = []
        for line in self.lines:
            row = asdict(line)
            worst = row.pop("worst") or dict.fromkeys(("forecast", "outcome", "count", "violation"))
            flat.append({**row, **{f"worst_{key}": value for key, value in worst.items()}})
        return flat

    def _shown(self) -> Table:
        lines = sorted(self.lines, key=lambda line: -line.violation)
        most = lines[0].violation or 1.0
        header = ("group", "rounds", "forecast", "outcome", "Brier score", "violation", "", "by chance")
        rows = [
            (
                line.name, line.count, line.forecast, line.outcome, line.squared_error, line.violation,
                Bar(0.0, line.violation / most), line.noise,
            )
            for line in lines
        ]  # fmt: skip
        return Table(f"Calibration of {len(lines):,} groups, {self.n_rounds:,} rounds", header, rows)

    def __str__(self) -> str:
        width = max(len("group"), *(len(line.name) for line in self.lines))
        head = f"{'group':{width}} {'rounds':>9} {'mass':>6} {'forecast':>8} {'outcome':>8} {'brier':>7}"
        out = [f"{head} {'mu K2':>9} {'chance':>9}  worst level set"]
        for line in sorted(self.lines, key=lambda line: -line.violation):
            text = f"{line.name:{width}} {line.count:9.10g} {line.mass:6.3f} {line.forecast:8.4f}"
            text += f" {line.outcome:8.4f} {line.squared_error:7.4f} {line.violation:9.6f} {line.noise:9.6f}"
            if line.worst:
                worst = line.worst
                text += f"  {worst.forecast:.3f} -> {worst.outcome:.3f} in {worst.count}"
            out.append(text)
        return "\n".join(out)


def multicalibration_report(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    groups: ArrayLike,
    *,
    n_bins: int | None = None,
    names: Sequence[str] | None = None,
    sample_weight: ArrayLike | None = None,
) -> MulticalibrationReport:
    """How calibrated forecasts are inside each group: rounds, means, errors and the worst level set.

    Printing the answer shows a table. Level sets are the rounds of one forecast, or of one bin of forecasts.

    Parameters
    ----------
    forecasts
        Probabilities, shape (n,).
    outcomes
        0/1 or boolean, shape (n,).
    groups
        Whether round i is in group g, boolean or 0/1, at [i, g]: shape (n, G). Groups may overlap.
    n_bins
        None: a level set is all rounds with exactly the same forecast. A number m: all forecasts that round
        to the same i/m (halves go up) share one.
    sample_weight
        For how many rounds each counts, shape (n,), at least 0; None: for one. Counts are then sums of
        weights.
    names
        One name for each group; None: the names of the columns if `groups` is a data frame, else their
        numbers from 0.

    Returns
    -------
    MulticalibrationReport
        Its `lines` are a `GroupLine` for each group, in the order of the columns.

    Raises
    ------
    ValueError
        Bad arguments; the message names the argument, the value and its row.

    Examples
    --------
    >>> report = multicalibration_report([0.5, 0.5, 0.2], [0, 1, 1], [[1], [0], [1]], names=["a"])
    >>> report.worst.name, report.worst.worst.count, round(report.worst.violation, 2)
    ('a', 1, 0.3)
    """
    p, y, members = grouped_history(forecasts, outcomes, groups)
    if names is None:
        names = [str(name) for name in getattr(groups, "columns", range(members.shape[1]))]
    if not isinstance(names, Iterable):
        raise ValueError(f"names must be a name for each group, in a list, got {shown(names)}")
    names = list(names)
    if len(names) != members.shape[1]:
        raise ValueError(f"names must be one for each of the {members.shape[1]} groups, got {len(names)}")
    level, _, _ = level_sets(p, n_bins)
    weights = check_weights(sample_weight, len(p), forecasts)
    lines = (
        _line(str(name), p, y, level, weights, inside) for name, inside in zip(names, members.T, strict=True)
    )
    return MulticalibrationReport(tuple(lines), total_of(weights))


def _line(
    name: str, p: Floats, y: NDArray[np.uint8], level: Ints, weights: Floats, inside: NDArray[np.bool_]
) -> GroupLine:
    n_rounds, count = float(weights.sum()), total_of(weights[inside])
    if not count:
        return GroupLine(name, 0, 0.0, math.nan, math.nan, math.nan, 0.0, 0.0, 0, None)
    counts, forecasts, outcomes = sums_of_levels(p, y, level, weights, inside)
    means, violations = forecasts / counts, (forecasts - outcomes) ** 2 / counts / n_rounds
    k = int(violations.argmax())
    worst = WorstLevelSet(
        float(means[k]), float(outcomes[k] / counts[k]), total_of(counts[k]), float(violations[k])
    )
    return GroupLine(
        name,
        count,
        count / n_rounds,
        float(forecasts.sum()) / count,
        float(outcomes.sum()) / count,
        float(np.average((p[inside] - y[inside]) ** 2, weights=weights[inside])),
        float(violations.sum()),
        float((means * (1.0 - means)).sum()) / n_rounds,
        len(counts),
        worst,
    )
