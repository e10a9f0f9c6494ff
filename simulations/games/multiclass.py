"""Games of several classes: forecasters by name, the compiled loop in which they play, what a game was worth.

Two plain forecasters of several classes, for comparison: nothing is promised of them in every game.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Protocol, SupportsFloat

import msgspec
import numpy as np
from numpy.typing import NDArray

from adversaries import MulticlassAdversary
from onlinecal.arrays import Floats
from onlinecal.catalogue import Catalogue, Entry, Parameter
from onlinecal.compiling import compiled, kernel_part
from onlinecal.forecasters.rules import check_expected
from onlinecal.forecasters.simplex.almost_one_step_ahead import REPORTS, SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex.guarantees import MOST_CELLS
from onlinecal.forecasters.simplex.input import MOST_SLACK, normalised
from onlinecal.forecasters.simplex.machine.rules import MulticlassRules
from onlinecal.forecasters.simplex.replaying import replayed
from onlinecal.forecasters.simplex.run import SimplexRun
from onlinecal.measures import classwise_calibration_error, multiclass_calibration_distance
from onlinecal.measures.summary import best_constant_brier, brier_score, unkept
from onlinecal.validation import check_probability_rows
from simulations.games.duel import ROUNDS_AT_A_TIME, Duel, check_rounds, log_spaced
from simulations.games.measuring import OF_WINDOWS, Played, Regret, seed_of
from simulations.games.players import HINTS, PRIOR, WINDOW, Chosen, finite


class MulticlassForecaster(Protocol):
    """A forecaster of k classes as the duel sees it: a `SimplexRun` is one."""

    rules: MulticlassRules

    @property
    def memory(self) -> NDArray[Any]:
        """Its state, changed in place by the rules."""

    @property
    def certificate(self) -> float:
        """What it can prove of its distance to calibration so far, a sum; NaN if nothing."""

    def grow(self) -> None:
        """Make room for at least one more round."""

    def promise(self, rounds: int) -> SupportsFloat:
        """What the certificate cannot exceed after so many rounds; NaN if nothing is promised."""


def play_multiclass(
    forecaster: MulticlassForecaster,
    adversary: MulticlassAdversary,
    rounds: int,
    hints: Floats | None = None,
    n_checkpoints: int = 200,
    progress: Callable[[int], None] | None = None,
) -> Duel:
    """Let a fresh forecaster play so many rounds against an adversary.

    Parameters
    ----------
    forecaster
        For as many classes as the adversary has; it is changed, and its window, if it has one, holds the
        last rounds.
    adversary
        Its phases are played from round 0; the object itself is left as it is.
    rounds
        T, at least 1.
    hints
        Class probabilities for each round, shape (T, k), or None.
    n_checkpoints
        About how many rounds, evenly spread on a logarithmic axis, get their certificate recorded.
    progress
        Called with the number of rounds played since the last call.

    Raises
    ------
    ValueError
        If the adversary has fewer outcomes than that, or the hints are not T rows of k probabilities.
    """
    check_rounds(rounds, adversary)
    k = adversary.n_classes
    guide = np.empty((0, k)) if hints is None else normalised(check_probability_rows(hints, "hints"))
    if hints is not None and guide.shape != (rounds, k):
        raise ValueError(f"hints must have the shape {(rounds, k)}, got {guide.shape}")
    if hints is not None:
        check_expected(getattr(forecaster, "hints", True), "hints")
    windowed = None
    if isinstance(forecaster, SimplexRun) and forecaster.window is not None:
        windowed, forecaster = forecaster, forecaster.without_window()
    rng = adversary.generator()
    checkpoints = log_spaced(rounds, max(n_checkpoints, 2))
    forecasts, charged = np.empty((rounds, k)), np.empty((rounds, k))
    outcomes, certificates = np.empty(rounds, np.int64), np.empty(len(checkpoints))
    done = place = 0
    for phase in adversary.phases:
        begin = done
        end = rounds if phase.rounds is None else min(rounds, begin + phase.rounds)
        loop = multiclass_loop(forecaster.rules, phase.step, phase.power == "internal")
        while done < end:
            first, stop = done, min(end, done + ROUNDS_AT_A_TIME)
            draws = rng.random(stop - first)
            while done < stop:
                until = min(stop, int(checkpoints[place]))
                shared = phase.state, begin, draws, first, guide, forecasts, outcomes, charged
                done = loop(forecaster.memory, *shared, done, until)
                if done < until:
                    forecaster.grow()
                elif done == checkpoints[place]:
                    certificates[place] = forecaster.certificate
                    place += 1
            if progress is not None:
                progress(stop - first)
    if windowed is not None:
        # the loop keeps no windows: a replay of the same rounds does
        replayed(windowed, outcomes, {}, guide, charged=False)
    guarantees = np.array([float(forecaster.promise(int(t))) for t in checkpoints])
    return Duel(forecasts, outcomes, charged, checkpoints, certificates, guarantees)


@cache
def multiclass_loop(rules: MulticlassRules, step: Callable[..., int], told: bool) -> Callable[..., int]:
    """The loop for a forecaster's rules and an adversary's step: compiled once, then kept on disk.

    It plays rounds `start`, `start` + 1, ..., `stop` - 1 (draws[0] belongs to round `first`) and returns the
    round it reached: less than `stop` if the forecaster's memory has no room. Only if it is `told`, the
    adversary learns by how much each outcome would raise the certificate.
    """
    has_room, announce, certificate_rises, point, settle = rules

    @compiled
    def loop(
        memory: NDArray[Any],
        state: Floats,
        begin: int,
        draws: Floats,
        first: int,
        hints: Floats,
        forecasts: Floats,
        outcomes: NDArray[np.int64],
        charged: Floats,
        start: int,
        stop: int,
    ) -> int:
        hinted, rises, no_hint = len(hints) > 0, np.zeros(forecasts.shape[1]), np.empty(0)
        for t in range(start, stop):
            if not has_room(memory):
                return t
            forecast = forecasts[t]
            frame = announce(memory, hints[t] if hinted else no_hint, forecast)
            if told:
                certificate_rises(memory, frame, forecast, rises)
            outcome = step(state, t - begin, forecast, rises, draws[t - first])
            outcomes[t] = outcome
            point(memory, frame, forecast, outcome, charged[t])
            settle(memory, frame, forecast, outcome)
        return stop

    return loop


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


class Baseline:
    """A forecaster whose memory is [prior, sum of (p - y) of each class..., rounds of each class...].

    With prior 0 all classes are always equally likely. With a prior above 0 they are as frequent as they
    have been, with so many imaginary rounds for each class: the running frequencies.
    """

    def __init__(self, n_classes: int, prior: float = 0.0) -> None:
        self.memory: NDArray[np.float64] = np.array([prior, *[0.0] * (2 * n_classes)])
        self.rules = BASELINE

    @property
    def certificate(self) -> float:
        """NaN: nothing is proven as the game goes on."""
        return math.nan

    def grow(self) -> None:
        """Nothing grows."""

    def promise(self, rounds: int) -> float:
        """NaN: nothing is promised."""
        return math.nan


@kernel_part
def has_room(memory: Floats) -> bool:
    """Always."""
    return True


@kernel_part
def announce(memory: Floats, hint: Floats, forecast: Floats) -> int:
    """All alike, or the frequencies; hints are not heeded."""
    k, prior = len(forecast), memory[0]
    rounds = 0.0
    for c in range(k):
        rounds += memory[1 + k + c]
    for c in range(k):
        forecast[c] = (memory[1 + k + c] + prior) / (rounds + k * prior) if prior > 0.0 else 1.0 / k
    return 0


@kernel_part
def certificate_rises(memory: Floats, frame: int, forecast: Floats, rising: Floats) -> None:
    """By how much |sum of (p - y)|, summed over classes, would rise for each outcome."""
    k = len(forecast)
    for outcome in range(k):
        rising[outcome] = 0.0
        for c in range(k):
            bias = memory[1 + c]
            rising[outcome] += abs(bias + forecast[c] - (1.0 if c == outcome else 0.0)) - abs(bias)


@kernel_part
def point(memory: Floats, frame: int, forecast: Floats, outcome: int, charged: Floats) -> None:
    """The round is charged to its forecast."""
    for c in range(len(forecast)):
        charged[c] = forecast[c]


@kernel_part
def settle(memory: Floats, frame: int, forecast: Floats, outcome: int) -> None:
    """Count the outcome."""
    k = len(forecast)
    for c in range(k):
        memory[1 + c] += forecast[c]
    memory[1 + outcome] -= 1.0
    memory[1 + k + outcome] += 1.0


BASELINE = MulticlassRules(has_room, announce, certificate_rises, point, settle)
"""The rules of both."""


Labels = NDArray[np.int64]

DISTANCE_BUDGET = 0.05
"""Effort for the distance at budget 1: a second or two for ten thousand rounds."""


class MeasuredMulticlass(Regret, msgspec.Struct, frozen=True):
    """One line of a table of results. Errors are sums over rounds, in l1 over the classes, if not said else.

    Attributes
    ----------
    forecaster, adversary
        Canonical specs, or names of recorded labels and forecasts.
    classes, rounds, seed
        k, T, and the seed of the adversary's draws.
    ece
        Expected calibration error, grouped by equal vectors: at least the distance to calibration.
    classwise_ece
        The sum over classes of the binary errors, each grouped by the probability of its class.
    distance_lower, distance_upper
        Where the distance to calibration lies.
    certificate, guarantee
        The forecaster's running proof at the end, and what it cannot exceed; None where there is none.
    points
        How many points rounds were charged to (or different forecasts made).
    largest_bias, bias_limit
        The largest |bias| of a charged point in one class, and what it cannot exceed; None if nothing is
        proven. Divided by T the first one is the look-ahead's calibration error in l_infinity.
    look_ahead_error
        The look-ahead's calibration error in l_2, an average: (sum of squared biases)^(1/2) / T.
    brier, brier_constant
        Sum of |p - y|_2^2 of the forecasts, and of the best constant forecast in hindsight.
    seconds
        Time taken to play and to measure.
    window, window_certificate, window_guarantee
        Of how many rounds the forecaster also keeps a certificate, its proof for the last so many rounds, and
        what that cannot exceed for any of them in a row; None where there is none.
    """

    forecaster: str
    adversary: str
    classes: int
    rounds: int
    seed: int
    ece: float
    classwise_ece: float
    distance_lower: float
    distance_upper: float
    certificate: float | None
    guarantee: float | None
    points: int
    largest_bias: float
    bias_limit: float | None
    look_ahead_error: float
    brier: float
    brier_constant: float
    seconds: float
    window: int | None = None
    window_certificate: float | None = None
    window_guarantee: float | None = None

    def broken_bounds(self) -> list[str]:
        """Every inequality of the theory that this game did not keep, in words; empty if all is well."""
        chain = [
            ("distance's lower end", self.distance_lower, "its upper end", self.distance_upper),
            ("distance to calibration", self.distance_upper, "ECE", self.ece),
            ("classwise ECE", self.classwise_ece, "ECE", self.ece),
            ("distance to calibration", self.distance_upper, "certificate", self.certificate),
            ("certificate", self.certificate, "guarantee", self.guarantee),
            ("window certificate", self.window_certificate, "window guarantee", self.window_guarantee),
            ("largest bias", self.largest_bias, "its limit", self.bias_limit),
            ("Brier regret", self.regret, "2 x distance to calibration", self.regret_bound),
        ]
        return unkept(chain, self.rounds)


MulticlassGame = Played[MeasuredMulticlass]


def play_and_measure_multiclass(
    player: MulticlassPlayer,
    adversary: MulticlassAdversary,
    rounds: int,
    *,
    hints: Floats | None = None,
    budget: float = 1.0,
    n_checkpoints: int = 200,
    progress: Callable[[int], None] | None = None,
) -> MulticlassGame:
    """Play a game of so many rounds and measure it; `budget` is that of the distance."""
    begin = time.perf_counter()
    forecaster = player.build(adversary.n_classes, rounds, hints is not None)
    duel = play_multiclass(forecaster, adversary, rounds, hints, n_checkpoints, progress)
    promised = finite(float(duel.guarantees[-1]))
    # with hints a run may have a slack that no setting names
    unslacked = promised is not None and getattr(forecaster, "slack", None) is None
    return _measure(
        duel.forecasts,
        duel.outcomes,
        begin,
        budget,
        duel=duel,
        forecaster=player.spec,
        adversary=adversary.name,
        seed=seed_of(adversary),
        certificate=finite(forecaster.certificate),
        guarantee=promised,
        bias_limit=1.0 - 1.0 / (2 * adversary.n_classes - 2) if unslacked else None,
        of_window={name: getattr(forecaster, name, None) for name in OF_WINDOWS},
    )


def measure_recorded_multiclass(
    forecasts: Floats, outcomes: Labels, name: str, stream: str, *, budget: float = 1.0
) -> MulticlassGame:
    """Measure class probabilities that someone else announced for these labels."""
    return _measure(
        forecasts, outcomes, time.perf_counter(), budget, duel=None, forecaster=name, adversary=stream
    )


def biases_of(points: Floats, outcomes: Labels) -> tuple[Floats, Floats, Labels]:
    """The different rows of `points`, shape (V, k), their biases, and the number of rounds at each.

    The bias of a row is the sum over its rounds of the row minus the outcome as a unit vector. The rows are
    in lexicographic order.
    """
    place = groups_of(points)
    number = np.bincount(place)
    first = np.empty(len(number), np.int64)
    first[place[::-1]] = np.arange(len(place))[::-1]
    rows, k = points[first], points.shape[1]
    counts = np.bincount(place * k + outcomes, minlength=len(number) * k).reshape(-1, k)
    return rows, number[:, None] * rows - counts, number


def groups_of(points: Floats) -> Labels:
    """The place of each row among the different rows in lexicographic order, shape (T,)."""
    place = np.zeros(len(points), np.int64)
    for column in points.T:
        values, inverse = np.unique(column, return_inverse=True)
        place = np.unique(place * len(values) + inverse, return_inverse=True)[1]
    return place


def brier_scores(forecasts: Floats, outcomes: Labels) -> tuple[float, float]:
    """Sum over rounds of |p - y|_2^2, of the forecasts and of the best constant; both add up over classes."""
    hits = [outcomes == c for c in range(forecasts.shape[1])]
    constants = (best_constant_brier(len(outcomes), int(hit.sum())) for hit in hits)
    return sum(map(brier_score, forecasts.T, hits)), sum(constants)


def _measure(
    forecasts: Floats,
    outcomes: Labels,
    begin: float,
    budget: float,
    *,
    duel: Duel | None,
    forecaster: str,
    adversary: str,
    seed: int = 0,
    certificate: float | None = None,
    guarantee: float | None = None,
    bias_limit: float | None = None,
    of_window: Mapping[str, Any] = MappingProxyType({}),
) -> MulticlassGame:
    rounds, k = forecasts.shape
    look_ahead = None if duel is None else duel.charged
    distance = multiclass_calibration_distance(
        forecasts, outcomes, look_ahead=look_ahead, budget=DISTANCE_BUDGET * budget
    )
    _, biases, visits = biases_of(forecasts if look_ahead is None else look_ahead, outcomes)
    brier, brier_constant = brier_scores(forecasts, outcomes)
    measured = MeasuredMulticlass(
        forecaster=forecaster,
        adversary=adversary,
        classes=k,
        rounds=rounds,
        seed=seed,
        ece=float(np.abs(biases_of(forecasts, outcomes)[1]).sum()),
        classwise_ece=classwise_calibration_error(forecasts, outcomes, normalize=False),
        distance_lower=distance.lower,
        distance_upper=distance.upper,
        certificate=certificate,
        guarantee=guarantee,
        points=len(visits),
        largest_bias=float(np.abs(biases).max()),
        bias_limit=bias_limit,
        look_ahead_error=float(np.linalg.norm(biases)) / rounds,
        brier=brier,
        brier_constant=brier_constant,
        seconds=time.perf_counter() - begin,
        **of_window,
    )
    return MulticlassGame(forecasts, outcomes, duel, measured)
