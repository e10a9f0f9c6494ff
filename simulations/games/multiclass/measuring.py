"""What one game of several classes was worth: the errors of its forecasts, and the bounds on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from adversaries import MulticlassAdversary
from onlinecal.arrays import Floats
from onlinecal.measures import classwise_calibration_error, multiclass_calibration_distance
from onlinecal.measures.summary import best_constant_brier, brier_score, unkept
from simulations.games.duel import Duel
from simulations.games.measuring import OF_WINDOWS, Played, Regret, seed_of
from simulations.games.multiclass.players import MulticlassPlayer, play_multiclass
from simulations.games.players import finite

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
        classwise_ece=classwise_calibration_error(forecasts, outcomes),
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
