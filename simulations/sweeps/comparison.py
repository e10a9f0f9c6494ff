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

    from simulations.games.multiclass.measuring import MeasuredMulticlass


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
