"""The forecasters of several classes by name: from a spec such as "simplex:slack=1" to a player."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from adversaries.specs import join_spec
from onlinecal.forecasters.simplex.almost_one_step_ahead import REPORTS
from onlinecal.forecasters.simplex.guarantees import MOST_CELLS
from onlinecal.forecasters.simplex.input import MOST_SLACK, check_slack
from simulations.games.multiclass.baselines import Baseline
from simulations.games.multiclass.rules import MulticlassForecaster, SimplexPlayer
from simulations.games.options import Option, read_settings

SLACK = Option("slack", None, low=0.5, high=MOST_SLACK)
CELLS = Option("cells", None, low=1, high=MOST_CELLS, whole=True)
REPORT = Option("report", REPORTS[0], choices=REPORTS)


@dataclass(frozen=True)
class MulticlassFamily:
    """One entry of the catalogue: name, what it does, (settings, k, T) -> a fresh forecaster, its options."""

    name: str
    summary: str
    build: Callable[[Mapping[str, Any], int, int], MulticlassForecaster]
    options: tuple[Option, ...] = ()


def _simplex(settings: Mapping[str, Any], n_classes: int, rounds: int) -> MulticlassForecaster:
    check_slack(settings["slack"], n_classes)
    return SimplexPlayer(n_classes, settings["cells"], rounds, settings["slack"], settings["report"])


def _nested(settings: Mapping[str, Any], n_classes: int, rounds: int) -> MulticlassForecaster:
    check_slack(settings["slack"], n_classes)
    return SimplexPlayer(n_classes, slack=settings["slack"], report=settings["report"])


FAMILIES = {
    family.name: family
    for family in (
        MulticlassFamily("simplex", "on a grid for T rounds", _simplex, (SLACK, CELLS, REPORT)),
        MulticlassFamily("nested", "no horizon: the grid doubles as rounds go by", _nested, (SLACK, REPORT)),
        MulticlassFamily("uniform", "all classes alike", lambda settings, k, rounds: Baseline(k)),
        MulticlassFamily(
            "frequencies",
            "how often each class came so far",
            lambda settings, k, rounds: Baseline(k, settings["prior"]),
            (Option("prior", 1.0, low=1e-9, high=1e9),),
        ),
    )
}


@dataclass(frozen=True)
class MulticlassPlayer:
    """A forecaster to be built for any number of classes and rounds; `spec` is in canonical form."""

    spec: str
    family: MulticlassFamily
    settings: Mapping[str, Any]

    def build(self, n_classes: int, rounds: int) -> MulticlassForecaster:
        """A fresh forecaster; ValueError if its settings do not go with the number of classes."""
        return self.family.build(self.settings, n_classes, rounds)


def create_player(spec: str) -> MulticlassPlayer:
    """The player that a spec describes; ValueError for anything unknown, with a list of what is known.

    Examples
    --------
    >>> create_player("simplex:slack=1.0").spec
    'simplex:slack=1'
    """
    name, colon, rest = spec.partition(":")
    family = FAMILIES.get(name.strip())
    if family is None:
        close = difflib.get_close_matches(name.strip(), FAMILIES, n=1)
        suggestion = f"; did you mean {close[0]!r}?" if close else "."
        raise ValueError(
            f"unknown forecaster of several classes {name!r}{suggestion} Known: {', '.join(FAMILIES)}"
        )
    given = read_settings(rest, family.options, family.name, spec) if colon else {}
    settings = {option.name: option.default for option in family.options} | dict(given)
    changed = {
        option.name: value
        for option in family.options
        if (value := settings[option.name]) is not None and value != option.default
    }
    return MulticlassPlayer(join_spec(family.name, changed), family, settings)
