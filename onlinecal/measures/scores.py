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
from onlinecal.validation import check_flag


def expected_calibration_error(
    forecasts: ArrayLike,
    outcomes: ArrayLike,
    *,
    n_bins: int | None = None,
    normalize: bool = True,
    sample_weight: ArrayLike | None = None,
    convention: str | None = None,
) -> float:
    """The sum over level sets of the absolute bias, |sum of (forecast - outcome)|, per round.

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
        True: divided by T, or by the sum of the weights, the average usually printed. False: not divided, a
        sum over rounds.
    sample_weight
        For how many rounds each counts, shape (T,), at least 0; None: for one.
    convention
        The name of another package, as "torchmetrics": rounds are then sorted into bins as this package does
        it, at the version that docs/in-their-numbers.md states, and n_bins=None is its default number of
        bins. None: as above.

    Returns
    -------
    float
        In [0, 1] if it is an average. 0 when, within every level set, forecasts and outcomes have the same
        mean.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes, n_bins or sample_weight; the message names the argument, the value and its
        row. A convention that is not known, or has no such error; the message names those that have.
        Forecasts that are all 0 with convention="calzone-tool", whose bins leave out 0, so that no round is
        left to average over.

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
    if not check_flag(normalize, "normalize"):
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
    """The largest bias over any interval of forecasts, and how likely chance alone makes one as large.

    Attributes
    ----------
    error
        The range of the sums of (outcome - forecast) along increasing forecasts: divided by the number of
        rounds, or by the sum of their weights, in [0, 1]; if normalize=False was given, a sum.
    p_value
        How likely calibrated forecasts are to have at least this error, from 0 to 1.
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
    range of these sums, the largest less the smallest, with 0 at the start. So it is the largest |sum of
    (outcome - forecast)| over an interval that begins and ends between different forecasts.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,).
    outcomes
        0/1, boolean, or any numbers in [0, 1], shape (T,).
    normalize
        True: the error is divided by T, or by the sum of the weights. False: a sum over rounds.
    sample_weight
        For how many rounds each counts, shape (T,), at least 0; None: for one. The p-value is that of so many
        independent rounds.

    Returns
    -------
    CumulativeCalibrationError
        `error`, at most the expected calibration error without bins, and `p_value`: if the forecasts are
        calibrated, it is at most a with probability at most a for every a in [0, 1], however rare events are
        and however few rounds there are. While the variance of calibrated forecasts, the sum of p (1 - p), is
        below 200, outcomes are drawn from the forecasts, at most 9,999 times and always the same. The p-value
        is then at least 1/10,000. From 1/50 on it is off by more than a fifth in one of a hundred cases at
        most, and from 1/1000 on by a factor of two in two of a hundred. From a variance of 200 on it is that
        of the range of a Brownian motion with this variance: below 1/1000 it gives the order of magnitude,
        and it is too large if many forecasts are tied. It is also too large if outcomes lie between 0 and 1,
        since they are less uncertain than drawn ones. It is 1 if the variance and the error are 0, and 0 if
        only the variance is 0.

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
    value = error / counts.total if check_flag(normalize, "normalize") else error
    return CumulativeCalibrationError(value, p_value)


def cumulative_error_of_counts(counts: Counts) -> float:
    """The cumulative calibration error of a counted history, a sum."""
    sums = np.cumsum(counts.biases)
    return float(max(0.0, sums.max()) - min(0.0, sums.min()))


def two_bin_error(
    forecasts: ArrayLike, outcomes: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float:
    """How far from calibrated forecasts are in two bins, below and above an edge, averaged over all edges.

    For an edge q in [0, 1] each bin's bias is the sum of (forecast - outcome) over its rounds, divided by T,
    or by the sum of the weights. The squares of both are added up, and the error is the mean of that over q,
    all edges alike. It is truthful: of independent outcomes, whatever their chances are, no forecasts have a
    smaller expected error than the chances themselves. Other calibration errors can be made smaller by
    forecasts that are wrong on purpose.

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
        In [0, 1], in squared units: the square of an average over rounds. By chance calibrated forecasts p
        have about the sum of p (1 - p), divided by T squared; `chance_level` gives the value for one's own
        forecasts.

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

    For one class it is the sum over level sets of |sum of (probability - whether the class came)|, divided by
    n, or by the sum of the weights.

    Parameters
    ----------
    probabilities
        Class probabilities, shape (n, k); every row sums to 1 within 1e-6.
    labels
        The classes that came true, shape (n,), whole numbers 0..k-1; or soft labels, rows of shares with sum
        1, shape (n, k).
    n_bins
        None: a level set of a class is all rows that give it exactly the same probability. A number B: the
        equal-width bins [i/B, (i+1)/B), the last one closed.
    normalize
        True: a sum over classes of averages over rows. False: not divided by n, a sum over rows and classes.
    sample_weight
        For how many rows each counts, shape (n,), at least 0; None: for one.
    convention
        The name of another package, as "mapie": its bins are taken, n_bins=None is its default number of
        them, and the sum is divided by k, as all packages do that are known here. None: as above.

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

    It is what is printed as "ECE" of classifiers, usually with 15 bins: the sum over level sets or bins of
    |sum of (largest probability - whether its class came)|, divided by n, or by the sum of the weights.

    Parameters
    ----------
    probabilities
        Class probabilities, shape (n, k); every row sums to 1 within 1e-6. The top class is the one of
        largest probability, of several the first.
    labels
        The classes that came true, shape (n,), whole numbers 0..k-1.
    n_bins
        None: a level set is all rows with exactly the same largest probability. A number B: the equal-width
        bins [i/B, (i+1)/B), the last one closed.
    normalize
        True: an average over rows. False: not divided by n, a sum over rows.
    sample_weight
        For how many rows each counts, shape (n,), at least 0; None: for one.
    convention
        The name of another package, as "torchmetrics": its bins are taken, and n_bins=None is its default
        number of them. Of two columns "netcal" measures the second one as forecasts of an event. None: as
        above.

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
    """The calibration error of the largest probability, for the rows of each top class by themselves.

    Over the rows whose largest probability is that of one class, it is the sum over level sets or bins of
    |sum of (largest probability - whether the class came)|; these are added up over the classes and divided
    by n, or by the sum of the weights.

    It asks that "cat, 0.8" be right four times in five, and "dog, 0.8" as well;
    `confidence_calibration_error` only asks it of both together, and is never larger.

    Parameters
    ----------
    probabilities
        Class probabilities, shape (n, k); every row sums to 1 within 1e-6. The top class is the one of
        largest probability, of several the first.
    labels
        The classes that came true, shape (n,), whole numbers 0..k-1.
    n_bins
        None: a level set is all rows with the same top class and exactly the same probability of it. A number
        B: the equal-width bins [i/B, (i+1)/B) for each top class, the last one closed.
    normalize
        True: an average over all rows. False: not divided by n, a sum over rows.
    sample_weight
        For how many rows each counts, shape (n,), at least 0; None: for one.
    convention
        "mapie": in the bins of that package the average is taken over the rows of each class that is ever on
        top (with normalize=False the sum), and then over these classes, each counting alike; n_bins=None is
        its default number. None: as above. No other package has this error.

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
    each, is_average = by.convention.averages_classes, check_flag(normalize, "normalize")
    errors = []
    for j in np.unique(top[weights > 0.0]):
        rows = top == j
        weight = None if sample_weight is None else weights[rows]
        errors.append(_event_error(confidence[rows], right[rows], by, each and is_average, weight))
    parts = len(errors) if each else float(weights.sum()) if is_average else 1
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
    """The Brier score and its parts: brier = miscalibration - discrimination + uncertainty, none negative.

    Attributes
    ----------
    brier
        The average of (forecast - outcome)^2 over rounds or, if normalize=False was given, the sum; the parts
        are in the same unit.
    miscalibration
        By how much the best non-decreasing map of the forecasts, found in hindsight, would have lowered the
        score.
    discrimination
        By how much the score of the mapped forecasts is lower than that of the best constant.
    uncertainty
        The score of the best constant forecast, which is the mean outcome.
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

    Isotonic regression finds the non-decreasing map of the forecasts with the least Brier score, in
    hindsight. Miscalibration is what it would have gained, discrimination what its score is below that of the
    best constant, and uncertainty the score of this constant. There are no bins to choose. Since the map is
    found in hindsight, perfect forecasts have a miscalibration above 0, too: `chance_level(forecasts,
    "miscalibration", outcomes)` compares it with what chance alone gives.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,).
    outcomes
        0/1, boolean, or any numbers in [0, 1], shape (T,).
    normalize
        True: averages over rounds. False: sums over rounds.
    sample_weight
        For how many rounds each counts, shape (T,), at least 0; None: for one.

    Returns
    -------
    BrierDecomposition
        `brier`, `miscalibration`, `discrimination` and `uncertainty`.

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
    scale = 1 / counts.total if check_flag(normalize, "normalize") else 1.0
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
