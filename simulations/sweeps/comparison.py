"""Measured games side by side: a table for people, records for machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from onlinecal.cli.output import table
from onlinecal.tables import number
from simulations.games import players
from simulations.games.measuring import Measured

if TYPE_CHECKING:
    from rich.table import Table


def comparison(measured: Sequence[Measured], title: str) -> Table:
    """A column per forecaster, a line per measure: the sum over rounds, then in brackets the average."""
    lines: list[tuple[str, Callable[[Measured], str]]] = [
        ("ECE", lambda one: _both(one.ece, one.rounds)),
        ("distance to calibration", _bracket),
        ("certificate", lambda one: _both(one.certificate, one.rounds)),
        ("guarantee", lambda one: _both(one.guarantee, one.rounds)),
        ("theorem's bound", _theorem),
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


def _bracket(one: Measured) -> str:
    low, high = number(one.distance_lower), number(one.distance_upper)
    return f"{high if low == high else f'{low} … {high}'} ({one.distance_upper / one.rounds:.4f})"


def _theorem(one: Measured) -> str:
    if one.bound is None:
        return "–"
    label = players.create(one.forecaster).bound_label
    return number(one.bound) if label is None else f"{label} = {number(one.bound)}"
