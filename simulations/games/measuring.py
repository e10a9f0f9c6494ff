"""What one game was worth: the errors of its forecasts, and the bounds they were promised to keep."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from adversaries import Adversary, MulticlassAdversary
from onlinecal.arrays import Floats
from onlinecal.measures.summary import summarize, unkept
from simulations.games.duel import Duel, play
from simulations.games.players import Player, finite

OF_WINDOWS = ("window", "window_certificate", "window_guarantee")


class Regret:
    """What follows from a Brier score and a distance to calibration."""

    __slots__ = ()
    brier: float
    brier_constant: float
    distance_upper: float

    @property
    def regret(self) -> float:
        """Brier score beyond that of the best constant; at most twice the distance to calibration."""
        return self.brier - self.brier_constant

    @property
    def regret_bound(self) -> float:
        """2 x the upper end of the distance to calibration."""
        return 2.0 * self.distance_upper

    def record(self) -> dict[str, Any]:
        """The game as a plain record, with what is derived from it."""
        fields = msgspec.structs.asdict(cast(msgspec.Struct, self))
        return {**fields, "regret": self.regret, "regret_bound": self.regret_bound}


class Measured(Regret, msgspec.Struct, frozen=True):
    """One line of a table of results. All errors are sums over rounds; divide by `rounds` for averages.

    Attributes
    ----------
    forecaster, adversary
        Canonical specs, or names of recorded streams and forecasts.
    rounds, seed
        T, and the seed of the adversary's draws.
    ones
        How many outcomes were 1.
    ece
        Expected calibration error, grouped by exact forecast.
    distance_lower, distance_upper
        Where the distance to calibration lies.
    certificate, guarantee, bound
        The forecaster's running proof at the end, what it cannot exceed, and the closed form above that;
        None where there is none.
    brier, brier_constant
        Sum of (p - y)^2 of the forecasts, and of the best constant forecast in hindsight.
    seconds
        Time taken to play and to measure.
    window
        Of how many rounds the forecaster also keeps a certificate, as its spec says; None without.
    window_certificate, window_guarantee
        Its proof for the last so many rounds, and what that cannot exceed for any of them in a row; None
        where there is none.
    """

    forecaster: str
    adversary: str
    rounds: int
    seed: int
    ones: int
    ece: float
    distance_lower: float
    distance_upper: float
    certificate: float | None
    guarantee: float | None
    bound: float | None
    brier: float
    brier_constant: float
    seconds: float
    window: int | None = None
    window_certificate: float | None = None
    window_guarantee: float | None = None

    def broken_bounds(self) -> list[str]:
        """Every inequality of the theory that this game did not keep, in words; empty if all is well."""
        ladder = [
            ("distance to calibration", self.distance_upper),
            ("certificate", self.certificate),
            ("guarantee", self.guarantee),
            ("theorem's bound", self.bound),
        ]
        steps = [(*lower, *higher) for lower, higher in pairwise(ladder)]
        regret = ("Brier regret", self.regret, "2 x distance to calibration", self.regret_bound)
        of_window = "window guarantee", self.window_guarantee
        window = ("window certificate", self.window_certificate, *of_window)
        return unkept([regret, *steps, window], self.rounds)


M = TypeVar("M", bound=Regret)


@dataclass(frozen=True, eq=False)
class Played(Generic[M]):
    """A game in full, for pictures of one run.

    Attributes
    ----------
    forecasts, outcomes
        Round by round, shape (T,); with k classes of shapes (T, k) and (T,).
    duel
        Charged values, certificates and guarantees as the game went on; None for recorded forecasts.
    measured
        The line of the table.
    witness
        A perfectly calibrated sequence `distance_upper` away, shape (T,); None for several classes.
    """

    forecasts: Floats
    outcomes: NDArray[Any]
    duel: Duel | None
    measured: M
    witness: Floats | None = None


Game = Played[Measured]


def play_and_measure(
    player: Player,
    adversary: Adversary,
    rounds: int,
    *,
    seed: int = 0,
    hints: Floats | None = None,
    budget: float = 1.0,
    rtol: float = 0.0,
    n_checkpoints: int = 200,
    progress: Callable[[int], None] | None = None,
) -> Game:
    """Play a game of so many rounds and measure it.

    The seed is that of the forecaster's draws, budget and rtol are those of the distance. Of a reference
    that answers after the outcome, the answers are measured.
    """
    begin = time.perf_counter()
    forecaster = player.build(rounds, seed, hints is not None)
    duel = play(forecaster, adversary, rounds, hints, n_checkpoints, progress, player.draw)
    return _measure(
        duel.charged if player.family.kind == "reference" else duel.forecasts,
        duel.outcomes,
        begin,
        budget=budget,
        rtol=rtol,
        duel=duel,
        forecaster=player.spec,
        adversary=adversary.name,
        seed=seed_of(adversary),
        promised={
            "certificate": forecaster.certificate,
            "guarantee": finite(float(duel.guarantees[-1])),
            "bound": player.bound(rounds, hints is not None),
            **{name: getattr(forecaster, name, None) for name in OF_WINDOWS},
        },
    )


def seed_of(adversary: Adversary | MulticlassAdversary) -> int:
    """The seed as tables keep it: 0 where it is not one number."""
    return adversary.seed if isinstance(adversary.seed, int) else 0


def measure_recorded(
    forecasts: Floats, outcomes: NDArray[np.uint8], name: str, stream: str, *, budget: float = 1.0
) -> Game:
    """Measure forecasts that someone else made for a stream."""
    return _measure(
        forecasts, outcomes, time.perf_counter(), budget=budget, duel=None, forecaster=name, adversary=stream
    )


def _measure(
    forecasts: Floats,
    outcomes: NDArray[np.uint8],
    begin: float,
    *,
    budget: float,
    rtol: float = 0.0,
    duel: Duel | None,
    forecaster: str,
    adversary: str,
    seed: int = 0,
    promised: Mapping[str, Any] = MappingProxyType(dict.fromkeys(("certificate", "guarantee", "bound"))),
) -> Game:
    look_ahead = None if duel is None else duel.charged
    one = summarize(forecasts, outcomes, look_ahead=look_ahead, budget=budget, rtol=rtol)
    measured = Measured(
        forecaster=forecaster,
        adversary=adversary,
        rounds=one.rounds,
        seed=seed,
        ones=int(one.ones),
        ece=one.ece,
        distance_lower=one.distance.lower,
        distance_upper=one.distance.upper,
        brier=one.brier,
        brier_constant=one.brier_constant,
        seconds=time.perf_counter() - begin,
        **promised,
    )
    return Game(forecasts, outcomes, duel, measured, one.distance.witness)
