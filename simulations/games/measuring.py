"""Measures of a single game: the errors of its forecasts, and the proven bounds that they have to keep.

Nothing here has a state: a game is played (`duel.play`), its arrays are measured, and what comes out is a
line that never changes. The fields of `Measured` are kept in the JSON of a finished game by name, and in
their order they are the columns of tables. The digest of a finished game depends on this code, so a changed
measure has all games played again. `tests/corpus` keeps what single games measure, but for `seconds`. Lengths
are not checked here: forecasts and outcomes of a game come from `play`, and recorded ones from a `Stream`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from onlinecal.adversaries import Adversary
from onlinecal.arrays import Floats
from onlinecal.measures import classwise_calibration_error, multiclass_calibration_distance
from onlinecal.measures.summary import best_constant_brier, brier_score, summarize, unkept
from onlinecal.simulations.games.duel import Duel, play
from onlinecal.simulations.games.players import Player, none_for_nan

WINDOW_FIELDS = ("window", "window_certificate", "window_guarantee")
"""Attributes of a forecaster and fields of a `Line` of the same names; they are the last columns of
tables."""
ClassNumbers = NDArray[np.int64]

DISTANCE_BUDGET = 0.05
"""The effort for the distance of several classes at budget 1: a second or two for ten thousand rounds.

Less of it makes brackets wider, and no measure wrong."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a table of results, for two classes or more; errors are sums over rounds.

    Attributes
    ----------
    forecaster, adversary
        Canonical specs, or names of recorded streams and forecasts.
    rounds, seed
        T, and the seed of the adversary's draws.
    ece
        Expected calibration error, grouped by exact forecast: at least the distance to calibration.
    distance_lower, distance_upper
        Proven bounds on the distance to calibration.
    certificate, guarantee
        The forecaster's certificate at the end, and the bound that it cannot exceed; None if there is none.
    brier, brier_constant
        The sum of |p - y|^2 of the forecasts, and of the best constant forecast in hindsight.
    seconds
        The time taken to play and to measure.
    window, window_certificate, window_guarantee
        The length of the window for which the forecaster also keeps a certificate, the certificate of the
        last rounds, and the bound that the certificate of any such window cannot exceed; None if there is
        none.
    """

    forecaster: str
    adversary: str
    rounds: int
    seed: int = 0
    ece: float
    distance_lower: float
    distance_upper: float
    certificate: float | None = None
    guarantee: float | None = None
    brier: float
    brier_constant: float
    seconds: float
    window: int | None = None
    window_certificate: float | None = None
    window_guarantee: float | None = None

    @property
    def regret(self) -> float:
        """Brier score beyond that of the best constant; at most twice the distance to calibration."""
        return self.brier - self.brier_constant

    @property
    def regret_bound(self) -> float:
        """Twice the upper end of the distance to calibration."""
        return 2.0 * self.distance_upper

    def record(self) -> dict[str, Any]:
        """The game as a plain record, with the regret and its bound."""
        fields = msgspec.structs.asdict(self)
        return {**fields, "regret": self.regret, "regret_bound": self.regret_bound}

    def broken_bounds(self) -> list[str]:
        """Every inequality of the theory that this game broke, in words; empty if it kept all."""
        shared = [
            ("Brier regret", self.regret, "2 x distance to calibration", self.regret_bound),
            ("distance to calibration", self.distance_upper, "certificate", self.certificate),
            ("certificate", self.certificate, "guarantee", self.guarantee),
            ("window certificate", self.window_certificate, "window guarantee", self.window_guarantee),
        ]
        return unkept([*shared, *self._own_bounds()], self.rounds)

    def _own_bounds(self) -> list[tuple[str, float | None, str, float | None]]:
        """The inequalities that hold only for games of this number of classes."""
        return []


class Measured(Line, frozen=True, kw_only=True):
    """A line of a game of two classes, with the attributes of every `Line`.

    Attributes
    ----------
    ones
        How many outcomes were 1.
    bound
        The closed form of a bound on the guarantee; None if there is none.
    """

    ones: int
    bound: float | None = None

    def _own_bounds(self) -> list[tuple[str, float | None, str, float | None]]:
        return [("guarantee", self.guarantee, "theorem's bound", self.bound)]


class MeasuredMulticlass(Line, frozen=True, kw_only=True):
    """A line of a game of several classes, in l1 over them; with the attributes of every `Line`.

    Attributes
    ----------
    classes
        k.
    classwise_ece
        The sum over classes of the binary errors, each grouped by the probability of its class.
    points
        How many different points rounds were charged to; for recorded forecasts how many forecasts differ.
    largest_bias, bias_limit
        The largest |bias| of a charged point in one class, and the bound that it cannot exceed; None if
        nothing is proven.
    """

    classes: int
    classwise_ece: float
    points: int
    largest_bias: float
    bias_limit: float | None = None

    def _own_bounds(self) -> list[tuple[str, float | None, str, float | None]]:
        return [
            ("distance's lower end", self.distance_lower, "its upper end", self.distance_upper),
            ("distance to calibration", self.distance_upper, "ECE", self.ece),
            ("classwise ECE", self.classwise_ece, "ECE", self.ece),
            ("largest bias", self.largest_bias, "its limit", self.bias_limit),
        ]


@dataclass(frozen=True, eq=False)
class Game:
    """A whole game round by round, for pictures of one run.

    Attributes
    ----------
    forecasts, outcomes
        Round by round, shape (T,); with k classes of shapes (T, k) and (T,).
    duel
        Charged values, certificates and guarantees as the game went on; None for recorded forecasts.
    measured
        The line of the table, `Measured` or `MeasuredMulticlass`.
    witness
        A perfectly calibrated sequence `distance_upper` away, shape (T,); None for several classes.
    """

    forecasts: Floats
    outcomes: NDArray[Any]
    duel: Duel | None
    measured: Any
    witness: Floats | None = None


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
    """Play a game of this number of rounds and measure it.

    `seed` is that of the forecaster's draws; `budget` and `rtol` are those of the distance. A reference,
    which answers after the outcome, is measured by its answers.
    """
    begin = time.perf_counter()
    hinted, k = hints is not None, adversary.n_classes
    forecaster = player.build(rounds, seed, hinted, k)
    duel = play(
        forecaster,
        adversary,
        rounds,
        hints=hints,
        n_checkpoints=n_checkpoints,
        progress=progress,
        draw=player.draw,
    )
    known: dict[str, Any] = {
        "forecaster": player.spec,
        "adversary": adversary.name,
        # a seed that is not one number is recorded as 0
        "seed": adversary.seed if isinstance(adversary.seed, int) else 0,
        "certificate": none_for_nan(forecaster.certificate),
        "guarantee": none_for_nan(float(duel.guarantees[-1])),
        **{name: getattr(forecaster, name, None) for name in WINDOW_FIELDS},
    }
    if k is None:
        known["bound"] = player.bound(rounds, hinted)
    else:
        # with hints a run may have a slack that its settings do not name
        unslacked = known["guarantee"] is not None and getattr(forecaster, "slack", None) is None
        known["bias_limit"] = 1.0 - 1.0 / (2 * k - 2) if unslacked else None
    forecasts = duel.charged if player.family.kind == "reference" else duel.forecasts
    return _measured(forecasts, duel.outcomes, begin, duel, budget, rtol, known)


def measure_recorded(
    forecasts: Floats, outcomes: NDArray[Any], name: str, stream: str, *, budget: float = 1.0
) -> Game:
    """Measure forecasts that someone else made for a stream, of shape (T,), or with k classes (T, k)."""
    known = {"forecaster": name, "adversary": stream}
    return _measured(forecasts, outcomes, time.perf_counter(), None, budget, 0.0, known)


def _measured(
    forecasts: Floats,
    outcomes: NDArray[Any],
    begin: float,
    duel: Duel | None,
    budget: float,
    rtol: float,
    known: Mapping[str, Any],
) -> Game:
    look_ahead = None if duel is None else duel.charged
    kind: type[Line]
    if forecasts.ndim == 2:
        errors = multiclass_errors(forecasts, outcomes, look_ahead, budget)
        kind, witness = MeasuredMulticlass, None
    else:
        kind = Measured
        errors, witness = summarize(forecasts, outcomes, look_ahead=look_ahead, budget=budget, rtol=rtol)
        ends = errors.pop("distance_low"), errors.pop("distance_high")
        errors["distance_lower"], errors["distance_upper"] = ends
        errors["ones"] = int(errors["ones"])
    measured = kind(**errors, **known, seconds=time.perf_counter() - begin)
    return Game(forecasts, outcomes, duel, measured, witness)


def multiclass_errors(
    forecasts: Floats, outcomes: ClassNumbers, look_ahead: Floats | None, budget: float
) -> dict[str, Any]:
    """The measures of class probabilities (T, k), by the names of `MeasuredMulticlass`."""
    rounds, k = forecasts.shape
    distance = multiclass_calibration_distance(
        forecasts, outcomes, look_ahead=look_ahead, budget=DISTANCE_BUDGET * budget
    )
    _, biases, visits = biases_of(forecasts if look_ahead is None else look_ahead, outcomes)
    brier, brier_constant = brier_scores(forecasts, outcomes)
    return {
        "classes": k,
        "rounds": rounds,
        "ece": float(np.abs(biases_of(forecasts, outcomes)[1]).sum()),
        "classwise_ece": classwise_calibration_error(forecasts, outcomes, normalize=False),
        "distance_lower": distance.lower,
        "distance_upper": distance.upper,
        "points": len(visits),
        "largest_bias": float(np.abs(biases).max()),
        "brier": brier,
        "brier_constant": brier_constant,
    }


def biases_of(points: Floats, outcomes: ClassNumbers) -> tuple[Floats, Floats, ClassNumbers]:
    """The different rows of `points`, shape (V, k), their biases, and the number of rounds at each.

    The bias of a row is the sum over its rounds of the row minus the outcome as a unit vector. The rows are
    in lexicographic order.
    """
    rows, place, number = np.unique(points, axis=0, return_inverse=True, return_counts=True)
    k = points.shape[1]
    counts = np.bincount(place.ravel() * k + outcomes, minlength=len(number) * k).reshape(-1, k)
    return rows, number[:, None] * rows - counts, number


def brier_scores(forecasts: Floats, outcomes: ClassNumbers) -> tuple[float, float]:
    """The sum over rounds of |p - y|_2^2 for the forecasts, and for the best constant forecast."""
    hits = [outcomes == c for c in range(forecasts.shape[1])]
    constants = (best_constant_brier(len(outcomes), int(hit.sum())) for hit in hits)
    return sum(map(brier_score, forecasts.T, hits)), sum(constants)
