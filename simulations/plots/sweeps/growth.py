"""What `landscape` and `matrix` share: how each measure is called, and how exponents are written."""

from __future__ import annotations

import polars as pl

from simulations.sweeps.rates import MEASURES

NAMES = {
    "distance": "distance to calibration",
    "ece": "expected calibration error (ECE)",
    "certificate": "certificate",
    "regret": "Brier regret",
}

FRACTIONS = {1 / 3: "1/3", 1 / 2: "1/2", 2 / 3: "2/3", 1.0: "1"}
"""The exponents that theory knows."""

FLOOR = "Errors below half a round count as half a round."


def check_measure(measure: str) -> None:
    """ValueError with those there are, unless it is one of them."""
    if measure not in MEASURES:
        raise ValueError(f"unknown measure {measure!r}; known: {', '.join(MEASURES)}")


def check_growth(results: pl.DataFrame, figure: str) -> None:
    """ValueError for results of a single number of rounds: they say nothing of growth."""
    if results["rounds"].n_unique() < 2:
        raise ValueError(
            f"figure {figure!r} shows how errors grow with T; "
            f"these games all have the same number of rounds, {results['rounds'][0]}"
        )


def fixed(value: float) -> str:
    """Two decimals, and no minus before zero."""
    return f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def plus_minus(exponent: float, error: float | None) -> str:
    """An exponent and its standard error."""
    return fixed(exponent) if error is None else f"{fixed(exponent)} ± {fixed(error)}"
