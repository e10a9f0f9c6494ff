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
from simulations.games.families import PRIOR, WINDOW
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
    slack, report = settings["slack"], settings["report"]
    return SimplexAlmostOneStepAhead(n_classes, slack=slack, report=report, grid="adaptive").new_run()


def _simplex(settings: Mapping[str, Any], n_classes: int, rounds: int | None) -> MulticlassForecaster:
    slack, report, window = settings["slack"], settings["report"], settings.get("window")
    horizon = rounds if window is None else None
    return SimplexAlmostOneStepAhead(
        n_classes, settings.get("cells"), horizon, slack, report=report, window=window
    ).new_run()


CATALOGUE: Catalogue[MulticlassFamily] = Catalogue(
    "forecaster of several classes",
    (
        MulticlassFamily("simplex", "on a grid for T rounds", _simplex, (SLACK, CELLS, REPORT, WINDOW)),
        MulticlassFamily(
            "nested",
            "no horizon: the grid doubles as rounds go by",
            lambda settings, k, rounds: _simplex(settings, k, None),
            (SLACK, REPORT),
        ),
        MulticlassFamily(
            "adaptive",
            "no horizon: the grid is finer where few points are in use",
            _adaptive,
            (SLACK, REPORT),
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
    return MulticlassPlayer.read(CATALOGUE, spec)
