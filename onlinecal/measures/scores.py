"""Scores of forecasts, the parts of scores, and calibration errors that look at one event at a time.

What users call gives averages over rounds, unless they ask for sums. `brier_score`, `cross_entropy`,
`best_constant_brier`, `excess` and all that end in `_of_counts` are for other modules, and are sums.

A calibration error of one event asks for less than calibration of whole rows (`lp_calibration_error`): a
forecaster can have the error 0 classwise, of its confidence and of its top label, and still be wrong about
which class comes second.

Nothing here has a state. Equal arguments give equal bits; the corpus (`tests/corpus`) has some, and a change
that is meant is written there. `event_scores`, `class_scores`, costs and losses check nothing: they take what
others have checked. LEAST_PROBABILITY also bounds the log losses that ledgers have sums of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.html import Shown
from onlinecal.measures.conventions import OURS, Binning, Chosen, chosen
from onlinecal.measures.counts import Counts, check_weights, count_shares
from onlinecal.measures.ranges import p_value_of_range
from onlinecal.tables.columns import check_labelled_rows, check_outcome_rows, check_same_index


def expected_calibration_error(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    *,
    n_bins: int | None = None,
    normalize: bool = True,
    sample_weight: ArrayLike | None = None,
    convention: str | None = None,
) -> float:
    """Sum over level sets of the absolute bias, |sum of (forecast - outcome)|, per round.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,).
    outcomes
        0/1, boolean, or any numbers in [0, 1], shape (T,).
    n_bins
        None: a level set is all rounds with exactly the same forecast. A number B: the level sets are the
        equal-width bins [i/B, (i+1)/B), the last one closed; within a bin the biases add up.
    normalize
        True: divided by T, the average usually printed. False: the sum over rounds.
    sample_weight
        For how many rounds each counts, shape (T,), at least 0; None: for one.
    convention
        The name of another package, as "torchmetrics": its bins, at the version and in the way that
        docs/in-their-numbers.md states. n_bins=None is then the number that the package takes by itself.
        None: as above.

    Returns
    -------
    float
        In [0, 1] if it is an average. 0 when, within every level set, forecasts and outcomes have the same
        mean.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes, n_bins or sample_weight; the message names the argument, the value and its
        row. A convention that is not known, or has no such error; the message names those that have. An
        average over rounds of which the convention has none in its bins: forecasts of 0 alone, by
        "calzone-tool".

    References
    ----------
    Foster & Vohra, "Asymptotic calibration" (1998), for level sets; Naeini, Cooper & Hauskrecht, "Obtaining
    well calibrated probabilities using Bayesian binning" (2015), for bins.

    Examples
    --------
    >>> expected_calibration_error([0.5, 0.5, 1.0, 1.0], [0, 1, 0, 1])
    0.25
    """
    by = chosen(convention, "event", n_bins)
    return _event_error(forecasts, outcomes, by, normalize, sample_weight)


def _event_error(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    by: Chosen,
    normalize: bool,
    sample_weight: ArrayLike | None,
) -> float:
    """The expected calibration error of one event in the bins that were chosen."""
    counts, _, _ = count_shares(forecasts, outcomes, sample_weight)
    error = expected_error_of_counts(counts, by.n_bins, by.binning)
    if not normalize:
        return error
    total = counts.total
    if by.binning.counts_the_binned and by.n_bins is not None:
        places, _ = by.binning.members(counts.values, by.n_bins)
        total = float((counts.zeros + counts.ones)[places].sum())
    if not total:
        raise ValueError(
            "forecasts must not all be 0 with this convention, whose bins leave 0 out: there is no round to "
            "average over. Leave the convention out, or give normalize=False"
        )
    return error / total


def expected_error_of_counts(counts: Counts, n_bins: int | None = None, binning: Binning = OURS) -> float:
    """The expected calibration error of a counted history, a sum; n_bins=None: by level sets."""
    biases = counts.biases
    if n_bins is not None:
        places, numbers = binning.members(counts.values, n_bins)
        biases = np.asarray(np.bincount(numbers, weights=biases[places]), dtype=np.float64)
    return math.fsum(np.abs(biases))


class CumulativeCalibrationError(NamedTuple):
    """The range of the cumulative errors, and what calibrated forecasts would make of it.

    Attributes
    ----------
    error
        An average over rounds, in [0, 1], or a sum.
    p_value
        How likely calibrated forecasts are to have at least this error.
    """

    error: float
    p_value: float


def cumulative_calibration_error(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    *,
    normalize: bool = True,
    sample_weight: ArrayLike | None = None,
) -> CumulativeCalibrationError:
    """The largest bias over any interval of forecasts, with its p-value. There are no bins to choose.

    Rounds are sorted by their forecasts, and (outcome - forecast) is summed up along them. The error is the
    range of these sums; intervals begin and end between different forecasts.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,).
    outcomes
        0/1, boolean, or any numbers in [0, 1], shape (T,).
    normalize
        True: the error is divided by T. False: a sum over rounds.
    sample_weight
        For how many rounds each counts, shape (T,), at least 0; None: for one. The p-value is that of so many
        independent rounds.

    Returns
    -------
    CumulativeCalibrationError
        `error`, at most the expected calibration error without bins, and `p_value`: if the forecasts are
        calibrated it is at most a with probability at most a, however rare events are and however few rounds
        there are. While the variance of calibrated forecasts, the sum of p (1 - p), is below 200, outcomes
        are drawn from the forecasts, at most 9,999 times and always the same. The p-value is then at least
        1/10,000, and hardly ever off by more than a fifth. From a variance of 200 on it is that of the range
        of a Brownian motion with this variance: below 1/1000 it gives the order of magnitude, and it is too
        large if many forecasts are tied. It is also too large if outcomes lie between 0 and 1, since they are
        less uncertain than drawn ones. It is 1 if the variance and the error are 0, and 0 if only the
        variance is 0.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes or sample_weight; the message names the argument, the value and its row.

    References
    ----------
    Arrieta-Ibarra, Gujral, Tannen, Tygert & Xu, "Metrics of calibration for probabilistic predictions"
    (2022), for ECCE-R; Feller, "The asymptotic distribution of the range of sums of independent random
    variables" (1951); Besag & Clifford, "Sequential Monte Carlo p-values" (1991).

    Examples
    --------
    >>> cumulative_calibration_error([0.25, 0.25, 0.75, 0.75], [0, 1, 1, 1]).error
    0.25
    """
    counts, _, _ = count_shares(forecasts, outcomes, sample_weight)
    error = cumulative_error_of_counts(counts)
    p_value = p_value_of_range(counts, error)
    return CumulativeCalibrationError(error / counts.total if normalize else error, p_value)


def cumulative_error_of_counts(counts: Counts) -> float:
    """The cumulative calibration error of a counted history, a sum."""
    sums = np.cumsum(counts.biases)
    return float(max(0.0, sums.max()) - min(0.0, sums.min()))


def two_bin_error(
    forecasts: ArrayLike, outcomes: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """How far from calibrated forecasts are in two bins, below and above an edge drawn evenly from [0, 1].

    For an edge q the squares of both bins' biases, sums of (forecast - outcome) divided by T, are added up;
    the error is the mean of that over q. It is truthful: of independent outcomes, whatever their chances are,
    no forecasts have a smaller mean than the chances themselves. Other calibration errors can be made smaller
    by forecasts that are wrong on purpose.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,).
    outcomes
        0/1, boolean, or any numbers in [0, 1], shape (T,).
    sample_weight
        For how many rounds each counts, shape (T,), at least 0; None: for one.

    Returns
    -------
    float
        In [0, 1], in squared units: the square of an average over rounds. Calibrated forecasts have about
        the sum of p (1 - p), divided by T squared; `chance_level` gives the value for one's own forecasts.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes or sample_weight; the message names the argument, the value and its row.

    References
    ----------
    Hartline, Hu & Wu, "A perfectly truthful calibration measure" (2025). docs/measures.md has the proof.

    Examples
    --------
    >>> two_bin_error([0.5, 0.5], [1, 1])
    0.25
    >>> two_bin_error([0.5, 0.5], [0, 1])
    0.0
    """
    counts, _, _ = count_shares(forecasts, outcomes, sample_weight)
    return two_bin_error_of_counts(counts) / counts.total


def two_bin_error_of_counts(counts: Counts) -> float:
    """The averaged two-bin error of a counted history, times its rounds."""
    below = np.concatenate([[0.0], np.cumsum(counts.biases)])
    lengths = np.diff(np.concatenate([[0.0], counts.values, [1.0]]))
    return float((lengths * (below**2 + (below[-1] - below) ** 2)).sum() / counts.total)


def classwise_calibration_error(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    n_bins: int | None = None,
    normalize: bool = True,
    sample_weight: ArrayLike | None = None,
    convention: str | None = None,
) -> float:
    """The sum over classes of the expected calibration error of "this class comes true".

    Parameters
    ----------
    probabilities
        Class probabilities, shape (n, k); every row sums to 1 within 1e-6.
    labels
        The classes that came true, shape (n,), whole numbers 0..k-1; or soft labels, rows of shares with sum
        1, shape (n, k).
    n_bins
        None: a level set of a class is all rows that give it exactly the same probability. A number B:
        equal-width bins, as for `expected_calibration_error`.
    normalize
        True: divided by n, a sum over classes of averages over rows. False: a sum over rows and classes.
    sample_weight
        For how many rows each counts, shape (n,), at least 0; None: for one.
    convention
        The name of another package, as for `expected_calibration_error`; those that are known divide by k.

    Returns
    -------
    float
        A sum over classes, as everything that is called classwise in this package. Divide it by k for the
        average over classes of Kull et al. For two classes and n_bins=None it is twice the expected
        calibration error of either.

    Raises
    ------
    ValueError
        Bad probabilities, labels, n_bins or sample_weight; the message names the argument, the value and its
        row. A convention that is not known, or has no such error.

    References
    ----------
    Kull et al., "Beyond temperature scaling: obtaining well-calibrated multi-class probabilities with
    Dirichlet calibration" (2019); Nixon et al., "Measuring calibration in deep learning" (2019).

    Examples
    --------
    >>> classwise_calibration_error([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]], [0, 1])
    0.5
    """
    by = chosen(convention, "classwise", n_bins)
    check_same_index(probabilities, sample_weight, "probabilities and sample_weight")
    table, came = check_outcome_rows(probabilities, labels)
    errors = []
    for j, column in enumerate(table.T):
        shares = np.minimum(came[:, j], 1.0) if came.ndim == 2 else came == j
        column = np.minimum(column, 1.0)
        errors.append(_event_error(column, shares, by, normalize, sample_weight))
    return math.fsum(errors) / (table.shape[1] if by.convention.averages_classes else 1)


def confidence_calibration_error(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    n_bins: int | None = None,
    normalize: bool = True,
    sample_weight: ArrayLike | None = None,
    convention: str | None = None,
) -> float:
    """The expected calibration error of the largest probability, as a forecast of "the top class is right".

    It is what is printed as "ECE" of classifiers, usually with 15 bins.

    Parameters
    ----------
    probabilities
        Class probabilities, shape (n, k); every row sums to 1 within 1e-6. The top class is the one of
        largest probability, of several the first.
    labels
        The classes that came true, shape (n,), whole numbers 0..k-1.
    n_bins
        None: a level set is all rows with exactly the same largest probability. A number B: equal-width bins,
        as for `expected_calibration_error`.
    normalize
        True: an average over rows. False: their sum.
    sample_weight
        For how many rows each counts, shape (n,), at least 0; None: for one.
    convention
        The name of another package, as for `expected_calibration_error`. "netcal" measures the second of two
        columns as one event.

    Returns
    -------
    float
        In [0, 1] if it is an average.

    Raises
    ------
    ValueError
        Bad probabilities, labels, n_bins or sample_weight; the message names the argument, the value and its
        row. A convention that is not known, or has no such error.

    References
    ----------
    Guo, Pleiss, Sun & Weinberger, "On calibration of modern neural networks" (2017).

    Examples
    --------
    >>> confidence_calibration_error([[0.75, 0.25], [0.25, 0.75]], [0, 0])
    0.25
    """
    by = chosen(convention, "confidence", n_bins)
    check_same_index(probabilities, sample_weight, "probabilities and sample_weight")
    table, classes = check_labelled_rows(probabilities, labels)
    if by.convention.reads_the_second_of_two and table.shape[1] == 2:
        return _event_error(np.minimum(table[:, 1], 1.0), classes == 1, by, normalize, sample_weight)
    _, confidence, right = _top(by.binning.rounded(table), classes)
    return _event_error(confidence, right, by, normalize, sample_weight)


def top_label_calibration_error(
    probabilities: ArrayLike,
    labels: ArrayLike,
    *,
    n_bins: int | None = None,
    normalize: bool = True,
    sample_weight: ArrayLike | None = None,
    convention: str | None = None,
) -> float:
    """`confidence_calibration_error` within the rows of each top class, added up over the classes.

    It asks that "cat, 0.8" be right four times in five, and "dog, 0.8" as well; confidence only asks it of
    both together. So it is never the smaller of the two.

    Parameters
    ----------
    probabilities
        Class probabilities, shape (n, k); every row sums to 1 within 1e-6. The top class is the one of
        largest probability, of several the first.
    labels
        The classes that came true, shape (n,), whole numbers 0..k-1.
    n_bins
        None: a level set is all rows with the same top class and exactly the same probability of it. A number
        B: equal-width bins for each top class.
    normalize
        True: an average over all rows. False: their sum.
    sample_weight
        For how many rows each counts, shape (n,), at least 0; None: for one.
    convention
        "mapie": an average over the classes that are ever on top, each counting alike, in its bins.

    Returns
    -------
    float
        The sum over rows and top classes, divided by n with normalize=True, and then in [0, 1].

    Raises
    ------
    ValueError
        Bad probabilities, labels, n_bins or sample_weight; the message names the argument, the value and its
        row. A convention that is not known, or has no such error.

    References
    ----------
    Gupta & Ramdas, "Top-label calibration and multiclass-to-binary reductions" (2022).

    Examples
    --------
    >>> top_label_calibration_error([[0.75, 0.25], [0.25, 0.75]], [0, 0])
    0.5
    """
    by = chosen(convention, "top_label", n_bins)
    table, classes = check_labelled_rows(probabilities, labels)
    top, confidence, right = _top(by.binning.rounded(table), classes)
    weights = check_weights(sample_weight, len(classes), probabilities, "probabilities")
    each = by.convention.averages_classes
    errors = []
    for j in np.unique(top[weights > 0.0]):
        rows = top == j
        weight = None if sample_weight is None else weights[rows]
        errors.append(_event_error(confidence[rows], right[rows], by, each and normalize, weight))
    parts = len(errors) if each else float(weights.sum()) if normalize else 1
    return math.fsum(errors) / parts


def _top(table: Floats, classes: Ints) -> tuple[Ints, Floats, Ints]:
    """For each row the top class, its probability, and whether it came true; each (n,)."""
    top = table.argmax(axis=1)
    # the sum of a row may be a little above 1, and so may a probability
    confidence = np.minimum(table[np.arange(len(table)), top], 1.0)
    return top, confidence, (top == classes).astype(np.int64)


ECE_BINS = 15
"""Equal-width bins of the expected calibration error, unless a user asks for another number."""
LEAST_PROBABILITY = 1e-15
"""In the log loss probabilities are at least this, as in river. (In scikit-learn's log_loss they are at least
2e-16, so that an outcome of probability 0 costs 36.0 instead of 34.5.)"""


class BesideConstants:
    """Has the scores of forecasts, and of their best constant in hindsight, by the names of the scores."""

    __slots__ = ()

    brier: float
    log_loss: float
    brier_constant: float
    log_loss_constant: float

    @property
    def losses(self) -> dict[str, float]:
        """The scores of the forecasts."""
        return {"Brier score": self.brier, "log loss": self.log_loss}

    @property
    def constants(self) -> dict[str, float]:
        """The scores of the best constant."""
        return {"Brier score": self.brier_constant, "log loss": self.log_loss_constant}


class EventScores(NamedTuple):
    """Averages over rounds for one event: (p - y)^2, log loss, and expected calibration error in bins."""

    brier: float
    log_loss: float
    ece: float


class ClassScores(NamedTuple):
    """Averages over rows. The Brier score is a sum over classes; `ece` is that of the confidence, in bins."""

    brier: float
    log_loss: float
    accuracy: float
    ece: float


def event_scores(forecasts: Floats, outcomes: NDArray[np.uint8]) -> EventScores:
    """The scores of forecasts of one event, both of shape (T,)."""
    return EventScores(
        brier_score(forecasts, outcomes) / len(outcomes),
        log_loss(np.where(outcomes == 1, forecasts, 1.0 - forecasts)),
        expected_calibration_error(forecasts, outcomes, n_bins=ECE_BINS),
    )


def class_scores(probabilities: Floats, labels: NDArray[np.int64]) -> ClassScores:
    """The scores of probabilities (n, k) and labels (n,)."""
    rows = np.arange(len(labels))
    return ClassScores(
        class_brier(probabilities, labels),
        log_loss(probabilities[rows, labels]),
        float((probabilities.argmax(axis=1) == labels).mean()),
        confidence_calibration_error(probabilities, labels, n_bins=ECE_BINS),
    )


def class_brier(probabilities: Floats, labels: NDArray[np.int64]) -> float:
    """The Brier score of probabilities (n, k) and labels (n,): a sum over classes, an average over rows."""
    errors = probabilities.copy()
    errors[np.arange(len(labels)), labels] -= 1.0
    return float((errors**2).sum(axis=1).mean())


def log_costs(probabilities: Floats, least: float = LEAST_PROBABILITY) -> Floats:
    """The log loss of outcomes that had these probabilities, of any shape; at most -log(least)."""
    with np.errstate(divide="ignore"):
        costs: Floats = -np.log(np.clip(probabilities, least, None))
    return costs


def log_loss(probabilities: Floats, least: float = LEAST_PROBABILITY) -> float:
    """The average log loss of outcomes that had these probabilities, shape (T,)."""
    return float(log_costs(probabilities, least).mean())


def cross_entropy(forecasts: Floats, outcomes: NDArray[np.uint8] | Floats) -> float:
    """The log loss, a sum over rounds; an outcome y between 0 and 1 is y of a 1 and 1 - y of a 0."""
    return float(event_costs(forecasts, outcomes).sum())


def cross_entropy_of_counts(counts: Counts) -> float:
    """The log loss of a counted history, a sum over rounds."""
    return float(
        (counts.zeros * log_costs(1.0 - counts.values) + counts.ones * log_costs(counts.values)).sum()
    )


def event_costs(forecasts: Floats, outcomes: NDArray[np.uint8] | Floats) -> Floats:
    """The log loss of each round, shape (T,)."""
    costs: Floats = outcomes * log_costs(forecasts) + (1.0 - outcomes) * log_costs(1.0 - forecasts)
    return costs


def brier_score(
    forecasts: Floats, outcomes: NDArray[np.uint8] | Floats, weights: Floats | float = 1.0
) -> float:
    """Sum over rounds of (p - y)^2, each times its weight; outcomes may lie between 0 and 1."""
    return float((weights * (forecasts - outcomes) ** 2).sum())


def brier_of_counts(counts: Counts) -> float:
    """The Brier score of a counted history of outcomes 0 and 1, a sum over rounds."""
    return float((counts.zeros * counts.values**2 + counts.ones * (1.0 - counts.values) ** 2).sum())


def best_constant_brier(rounds: int, ones: float) -> float:
    """Sum over rounds of (c - y)^2 for the best constant c, the frequency of ones."""
    return ones * (rounds - ones) / rounds


@dataclass(frozen=True)
class BrierDecomposition(Shown):
    """brier = miscalibration - discrimination + uncertainty, none of them negative.

    Attributes
    ----------
    brier
        The average of (p - y)^2 over rounds, or its sum, as was asked for; all others are in the same unit.
    miscalibration
        How much the best non-decreasing map of the forecasts, found in hindsight, would have lowered it.
    discrimination
        How much lower the mapped forecasts' score is than that of the best constant.
    uncertainty
        The score of the best constant, the mean outcome.
    """

    brier: float
    miscalibration: float
    discrimination: float
    uncertainty: float


def brier_decomposition(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    *,
    normalize: bool = True,
    sample_weight: ArrayLike | None = None,
) -> BrierDecomposition:
    """The Brier score as miscalibration - discrimination + uncertainty, by isotonic regression.

    There are no bins to choose. The map is found in hindsight, so perfect forecasts have a miscalibration
    above 0, too: `chance_level(forecasts, "miscalibration", outcomes)` compares it with what chance alone
    gives.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,).
    outcomes
        0/1, boolean, or any numbers in [0, 1], shape (T,).
    normalize
        True: averages over rounds. False: sums.
    sample_weight
        For how many rounds each counts, shape (T,), at least 0; None: for one.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes or sample_weight; the message names the argument, the value and its row.

    References
    ----------
    Dimitriadis, Gneiting & Jordan, "Stable reliability diagrams for probabilistic classifiers" (2021).

    Examples
    --------
    >>> brier_decomposition([0.5, 0.5, 1.0, 1.0], [0, 1, 1, 1])
    BrierDecomposition(brier=0.125, miscalibration=0.0, discrimination=0.0625, uncertainty=0.1875)
    """
    counts, p, y = count_shares(forecasts, outcomes, sample_weight)
    weights = check_weights(sample_weight, len(p), forecasts)
    scale = 1 / counts.total if normalize else 1.0
    isotonic, means, rounds = _isotonic(counts)
    base = counts.n_ones / counts.total
    return BrierDecomposition(
        brier_score(p, y, weights) * scale,
        max(0.0, excess(counts.values, isotonic, means, rounds)) * scale,
        max(0.0, excess(np.full(len(means), base), isotonic, means, rounds)) * scale,
        brier_score(np.full(len(p), base), y, weights) * scale,
    )


def miscalibration_of_counts(counts: Counts) -> float:
    """The miscalibration of a counted history, a sum."""
    return max(0.0, excess(counts.values, *_isotonic(counts)))


def excess(first: Floats, second: Floats, means: Floats, rounds: Floats) -> float:
    """By how much the Brier score of the first forecasts exceeds that of the second, a sum over rounds.

    All arrays are (K,): for each distinct forecast two others, the mean outcome and the rounds.
    """
    return float((rounds * (first - second) * (first + second - 2.0 * means)).sum())


def _isotonic(counts: Counts) -> tuple[Floats, Floats, Floats]:
    """The isotonic regression at each forecast, the mean outcomes there, and the rounds; each (K,)."""
    # it is imported only here, since it takes longer to load than everything else that scores need
    from scipy.optimize import isotonic_regression

    rounds = np.asarray(counts.zeros + counts.ones, np.float64)
    means = counts.ones / rounds
    return cast(Floats, isotonic_regression(means, weights=rounds).x), means, rounds
