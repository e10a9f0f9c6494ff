"""How fast errors grow: fitted exponents of T, with standard errors, from the games of a sweep.

The exponent of a forecaster against an adversary is the slope of log(error) against log(T). What counts as
an independent observation is a seed, not a game: the draws of a short game are the first ones of the long
games with the same seed, so a lucky start lifts or lowers them together. One line is therefore fitted per
seed, the exponent is the mean of their slopes, and its standard error their deviation / sqrt(seeds). Where
that says too little (one seed, nothing random, few seeds that happen to agree, a curve that is no straight
line), the residuals of the line through the means over seeds say more: of both errors the larger counts.

Errors below half a round count as half a round: what stays that small does not grow, and reads as exponent 0.

A fitted exponent is that of the games that were played. An error of a sqrt(T) less something smaller has a
slope above 1/2 that falls as T grows; no standard error says so. Of the distance it is the upper end of the
bracket that is fitted: where brackets open up as T grows, more effort (`budget`) lowers the exponent.

Measured games side by side: a table for people, records for machines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from onlinecal.cli.output import table
from onlinecal.tables import number
from simulations.games import players
from simulations.games.measuring import Measured

if TYPE_CHECKING:
    from rich.table import Table

    from simulations.games.multiclass.measuring import MeasuredMulticlass


MEASURES = {"distance": "distance_upper", "ece": "ece", "certificate": "certificate", "regret": "regret"}
"""What is fitted, and the column of results that it is.

The distance is taken by the upper end of its bracket, the regret is the Brier score beyond that of the best
constant forecast in hindsight.
"""

NOMINAL = {"distance": 1 / 2, "ece": 2 / 3, "certificate": 1 / 2, "regret": 1 / 2}
"""The exponent at which the constant is taken."""

LEAST = 0.5
"""Errors below half a round count as half a round."""

SCHEMA = {
    "forecaster": pl.String,
    "adversary": pl.String,
    "measure": pl.String,
    "exponent": pl.Float64,
    "standard_error": pl.Float64,
    "nominal": pl.Float64,
    "constant": pl.Float64,
    "n_seeds": pl.Int64,
    "n_rounds": pl.Int64,
    "most_rounds": pl.Int64,
}


class Rate(NamedTuple):
    """A fitted exponent of T; its standard error is None where nothing says how wrong it may be."""

    exponent: float
    standard_error: float | None


def fit(rounds: ArrayLike, seeds: ArrayLike, errors: ArrayLike) -> Rate | None:
    """The growth of errors, sums over rounds, one per game; None without two values of T for some seed.

    Parameters
    ----------
    rounds, seeds, errors
        T, seed and error of each game, equally long; a seed need not have played every T.
    """
    x = np.log(np.asarray(rounds, dtype=np.float64))
    y = np.log(np.maximum(np.asarray(errors, dtype=np.float64), LEAST))
    owners = np.asarray(seeds)
    parts = [owners == seed for seed in np.unique(owners)]
    # less the first value, so that of equal ones the slope is exactly 0
    slopes = [
        float(np.polyfit(x[part], y[part] - y[part][0], 1)[0])
        for part in parts
        if len(np.unique(x[part])) > 1
    ]
    if not slopes:
        return None
    candidates = []
    if len(slopes) > 1:
        candidates.append(float(np.std(slopes, ddof=1)) / math.sqrt(len(slopes)))
    places, group = np.unique(x, return_inverse=True)
    if len(places) > 2:
        _, covariance = np.polyfit(places, np.bincount(group, y) / np.bincount(group), 1, cov=True)
        candidates.append(math.sqrt(covariance[0, 0]))
    return Rate(float(np.mean(slopes)), max(candidates, default=None))


def rates_table(results: pl.DataFrame) -> pl.DataFrame:
    """One row per forecaster, adversary and measure; empty if no pair has played two values of T.

    Columns: forecaster, adversary, measure (a key of `MEASURES`), exponent, standard_error (null if there is
    one seed and two values of T), nominal (an exponent that theory names), constant (the largest error /
    T^nominal of all games), n_seeds, n_rounds (how many values of T), most_rounds (the largest).
    """
    rows = []
    for (forecaster, adversary), games in results.group_by("forecaster", "adversary", maintain_order=True):
        for measure, column in MEASURES.items():
            known = games.select("rounds", "seed", pl.col(column).cast(pl.Float64)).drop_nulls()
            rounds, seeds, errors = (known[name].to_numpy() for name in ("rounds", "seed", column))
            rate = fit(rounds, seeds, errors)
            if rate is None:
                continue
            nominal = NOMINAL[measure]
            constant = float((np.maximum(errors, LEAST) / rounds**nominal).max())
            several = len(np.unique(seeds)), len(np.unique(rounds)), int(rounds.max())
            rows.append((forecaster, adversary, measure, *rate, nominal, constant, *several))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def comparison(measured: Sequence[Measured], title: str) -> Table:
    """A column per forecaster, a line per measure: the sum over rounds, then in brackets the average."""
    lines: list[tuple[str, Callable[[Measured], str]]] = [
        ("ECE", lambda one: _both(one.ece, one.rounds)),
        ("distance to calibration", _bracket),
        ("certificate", lambda one: _both(one.certificate, one.rounds)),
        ("guarantee", lambda one: _both(one.guarantee, one.rounds)),
        ("theorem's bound", _theorem),
        *(WINDOWS if any(one.window for one in measured) else ()),
        ("Brier score", lambda one: _both(one.brier, one.rounds)),
        ("Brier score of the best constant", lambda one: _both(one.brier_constant, one.rounds)),
        ("Brier regret", lambda one: _both(one.regret, one.rounds)),
        ("its bound, 2 × distance", lambda one: _both(one.regret_bound, one.rounds)),
    ]
    return table(
        f"{title}: sums over rounds (averages)",
        ["", *(one.forecaster for one in measured)],
        [(name, *(show(one) for one in measured)) for name, show in lines],
    )


def machine_readable(
    measured: Sequence[Measured],
    broken: Sequence[str],
    pictures: Sequence[Path],
    remarks: Sequence[str] = (),
) -> dict[str, Any]:
    """The games as plain records, with what is derived from them."""
    games = [
        {**msgspec.structs.asdict(one), "regret": one.regret, "regret_bound": one.regret_bound}
        for one in measured
    ]
    return {
        "games": games,
        "broken": list(broken),
        "warnings": list(remarks),
        "pictures": [str(path) for path in pictures],
    }


def _both(value: float | None, rounds: int) -> str:
    return "–" if value is None else f"{number(value)} ({value / rounds:.4f})"


def _of_window(one: Measured | MeasuredMulticlass, value: float | None) -> str:
    return "–" if one.window is None else _both(value, min(one.window, one.rounds))


WINDOWS: tuple[tuple[str, Callable[[Measured | MeasuredMulticlass], str]], ...] = (
    ("window: the last rounds", lambda one: "–" if one.window is None else f"{one.window:,}"),
    ("certificate of the window", lambda one: _of_window(one, one.window_certificate)),
    ("guarantee of any such window", lambda one: _of_window(one, one.window_guarantee)),
)
"""What a table says of forecasters with a window, of two classes or more."""


def _bracket(one: Measured) -> str:
    low, high = number(one.distance_lower), number(one.distance_upper)
    return f"{high if low == high else f'{low} … {high}'} ({one.distance_upper / one.rounds:.4f})"


def _theorem(one: Measured) -> str:
    if one.bound is None:
        return "–"
    player = players.create(one.forecaster)
    by_formula = player.bound_label is not None and player.bound(one.rounds) == one.bound
    return f"{player.bound_label} = {number(one.bound)}" if by_formula else number(one.bound)
