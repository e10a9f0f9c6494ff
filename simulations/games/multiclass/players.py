"""The forecasters of several classes by name: from a spec such as "simplex:slack=1" to a player."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from onlinecal.catalogue import Catalogue, Entry
from onlinecal.forecasters.simplex.almost_one_step_ahead import REPORTS, SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex.guarantees import MOST_CELLS
from onlinecal.forecasters.simplex.input import MOST_SLACK
from onlinecal.specs import Parameter
from simulations.games.families import HINTS, PRIOR, WINDOW
from simulations.games.multiclass.baselines import Baseline
from simulations.games.multiclass.duel import MulticlassForecaster
from simulations.games.players import Chosen

SLACK = Parameter("slack", None, "how large a bias it lets pass", low=0.5, high=MOST_SLACK)
CELLS = Parameter("cells", None, "cells of its grid on a side", low=1, high=MOST_CELLS, form="whole")
REPORT = Parameter("report", None, "the point of a cell it announces", form=REPORTS)


@dataclass(frozen=True)
class MulticlassFamily(Entry):
    """One entry of the catalogue; `build` is (settings, k, T) -> a fresh forecaster."""

    build: Callable[[Mapping[str, Any], int, int], MulticlassForecaster]
    parameters: tuple[Parameter, ...] = ()

    @property
    def made_by(self) -> object:
        """What builds it."""
        return self.build


def _adaptive(settings: Mapping[str, Any], n_classes: int, rounds: int) -> MulticlassForecaster:
    shared = {name: settings[name] for name in ("slack", "report", "hints")}
    return SimplexAlmostOneStepAhead(n_classes, grid="adaptive", **shared).new_run()


def _simplex(settings: Mapping[str, Any], n_classes: int, rounds: int | None) -> MulticlassForecaster:
    shared = {name: settings[name] for name in ("slack", "report", "hints")}
    window = settings.get("window")
    horizon = rounds if window is None else None
    return SimplexAlmostOneStepAhead(
        n_classes, settings.get("cells"), horizon, window=window, **shared
    ).new_run()


CATALOGUE: Catalogue[MulticlassFamily] = Catalogue(
    "forecaster of several classes",
    (
        MulticlassFamily(
            "simplex", "on a grid for T rounds", _simplex, (SLACK, CELLS, REPORT, WINDOW, HINTS)
        ),
        MulticlassFamily(
            "nested",
            "no horizon: the grid doubles as rounds go by",
            lambda settings, k, rounds: _simplex(settings, k, None),
            (SLACK, REPORT, HINTS),
        ),
        MulticlassFamily(
            "adaptive",
            "no horizon: the grid is finer where few points are in use",
            _adaptive,
            (SLACK, REPORT, HINTS),
        ),
        MulticlassFamily("uniform", "all classes alike", lambda settings, k, rounds: Baseline(k)),
        MulticlassFamily(
            "frequencies",
            "how often each class came so far",
            lambda settings, k, rounds: Baseline(k, settings["prior"]),
            (PRIOR,),
        ),
    ),
)


class MulticlassPlayer(Chosen[MulticlassFamily]):
    """A forecaster to be built for any number of classes and rounds."""

    def build(self, n_classes: int, rounds: int, hinted: bool = False) -> MulticlassForecaster:
        """A fresh forecaster, with hints or not; ValueError if its settings do not go with the game."""
        return self.family.build(self.made_for(hinted), n_classes, rounds)


def create_player(spec: str) -> MulticlassPlayer:
    """The player that a spec describes; ValueError for anything unknown, with a list of what is known.

    Examples
    --------
    >>> create_player("simplex:slack=1.0").spec
    'simplex:slack=1'
    """
    return MulticlassPlayer.read(CATALOGUE, spec)
