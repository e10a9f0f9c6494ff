"""All measures of one history, and the scores that chance alone would give in each.

Nothing here has a state but `_History`, which keeps what is the same for all draws of one column, and is made
for one call. The names of measures are columns of files and keys of JSON, and so are the fields of `Errors`.
Draws depend on forecasts, groups, `random_state` and DRAWS_KEY alone, so all measures are of the same draws;
a `limit` in seconds ends them sooner, and then only their number differs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Floats
from onlinecal.html import Shown
from onlinecal.measures.conventions import convention_of
from onlinecal.measures.counts import Counts, count_shares
from onlinecal.measures.distance.calibration_distance import (
    calibration_distance,
    calibration_distance_from_counts,
)
from onlinecal.measures.distance.fractional.lower import (
    lower_calibration_distance,
    lower_calibration_distance_from_counts,
)
from onlinecal.measures.scores import (
    ECE_BINS,
    BesideConstants,
    best_constant_brier,
    brier_decomposition,
    brier_of_counts,
    brier_score,
    cross_entropy,
    cross_entropy_of_counts,
    cumulative_error_of_counts,
    expected_calibration_error,
    expected_error_of_counts,
    log_costs,
    log_loss,
    miscalibration_of_counts,
    two_bin_error_of_counts,
)
from onlinecal.measures.smooth import smooth_error_of_counts
from onlinecal.tables.columns import (
    check_keys,
    check_outcomes,
    check_probabilities,
    check_same_length,
    check_vector,
)
from onlinecal.tables.frames import missing_in
from onlinecal.texts import shown
from onlinecal.validation import check_choice, check_count, check_flag, check_positive, seed_sequence

MeasureName: TypeAlias = Literal[
    "brier", "log_loss", "miscalibration", "ece", "ece_bins", "cumulative", "two_bin", "smooth",
    "lower_distance", "distance",
]  # fmt: skip
Measure: TypeAlias = MeasureName | Callable[[Floats, NDArray[np.uint8]], float]

DISTANCES = ("lower_distance", "distance")
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
DRAWS_KEY = (0xCA1,)
"""Makes these draws independent of others with the same seed, from which forecasts may have been made."""
SCORE_ROUNDING = 1e-12
"""Scores whose relative difference is smaller count as equal: rounding must not make a p-value too small."""


@dataclass(frozen=True)
class ChanceLevel(Shown):
    """What calibrated forecasts score by a measure, by chance, and how the forecasts at hand compare.

    Scores are averages over rounds or sums, whichever `chance_level` was asked for.

    Attributes
    ----------
    mean
        The expected score of calibrated forecasts: exact if `is_exact`, else the mean of the draws.
    quantiles
        A dictionary of quantiles of the draws' scores, by their levels 0.05, 0.25, 0.5, 0.75 and 0.95.
    p_value
        (1 + draws that score as much as the forecasts at hand or more) / (1 + n_draws); None without
        outcomes.
    score
        What the forecasts at hand score; None without outcomes.
    n_draws
        How many draws were made.
    is_exact
        Whether `mean` comes from a formula.
    """

    mean: float
    quantiles: Mapping[float, float]
    p_value: float | None
    score: float | None
    n_draws: int
    is_exact: bool


def chance_level(
    forecasts: ArrayLike,
    measure: Measure,
    outcomes: ArrayLike | None = None,
    *,
    n_draws: int = 1000,
    random_state: int | Sequence[int] = 0,
    groups: ArrayLike | None = None,
    n_bins: int = ECE_BINS,
    normalize: bool | None = None,
    budget: float = 1.0,
    limit: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ChanceLevel:
    """The score that chance alone gives to calibrated forecasts, and how often it is as large as here.

    Outcomes are drawn, each 1 with the probability that was forecast, and the forecasts are scored with them.
    The mean is exact for "brier", "log_loss" and, without groups, "ece" and "two_bin".

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,).
    measure
        A score: "brier", "log_loss" (of probabilities raised to at least 1e-15), "miscalibration" (of
        `brier_decomposition`), "ece", "ece_bins", "cumulative", "two_bin", "smooth"; "lower_distance" and
        "distance" by the upper ends of their brackets, which take up to a second a draw; or a function of
        (forecasts, outcomes), shapes (T,), where more is worse, that returns a number (no NaN).
    outcomes
        What happened, 0/1 or boolean, shape (T,); None: `score` and `p_value` of the answer are None.
    n_draws
        How often outcomes are drawn: the p-value is at least 1/(n_draws + 1).
    random_state
        A whole number from 0, or a sequence of them; the same random_state gives the same draws.
    groups
        Shape (T,): rows with equal values share their randomness, as those of one match do. Outcome t is U <
        p_t, with one uniform U for the group. None: all rows are independent.
    n_bins
        The number of equal-width bins of "ece_bins", at least 1; no other score looks at it.
    normalize
        True: averages over rounds. False: T times that, which are sums. None: "distance" and "lower_distance"
        are sums and all other scores averages, as the functions for these measures give them. What a function
        of yours returns is left as it is.
    budget
        Work that each "distance" may take, a number above 0: with 0.1 it is a tenth of that with 1, and the
        bracket may be wider. No other score looks at it.
    limit
        Seconds, above 0, after which no further draw is begun; `n_draws` of the answer says how many there
        were. None: no limit.
    progress
        A function that is called after each draw with (draws made, draws wanted); None: nothing is called.

    Returns
    -------
    ChanceLevel
        `mean` and `quantiles` are those of calibrated forecasts, `score` and `p_value` those of the forecasts
        given. The p-value is one-sided, small if the score is large, and exact: if the forecasts are
        calibrated, it is at most a with probability at most a for every a, whatever T and n_draws. Here
        calibrated means that, given all forecasts, the outcomes are independent and are 1 with the
        probabilities forecast; with `groups`, that they are as drawn there. The p-value does not hold for
        rows that share an outcome and are not grouped. Nor does it for forecasts that react to earlier
        outcomes of these rows, as an online forecaster's do; the means of "brier" and "log_loss" are right
        there, too.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes, groups or options, by name; a measure that is not known. Outcomes between 0
        and 1 are refused, since such cannot be drawn.

    Examples
    --------
    >>> chance = chance_level([0.5] * 8, "ece", [1] * 8, n_draws=99)
    >>> round(chance.mean, 9), chance.score, chance.p_value
    (0.13671875, 0.5, 0.01)
    """
    return chance_levels(
        forecasts, [measure], outcomes, n_draws, random_state, groups=groups, n_bins=n_bins,
        normalize=normalize, budget=budget, limit=limit, progress=progress,
    )[0]  # fmt: skip


def chance_levels(
    forecasts: ArrayLike,
    measures: Sequence[Measure],
    outcomes: ArrayLike | None = None,
    n_draws: int = 1000,
    random_state: int | Sequence[int] = 0,
    *,
    groups: ArrayLike | None = None,
    n_bins: int = ECE_BINS,
    normalize: bool | None = None,
    budget: float = 1.0,
    limit: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[ChanceLevel]:
    """`chance_level` by each of several measures, all of the same draws."""
    for measure in measures:
        if not callable(measure):
            check_choice(measure, get_args(MeasureName), "measure")
    p = check_probabilities(forecasts) + 0.0
    y = None if outcomes is None else check_outcomes(outcomes)
    if y is not None:
        check_same_length(p, y, "forecasts and outcomes")
    if normalize is not None:
        check_flag(normalize, "normalize")
    history = _History(p, groups)
    by_name = _measures(check_count(n_bins, "n_bins"), check_positive(budget, "budget"))
    n_wanted = check_count(n_draws, "n_draws")
    stop = np.inf if limit is None else time.monotonic() + check_positive(limit, "limit")
    rng = np.random.default_rng(seed_sequence(random_state, DRAWS_KEY, "random_state"))

    def scored(y: NDArray[np.uint8]) -> list[float]:
        counts = history.counts(y)
        return [
            _asked(measure, p, y) if callable(measure) else by_name[measure](counts) for measure in measures
        ]

    scores: list[list[float]] = []
    while len(scores) < n_wanted and not (scores and time.monotonic() >= stop):
        scores.append(scored(history.draw(rng)))
        if progress is not None:
            progress(len(scores), n_wanted)
    own_scores = [None] * len(measures) if y is None else scored(y)
    levels = []
    for measure, drawn, score in zip(measures, np.array(scores).T, own_scores, strict=True):
        is_average = measure not in DISTANCES if normalize is None else normalize
        scale = len(p) if is_average and not callable(measure) else 1
        mean = None if callable(measure) else history.exact_mean(measure)
        levels.append(_level(drawn / scale, None if score is None else score / scale, mean and mean / scale))
    return levels


def _asked(measure: Callable[..., Any], p: Floats, y: NDArray[np.uint8]) -> float:
    """What a user's measure says of these outcomes; NaN would count as less than any other score."""
    answer = measure(p, y)
    try:
        score = float(answer)
    except (TypeError, ValueError):
        score = math.nan
    if math.isnan(score):
        raise ValueError(f"measure must return a number, got {shown(answer)} from {shown(measure)}")
    return score


def _level(drawn: Floats, score: float | None, mean: float | None) -> ChanceLevel:
    """The chance level for the scores of the draws, shape (n,), and the exact mean, if it is known."""
    above = 0 if score is None else int((drawn >= score - SCORE_ROUNDING * (1.0 + abs(score))).sum())
    return ChanceLevel(
        float(drawn.mean()) if mean is None else mean,
        dict(zip(QUANTILES, np.quantile(drawn, QUANTILES).tolist(), strict=True)),
        None if score is None else (1 + above) / (1 + len(drawn)),
        score,
        len(drawn),
        mean is not None,
    )


class _History:
    """Forecasts (T,), whose distinct values and groups are found once."""

    def __init__(self, p: Floats, groups: ArrayLike | None) -> None:
        self.p = p
        self.values, self.places, rounds = np.unique(p, return_inverse=True, return_counts=True)
        self.rounds = rounds.astype(np.int64)
        self.members: NDArray[np.intp] | None = None
        if groups is not None:
            named = check_vector(groups, "groups")
            check_same_length(p, named, "forecasts and groups")
            gone = missing_in(named)
            if gone.any():
                at = f"at row {gone.argmax()}: leave the row out"
                raise ValueError(f"groups must have a value in every row, got none {at}")
            try:
                kinds, numbers = np.unique(named, return_inverse=True)
            except TypeError as error:
                raise ValueError(
                    f"groups must be values of one kind ({error}): give str(...) of each"
                ) from error
            check_keys(kinds.tolist())
            # groups of one row each are the same as no groups
            self.members = numbers if numbers.max() + 1 < len(p) else None

    def draw(self, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Outcomes (T,) of calibrated forecasts."""
        if self.members is None:
            return (rng.random(len(self.p)) < self.p).view(np.uint8)
        return (rng.random(int(self.members.max()) + 1)[self.members] < self.p).view(np.uint8)

    def counts(self, y: NDArray[np.uint8]) -> Counts:
        """The history counted, with these outcomes."""
        ones = np.bincount(self.places[y == 1], minlength=len(self.values)).astype(np.int64)
        return Counts(self.values, self.rounds - ones, ones)

    def exact_mean(self, measure: str) -> float | None:
        """The expected score of calibrated forecasts, where there is a formula."""
        v, n = self.values, self.rounds
        if measure == "brier":
            return float((n * v * (1.0 - v)).sum())
        if measure == "log_loss":
            return float((n * (v * log_costs(v) + (1.0 - v) * log_costs(1.0 - v))).sum())
        if measure == "two_bin" and self.members is None:
            # the variances of both bins have the variance of all rounds as their sum, wherever the edge is
            return float((n * v * (1.0 - v)).sum() / n.sum())
        if measure == "ece" and self.members is None:
            from scipy.special import betaln, xlog1py, xlogy

            # de Moivre: E|X - nv| = 2 v^(m + 1) (1 - v)^(n - m) / B(m + 1, n - m) for binomial X, where m is
            # the whole part of nv. scipy.stats knows such X, too, but its import takes a second
            m = np.floor(n * v)
            logs = xlogy(m + 1.0, v) + xlog1py(n - m, -v) - betaln(m + 1.0, n - m)
            return float((2.0 * np.exp(logs)).sum())
        return None


def _measures(n_bins: int, budget: float) -> dict[str, Callable[[Counts], float]]:
    """The measures of counted histories, by name; their values are sums over rounds."""

    def of_counts(measure: Callable[..., Any], **options: float) -> Callable[[Counts], float]:
        return lambda counts: measure(counts.values, counts.zeros, counts.ones, **options).upper

    return {
        "brier": brier_of_counts,
        "log_loss": cross_entropy_of_counts,
        "miscalibration": miscalibration_of_counts,
        "ece": expected_error_of_counts,
        "ece_bins": partial(expected_error_of_counts, n_bins=n_bins),
        "cumulative": cumulative_error_of_counts,
        "two_bin": two_bin_error_of_counts,
        "smooth": smooth_error_of_counts,
        "lower_distance": of_counts(lower_calibration_distance_from_counts),
        "distance": of_counts(calibration_distance_from_counts, budget=budget),
    }


OutcomesOrShares = NDArray[np.uint8] | Floats
"""Outcomes 0 and 1, or float64 if some lie between."""


def summarize(
    forecasts: Floats,
    outcomes: OutcomesOrShares,
    *,
    look_ahead: Floats | None = None,
    budget: float = 1.0,
    rtol: float = 0.0,
) -> tuple[dict[str, Any], Floats]:
    """The measures that every history gets, by the names of `Errors`, and the witness of its distance.

    Shapes (T,); look_ahead, budget and rtol as for `calibration_distance`.
    """
    distance = calibration_distance(forecasts, outcomes, look_ahead=look_ahead, budget=budget, rtol=rtol)
    rounds, are_whole = len(outcomes), outcomes.dtype.kind != "f"
    ones = int(outcomes.sum(dtype=np.int64)) if are_whole else math.fsum(outcomes)
    summary = {
        "rounds": rounds,
        "ones": ones,
        "ece": expected_calibration_error(forecasts, outcomes, normalize=False),
        "distance_low": distance.lower,
        "distance_high": distance.upper,
        "brier": brier_score(forecasts, outcomes),
        "brier_constant": best_constant_brier(rounds, ones)
        if are_whole
        else brier_score(np.full(rounds, ones / rounds), outcomes),
    }
    return summary, distance.witness


@dataclass(frozen=True)
class Errors(BesideConstants):
    """How one column of forecasts did. All errors are sums over rounds; divide by `rounds` for averages.

    Attributes
    ----------
    forecast
        The column's name.
    rounds, ones
        T, and how many outcomes were 1; the sum of the outcomes, if some lie between 0 and 1.
    ece, ece_bins
        Expected calibration error by exact value, and in equal-width bins.
    cumulative
        Cumulative calibration error.
    two_bin
        The averaged two-bin error, times T.
    smooth
        Smooth calibration error.
    lower_distance_low, lower_distance_high
        A lower and an upper bound of the lower distance to calibration.
    distance_low, distance_high
        A lower and an upper bound of the distance to calibration; they are equal when it is known exactly.
    brier, brier_constant
        Sum of (p - y)^2 of the forecasts, and of the best constant forecast in hindsight.
    miscalibration, discrimination
        Those of `brier_decomposition`: brier = miscalibration - discrimination + brier_constant.
    log_loss, log_loss_constant
        Sum of -log of the outcomes' probabilities, by the forecasts and by the best constant.
    """

    forecast: str
    rounds: int
    ones: float
    ece: float
    ece_bins: float
    cumulative: float
    two_bin: float
    smooth: float
    lower_distance_low: float
    lower_distance_high: float
    distance_low: float
    distance_high: float
    brier: float
    brier_constant: float
    miscalibration: float
    discrimination: float
    log_loss: float
    log_loss_constant: float

    @property
    def averages(self) -> Errors:
        """The same per round."""
        kept = ("forecast", "rounds", "ones")
        sums = {name: value for name, value in asdict(self).items() if name not in kept}
        return replace(self, **{name: value / self.rounds for name, value in sums.items()})

    def broken_bounds(self) -> list[str]:
        """The inequalities between measures that do not hold, in words; empty if all hold."""
        lower, distance = "lower distance", "distance to calibration"
        chain: list[tuple[str, float | None, str, float | None]] = [
            ("½ smCE", self.smooth / 2, lower, self.lower_distance_high),
            (lower, self.lower_distance_low, "2 smCE", 2 * self.smooth),
            (lower, self.lower_distance_low, distance, self.distance_high),
            (distance, self.distance_low, "ECE", self.ece),
            ("ECE in bins", self.ece_bins, "ECE", self.ece),
            ("cumulative error", self.cumulative, "ECE", self.ece),
            ("Brier regret", self.brier - self.brier_constant, f"2 × {distance}", 2 * self.distance_high),
        ]
        return [f"BROKEN: {text} ({self.forecast})" for text in unkept(chain, self.rounds)]


def all_errors(
    forecast: str, forecasts: Floats, outcomes: OutcomesOrShares, *, budget: float, n_bins: int
) -> tuple[Errors, Floats]:
    """Every measure of a column of forecasts, and the witness of its distance, exact for the budget inf."""
    summary, witness = summarize(forecasts, outcomes, budget=budget)
    lower = lower_calibration_distance(forecasts, outcomes)
    parts = brier_decomposition(forecasts, outcomes, normalize=False)
    rounds, ones, counts = summary["rounds"], summary["ones"], count_shares(forecasts, outcomes)[0]
    errors = Errors(
        forecast=forecast,
        **summary,
        ece_bins=expected_error_of_counts(counts, n_bins),
        cumulative=cumulative_error_of_counts(counts),
        two_bin=rounds * (two_bin_error_of_counts(counts) / counts.total),
        smooth=smooth_error_of_counts(counts),
        lower_distance_low=min(lower.lower, summary["distance_high"]),
        # the lower distance is at most the distance, whose bound may be better
        lower_distance_high=min(lower.upper, summary["distance_high"]),
        miscalibration=parts.miscalibration,
        discrimination=parts.discrimination,
        log_loss=cross_entropy(forecasts, outcomes),
        log_loss_constant=cross_entropy(np.full(rounds, ones / rounds), outcomes),
    )
    return errors, witness


@dataclass(frozen=True)
class PackageFigures:
    """What another package says of one column of forecasts; None: it has no such measure.

    Attributes
    ----------
    package, version
        Its name and the version whose convention is taken.
    n_bins
        How many bins, or edges of bins, it was asked for.
    ece_bins, log_loss
        Averages over rounds. The log loss is infinite where the package gives no chance to what came.
    """

    package: str
    version: str
    n_bins: int | None
    ece_bins: float | None
    log_loss: float | None


def package_figures(
    package: str, forecasts: Floats, outcomes: NDArray[np.uint8], n_bins: int | None = None
) -> PackageFigures:
    """The figures of a package, for forecasts and outcomes (T,); n_bins=None: its own number of bins."""
    known = convention_of(package)
    error = loss = None
    if known.event is not None:
        n_bins = n_bins or known.n_bins
        if known.event.counts_the_binned and not forecasts.any():
            # no bin has a forecast of 0, so the package divides 0 by 0
            error = math.nan
        else:
            error = expected_calibration_error(forecasts, outcomes, n_bins=n_bins, convention=package)
    if known.margin is not None:
        kept = forecasts.clip(known.margin, 1.0 - known.margin)
        loss = log_loss(np.where(outcomes == 1, kept, 1.0 - kept), 0.0)
    return PackageFigures(package, known.version, None if error is None else n_bins, error, loss)


def unkept(inequalities: Iterable[tuple[str, float | None, str, float | None]], rounds: int) -> list[str]:
    """The inequalities that do not hold, in words. Each has a name and a value, and those that bound them.

    The values are sums of so many rounded terms; None stands for a value that is not known.
    """
    slack = 1e-9 * rounds + 1e-9
    return [
        f"{small} {low:.6g} > {large} {high:.6g}"
        for small, low, large, high in inequalities
        if low is not None and high is not None and low > high + slack
    ]
