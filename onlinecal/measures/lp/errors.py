"""l_p calibration errors of whole rows, their reports and intervals, and the largest error given a level set.

Nothing here has a state. Level sets are in the order in which they first come, in every report. Intervals
draw from a seed, so the order of draws, ADDED_ROWS and HALVINGS are part of the answers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import compiled
from onlinecal.measures.counts import check_weights, total_of
from onlinecal.measures.decision.losses import residuals
from onlinecal.measures.distance.bracket import Interval
from onlinecal.measures.lp.level_sets import levels_of, norm, number_level_sets
from onlinecal.tables.columns import check_labelled_rows
from onlinecal.validation import check_choice, check_count, check_open_unit, check_order, seed_sequence


@dataclass(frozen=True, eq=False)
class LevelSetError:
    """One level set, rows with nearly the same probabilities, and one class: what they add to the error.

    Attributes
    ----------
    level_set
        The multiples of 1/n_bins that the rows' probabilities round down to, shape (k,).
    class_number
        The number of the class, from 0.
    n_rows
        How many rows are in the level set, or the sum of their weights.
    forecast, frequency
        Averages over these rows: of the class's probability, and of the class being the label.
    error
        (forecast - frequency) * n_rows / n with n all rows, or the sum of all weights: positive where the
        class is promised too often.
    share
        |error|^p as a part of the sum over all level sets and classes. For p = inf it is 1 for an error as
        large as the largest, and 0 for the others.
    """

    level_set: Floats
    class_number: int
    n_rows: float
    forecast: float
    frequency: float
    error: float
    share: float


def lp_calibration_error(
    probabilities: ArrayLike,
    labels: ArrayLike,
    p: float = 2,
    *,
    n_bins: int = 10,
    sample_weight: ArrayLike | None = None,
) -> float:
    """The calibration error of whole rows: the l_p norm of the biases of all level sets and classes.

    A level set v is the rows with nearly the same probabilities. The bias of v and class j is Err(v, j) =
    |sum over the rows in v of (probability of j - whether j came)| / n, with n all rows (or the sum of their
    weights), and the error is (sum over all v and j of Err(v, j)^p)^(1/p).

    Parameters
    ----------
    probabilities
        Class probabilities, shape (n, k); every row sums to 1 within 1e-6.
    labels
        The classes that came true, shape (n,), whole numbers 0..k-1.
    p
        From 1 (the expected calibration error, a sum over level sets and classes) to inf (the largest).
    n_bins
        Rows are in the same level set if all their probabilities round down to the same multiples of
        1/n_bins; a probability at most 1e-7 below a multiple counts as the multiple. `LpRecalibrator`
        corrects those of its `n_levels`.
    sample_weight
        For how many rows each counts, shape (n,), at least 0; None: for one.

    Returns
    -------
    float
        An average over rows: 0 when in every level set the mean forecast is the mean outcome, at most
        2^(1/p). Like every plug-in estimate it is too large by what chance adds, about sqrt(sum of variances
        / n) for p = 2; `lp_calibration_interval` says how far that may be.

    Raises
    ------
    ValueError
        Bad probabilities, labels, p, n_bins or sample_weight; the message names the argument, the value and
        its row.

    References
    ----------
    Bairaktari & Nguyen, "Sample-efficient Multiclass Calibration under Probability-weighted l_p Error"
    (2025), Definition 6.

    Examples
    --------
    >>> lp_calibration_error([[0.75, 0.25], [0.75, 0.25]], [0, 1], p=1, n_bins=4)
    0.5
    """
    table, classes, p, n_bins = checked(probabilities, labels, p, n_bins)
    sets = _level_sets_of(table, classes, n_bins, sample_weight, probabilities)
    return norm_of(sets.biases.ravel(), p) / float(sets.weights.sum())


def lp_calibration_report(
    probabilities: ArrayLike,
    labels: ArrayLike,
    p: float = 2,
    *,
    n_bins: int = 10,
    top: int = 10,
    sample_weight: ArrayLike | None = None,
) -> list[LevelSetError]:
    """The level sets and classes that carry most of the l_p calibration error, the largest first.

    Returns a list of at most `top` `LevelSetError`; it is shorter if fewer level sets and classes have an
    error at all. Of equal errors the level set that appears first in the rows comes first, and then the
    smaller class.

    Parameters
    ----------
    probabilities
        Class probabilities, shape (n, k); every row sums to 1 within 1e-6.
    labels
        The classes that came true, shape (n,), whole numbers 0..k-1.
    p
        Order of the error, from 1 to inf. It decides the `share` of the error that each has, and not the
        order.
    n_bins
        Rows are in the same level set if all their probabilities round down to the same multiples of
        1/n_bins.
    top
        How many are wanted, at least 1.
    sample_weight
        For how many rows each counts, shape (n,), at least 0; None: for one.

    Raises
    ------
    ValueError
        Bad arguments; the message names the argument, the value and its row.
    """
    top = check_count(top, "top")
    table, classes, p, n_bins = checked(probabilities, labels, p, n_bins)
    weights, numbers, first_rows, _, biases = _level_sets_of(
        table, classes, n_bins, sample_weight, probabilities
    )
    errors = biases / float(weights.sum())
    total, sizes = norm_of(errors.ravel(), p), np.abs(errors)
    largest = []
    for place in np.argsort(-sizes, axis=None, kind="stable")[:top].tolist():
        number, j = divmod(place, table.shape[1])
        if not sizes[number, j]:
            break
        rows, size = (numbers == number) & (weights > 0.0), sizes[number, j] / total
        largest.append(
            LevelSetError(
                level_set=levels_of(table[first_rows[number]], n_bins) / n_bins,
                class_number=j,
                n_rows=total_of(weights[rows]),
                forecast=float(np.average(table[rows, j], weights=weights[rows])),
                frequency=float(np.average(classes[rows] == j, weights=weights[rows])),
                error=float(errors[number, j]),
                share=float(size >= 1.0 - 1e-12) if math.isinf(p) else float(size**p),
            )
        )
    return largest


def checked(
    probabilities: ArrayLike, labels: ArrayLike, p: Any, n_bins: Any
) -> tuple[Floats, Ints, float, int]:
    """The four arguments of the error, checked: shapes (n, k) and (n,), p from 1 up, n_bins from 1 up."""
    table, classes = check_labelled_rows(probabilities, labels)
    return table, classes, check_order(p), check_count(n_bins, "n_bins", 2**53)


class LevelSetSums(NamedTuple):
    """The level sets of a table, and what is summed up over them.

    Attributes
    ----------
    weights, numbers
        For each row its weight and the number of its level set, (n,).
    first_rows
        For each level set its first row, (D,).
    wrong
        f - y by columns, (k, n).
    biases
        The sum of (f - y) over the rows of each level set, each times its weight, (D, k).
    """

    weights: Floats
    numbers: Ints
    first_rows: Ints
    wrong: Floats
    biases: Floats


def _level_sets_of(
    table: Floats, classes: Ints, n_bins: int, sample_weight: ArrayLike | None, probabilities: ArrayLike
) -> LevelSetSums:
    weights = check_weights(sample_weight, len(table), probabilities, "probabilities")
    numbers, first_rows = number_level_sets(table, n_bins)
    wrong = np.ascontiguousarray(residuals(table, classes).T)
    biases = sums_of_level_sets(weights * wrong, numbers, len(first_rows))
    return LevelSetSums(weights, numbers, first_rows, wrong, biases)


def sums_of_level_sets(columns: Floats, numbers: Ints, n_sets: int) -> Floats:
    """The sums over each level set of f - y, given by columns (k, n): shape (D, k); in the order of rows."""
    return np.stack([np.bincount(numbers, column, n_sets) for column in columns], axis=1)


@compiled
def norm_of(values: Floats, p: float) -> float:
    """The l_p norm, compiled: numpy's powers have other last bits on other processors."""
    return norm(values, p)


def linf_conditional_error(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    n_bins: int = 10,
    min_rows: int = 1,
    sample_weight: ArrayLike | None = None,
) -> float:
    """The largest |mean probability - frequency| of any class within any level set of similar rows.

    `lp_calibration_error` with p = inf weighs the same differences with the level set's share of all rows.
    This one does not: forecasts that are wrong for few rows are as bad as those that are wrong for many. For
    one event, given as two classes, it is the maximum calibration error in bins.

    Parameters
    ----------
    probabilities, labels
        Class probabilities, shape (n, k), every row with sum 1, and the classes that came true, shape (n,),
        whole numbers 0..k-1.
    n_bins
        Rows are in the same level set if all their probabilities round down to the same multiples of
        1/n_bins; a probability at most 1e-7 below a multiple counts as the multiple.
    min_rows
        Only level sets of at least so many rows, the sum of their weights, count. With 1, a level set of a
        single row counts: it alone makes the error near 1 whenever its label came as a surprise, which is why
        this error cannot be tested with fewer rows than the smallest level set needs. To a difference of a
        probability f over r rows chance adds about sqrt(f (1 - f) / r).
    sample_weight
        For how many rows each counts, shape (n,), at least 0; None: for one.

    Returns
    -------
    float
        A difference of probabilities, from 0 to 1, neither a sum nor an average over all rows; 0 if no level
        set has min_rows rows. If every one has, it is between err and err * n / min_rows, where n is all rows
        (or the sum of their weights) and err `lp_calibration_error` with p = inf.

    Raises
    ------
    ValueError
        Bad probabilities, labels, n_bins, min_rows or sample_weight; the message names the argument, the
        value and its row.

    References
    ----------
    Gruber & Buettner, "Better uncertainty calibration via proper scores for classification and beyond"
    (2022), for the conditional error; Naeini, Cooper & Hauskrecht (2015), for one event; Bairaktari & Nguyen,
    "Sample-efficient Multiclass Calibration under l_p Error" (2025), for why they weigh.

    Examples
    --------
    >>> linf_conditional_error([[0.75, 0.25]] * 3 + [[0.25, 0.75]], [0, 0, 1, 0], n_bins=4)
    0.75
    >>> rows, labels = [[0.75, 0.25]] * 3 + [[0.25, 0.75]], [0, 0, 1, 0]
    >>> round(linf_conditional_error(rows, labels, n_bins=4, min_rows=2), 9)
    0.083333333
    """
    check_count(min_rows, "min_rows")
    table, classes, _, n_bins = checked(probabilities, labels, np.inf, n_bins)
    sets = _level_sets_of(table, classes, n_bins, sample_weight, probabilities)
    rows = np.bincount(sets.numbers, sets.weights)
    enough = rows >= min_rows
    return float(np.max(np.abs(sets.biases[enough]) / rows[enough, None], initial=0.0))


IntervalMethod = Literal["normal", "proven"]
INTERVAL_METHODS: tuple[IntervalMethod, ...] = get_args(IntervalMethod)
ADDED_ROWS = 2.0
"""So many rows are added for and against each class before variances are estimated, after Agresti & Coull: a
class that never came in a level set is rare, and need not be impossible."""
HALVINGS = 20
"""How often the range in which the lower end lies is halved."""


def lp_calibration_interval(
    probabilities: ArrayLike,
    labels: ArrayLike,
    p: float = 2,
    *,
    n_bins: int = 10,
    method: IntervalMethod = "normal",
    confidence: float = 0.95,
    n_resamples: int = 1000,
    random_state: int = 0,
    sample_weight: ArrayLike | None = None,
) -> Interval:
    """A confidence interval for the l_p calibration error of the distribution that rows were drawn from.

    That is the error of `lp_calibration_error` with infinitely many rows from there, called the source.

    Parameters
    ----------
    probabilities, labels
        Class probabilities, shape (n, k), every row with sum 1, and the classes that came true, shape (n,),
        whole numbers 0..k-1. The rows are taken to be independent.
    p
        The order of the error, from 1 to inf.
    n_bins
        Rows are in the same level set if all their probabilities round down to the same multiples of
        1/n_bins.
    method
        "normal": takes the biases of level sets as normally distributed round the source's own, with
        variances that allow for classes that are rare and did not come. Intervals of 95 % held the truth in
        94 to 100 % of samples of every source that was tried: of 5 to 10,000 rows, with one level set, ten or
        a hundred, two classes or five, rare events or frequent ones, calibrated or not. Nothing is proved.
        "proven": holds for every source and any number of rows. It is wide, about 4 sqrt(1/n) for p = 2.
    confidence
        How often the interval is to hold the truth, between 0 and 1.
    n_resamples, random_state
        How many draws "normal" makes for its lower end, at least 1, and their seed, a whole number from 0 on
        or a sequence of these; the same random_state gives the same interval.
    sample_weight
        How much each row counts, shape (n,), at least 0; None: all the same. Only the proportions of weights
        matter: a row that counts twice is no second row, which would make the interval narrower. Rows of
        weight 0 are left out. For "normal", weights may depend on the probabilities but not on the label; for
        "proven", they must be fixed before the rows are drawn.

    Returns
    -------
    Interval
        lower < upper, averages over rows as the error is, from 0 to 2^(1/p).

    Raises
    ------
    ValueError
        Bad arguments; the message names the argument, the value and its row.

    Notes
    -----
    The error is the norm of the mean of n independent vectors X = (f - y) placed at their level set, whose l1
    norm is at most 2 and whose entries are at most 1, so |X|_p^p <= 2.

    "normal": let b be the sample's biases, beta the source's and r = b - beta. For the vector w of dual norm
    1 with w beta = |beta|_p, |b|_p >= w b = |beta|_p + w r, so the upper end is |b|_p plus the normal
    quantile times the largest standard deviation that w r can have. For p >= 2 that is the one of the level
    set with the largest variance. The lower end is |b|_p less the quantile of |r|_p, which is drawn; for p =
    2 it is the least t for which |t b/|b|_p + r|_p reaches |b|_p often enough. So it allows for the amount by
    which chance makes every estimate too large. Both ends are moved by half of what one row can change, since
    outcomes are counts.

    "proven": exchanging one row moves the norm by at most c/n with c = 4^(1/p) for two different level sets
    and c = 2^(1/p) (1 + n_bins^(1/p - 1)) within one, where forecasts differ by at most 1/n_bins. Bounded
    differences then keep it within c sqrt(ln(2/(1 - confidence)) / (2n)) of its mean. The mean is above the
    truth by at most sqrt(2/n) for p >= 2 (the l_p norm is below the l2 norm, whose mean square is the sum of
    variances), and by at most (2^(p+2) n^(1-p))^(1/p) for p < 2 (von Bahr and Esseen, class by class).

    With weights the rows have shares s_i in the mean. A row moves the norm by at most c s_i, so 1/n becomes
    the sum of s_i^2 in the deviation and in the variances; for p < 2, n^(1-p) that of s_i^p.

    References
    ----------
    McDiarmid, "On the method of bounded differences" (1989); von Bahr & Esseen (1965); Agresti & Coull,
    "Approximate is better than exact for interval estimation of binomial proportions" (1998).
    """
    check_choice(method, INTERVAL_METHODS, "method")
    check_open_unit(confidence, "confidence")
    n_resamples = check_count(n_resamples, "n_resamples")
    seed = seed_sequence(random_state, name="random_state")
    table, classes, p, n_bins = checked(probabilities, labels, p, n_bins)
    if sample_weight is not None:
        weights = check_weights(sample_weight, len(table), probabilities, "probabilities")
        inside = weights > 0.0
        table, classes, sample_weight = table[inside], classes[inside], weights[inside]
    n, missed = len(table), 1.0 - float(confidence)
    sets = _level_sets_of(table, classes, n_bins, sample_weight, probabilities)
    weights, biases = sets.weights, sets.biases / float(sets.weights.sum())
    error = norm_of(biases.ravel(), p)
    shares = None if sample_weight is None else weights / float(weights.sum())
    rows = n if shares is None else 1.0 / float((shares**2).sum())
    if method == "proven":
        spread = _largest_change(p, n_bins) * math.sqrt(math.log(2.0 / missed) / (2 * rows))
        if p >= 2:
            above = math.sqrt(2.0 / rows)
        else:
            powers = n ** (1.0 - p) if shares is None else float((shares**p).sum())
            above = (2.0 ** (p + 2) * powers) ** (1.0 / p)
        return Interval(max(0.0, error - spread - above), min(2.0 ** (1.0 / p), error + spread))
    noise, step = Noise.of(table, sets), 2.0 ** (1.0 / p) / (2.0 * rows)
    upper = error + NormalDist().inv_cdf(1.0 - missed / 2.0) * noise.largest(p) + step
    lower = noise.least(biases, error - step, p, missed / 2.0, n_resamples, seed) if error > step else 0.0
    return Interval(lower, min(2.0 ** (1.0 / p), upper))


class Noise(NamedTuple):
    """How far the biases of D level sets may be from the source's.

    Attributes
    ----------
    scale
        For each set the sum of the squares of its rows' shares, (D,). The frequency of a class, times the
        mass of the set, has this times the class's own variance.
    mass
        The variance of the set's mass, (D,).
    away, between, frequencies
        Mean forecast less frequency, what lies between forecast and frequency, and the frequency with
        ADDED_ROWS rows, each (D, k).
    """

    scale: Floats
    mass: Floats
    away: Floats
    between: Floats
    frequencies: Floats

    @classmethod
    def of(cls, table: Floats, sets: LevelSetSums) -> Noise:
        """The noise of these rows (n, k)."""
        shares, n_sets = sets.weights / sets.weights.sum(), len(sets.first_rows)
        masses = np.bincount(sets.numbers, shares, n_sets)
        scale = np.bincount(sets.numbers, shares**2, n_sets).astype(np.float64)
        sums = np.stack([np.bincount(sets.numbers, shares * c, n_sets) for c in table.T], axis=1)
        forecasts = sums / masses[:, None]
        away = sets.biases / sets.weights.sum() / masses[:, None]
        frequency = np.clip(forecasts - away, 0.0, 1.0)
        rows = (masses**2 / scale)[:, None]
        added = (rows * frequency + ADDED_ROWS) / (rows + 2.0 * ADDED_ROWS)
        whole = float(scale.sum())
        return cls(
            scale,
            scale - 2.0 * masses * scale + masses**2 * whole,
            away,
            (forecasts + frequency) / 2.0,
            added,
        )

    def largest(self, p: float) -> float:
        """The largest standard deviation of biases, summed with any numbers of dual norm 1."""
        # ADDED_ROWS make the variances of counts larger, while the shares of rows stay
        variances = self.scale[:, None] * self.frequencies * (1.0 - self.frequencies)
        variances += self.mass[:, None] * self.away**2
        if p >= 2:
            return float(np.sqrt(variances.sum(axis=1).max()))
        return float(np.sqrt((np.sqrt(variances).sum(axis=1) ** 2).sum()))

    def least(self, biases: Floats, seen: float, p: float, missed: float, number: int, seed: Any) -> float:
        """The least error with which noise reaches the error `seen` with the chance `missed`.

        That is found by so many draws of noise.
        """
        rng = np.random.default_rng(seed)
        draws = (self._drawn(rng) for _ in range(number))
        if p != 2:
            sizes = [norm_of(r.ravel(), p) for r in draws]
            return max(0.0, seen - float(np.quantile(sizes, 1.0 - missed)))
        direction = biases / norm_of(biases.ravel(), p)
        along, squares = np.array([((r * direction).sum(), (r * r).sum()) for r in draws]).T

        def reached(t: float) -> bool:
            return float(np.mean(t * t + 2.0 * t * along + squares >= seen * seen)) >= missed

        low, high = 0.0, seen
        for _ in range(0 if reached(low) else HALVINGS):
            middle = (low + high) / 2.0
            low, high = (low, middle) if reached(middle) else (middle, high)
        return low

    def _drawn(self, rng: np.random.Generator) -> Floats:
        """Normal noise with the covariances of counts, shape (D, k)."""
        roots = np.sqrt(self.between)
        z = rng.standard_normal(self.between.shape) * roots
        counts = np.sqrt(self.scale)[:, None] * (z - self.between * z.sum(axis=1, keepdims=True))
        masses = np.sqrt(np.maximum(self.mass, 0.0)) * rng.standard_normal(len(self.mass))
        return np.asarray(counts + masses[:, None] * self.away)


def _largest_change(p: float, n_bins: int) -> float:
    """The most that one row can move the error, times n."""
    return max(4.0 ** (1.0 / p), 2.0 ** (1.0 / p) * (1.0 + float(n_bins) ** (1.0 / p - 1.0)))
