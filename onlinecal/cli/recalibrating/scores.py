"""Scores of a table or column of probabilities under any weights of its rows, with their bootstrap.

Every score is a function of weights of shape (n, B), a column per resample, with values of shape (B,). For a
column of ones it is the public measure. Calibration errors are made of sums over cells of rows (a bin, a
level set and class, a group and level), which are a sparse matrix times the weights.

The module also compares the scores of several methods: intervals, ties, and the best method for each purpose.

Nothing here has a state. All scores of a bootstrap are taken under the same weights, so that methods are
compared on the same resamples; equal seeds give equal weights, however they are cut into blocks. Names of
scores are keys of JSON. RESAMPLES, FEWEST_UNITS and all numbers from NORMAL_QUANTILE on decide intervals and
which method is recommended. BLOCK_NUMBERS and SOME_LOSSES cost memory or time, and may change last bits: a
product with another number of columns may add up in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from onlinecal.arrays import Bools, Floats, Ints
from onlinecal.measures.decision.losses import loss_norms, row_losses
from onlinecal.measures.fixed_order import product
from onlinecal.measures.groups import grid_level
from onlinecal.measures.lp.level_sets import number_level_sets
from onlinecal.measures.scores import ECE_BINS, log_costs

Score = Callable[[Floats], Floats]

RESAMPLES = 200
FEWEST_UNITS = 10
"""With fewer rows, or values of --together, there are too few different resamples for an interval."""
BLOCK_NUMBERS = 16_000_000
"""A block of resamples may have so many numbers."""
SOME_LOSSES = 10
"""The decisions of so many losses are made at once."""
GROUP_LEVELS, LP_LEVELS = 10, 3


def weighted(sums: Floats | csr_array, combine: Callable[[Floats, Floats], Floats]) -> Score:
    """A score from sums over rows, a matrix (cells, n), and the sum of the weights, shape (B,)."""

    def score(weights: Floats) -> Floats:
        weighted_sums = product(sums, weights) if isinstance(sums, np.ndarray) else sums @ weights
        return np.asarray(combine(weighted_sums, weights.sum(axis=0)))

    return score


def by_cell(cells: Ints, residuals: Floats, n_cells: int) -> csr_array:
    """The matrix (n_cells, n) that sums residuals, shape (n,) or (n, k), over cells of the same shape."""
    n = len(residuals)
    rows = np.arange(n).repeat(residuals.size // n)
    return csr_array((residuals.ravel(), (cells.ravel(), rows)), shape=(n_cells, n))


def mean_bias(sums: Floats, total: Floats) -> Floats:
    """The sum over cells of |mean residual|."""
    return np.asarray(np.abs(sums).sum(axis=0) / total)


def average(values: Floats) -> Score:
    """The mean of values, shape (n,)."""
    return weighted(values[None], lambda sums, total: sums[0] / total)


def binned_error(forecasts: Floats, outcomes: NDArray[np.bool_] | NDArray[np.uint8]) -> Score:
    """The expected calibration error of one event in equal bins, as of `expected_calibration_error`."""
    return weighted(by_cell(_bin(forecasts), forecasts - outcomes.astype(np.float64), ECE_BINS), mean_bias)


def classwise_error(table: Floats, labels: Ints) -> Score:
    """`classwise_calibration_error` in equal bins: a sum over classes."""
    k = table.shape[1]
    cells = _bin(np.minimum(table, 1.0)) + ECE_BINS * np.arange(k)
    return weighted(by_cell(cells, _residuals(table, labels), ECE_BINS * k), mean_bias)


def l2_error(table: Floats, labels: Ints) -> Score:
    """`lp_calibration_error` for p = 2 and LP_LEVELS bins a class."""
    k = table.shape[1]
    numbers, first = number_level_sets(table, LP_LEVELS)
    cells = numbers[:, None] * k + np.arange(k)
    sums = by_cell(cells, _residuals(table, labels), len(first) * k)
    return weighted(sums, lambda biases, total: np.sqrt(((np.abs(biases) / total) ** 2).sum(axis=0)))


def decision_gap(table: Floats, labels: Ints, losses: Floats) -> Score:
    """The mean over losses of `decision_loss_gap`."""
    gaps = np.empty((len(losses), len(table)))
    for start in range(0, len(losses), SOME_LOSSES):
        some = slice(start, start + SOME_LOSSES)
        _, predicted, true = row_losses(table, labels, losses[some])
        gaps[some] = (predicted - true) / loss_norms(losses[some])[:, None]
    return weighted(gaps, lambda sums, total: np.abs(sums).mean(axis=0) / total)


def worst_group(forecasts: Floats, outcomes: NDArray[np.bool_] | NDArray[np.uint8], members: Bools) -> Score:
    """The largest violation of any group, `multicalibration_error`; members (n, G), ten level sets."""
    rows, groups = np.nonzero(members)
    n_groups, n_levels = members.shape[1], GROUP_LEVELS + 1
    cells = groups * n_levels + grid_level(forecasts, GROUP_LEVELS)[rows]
    residuals = (forecasts - outcomes.astype(np.float64))[rows]
    # first the biases of all cells, then their counts
    values = np.concatenate([residuals, np.ones(len(rows))])
    places = np.concatenate([cells, cells + n_groups * n_levels]), np.concatenate([rows, rows])

    def worst(sums: Floats, total: Floats) -> Floats:
        bias, count = np.split(sums, 2)
        squares = np.divide(bias**2, count, out=np.zeros_like(bias), where=count > 0.0)
        by_group = squares.reshape(n_groups, n_levels, -1).sum(axis=1)
        return np.asarray(by_group.max(axis=0) / total)

    return weighted(csr_array((values, places), shape=(2 * n_groups * n_levels, len(forecasts))), worst)


def class_scores_of(table: Floats, labels: Ints, losses: Floats) -> dict[str, Score]:
    """The scores of probabilities (n, k) and labels (n,), by the names they have in the table."""
    rows = np.arange(len(labels))
    top = table.argmax(axis=1)
    return {
        "log loss": average(log_costs(table[rows, labels])),
        "Brier": average((_residuals(table, labels) ** 2).sum(axis=1)),
        "accuracy": average((top == labels).astype(np.float64)),
        "classwise ECE": classwise_error(table, labels),
        "top-label ECE": binned_error(*confidences(table, labels)),
        "Err_2": l2_error(table, labels),
        "decision gap": decision_gap(table, labels, losses),
    }


def event_scores_of(forecasts: Floats, outcomes: NDArray[np.uint8], losses: Floats) -> dict[str, Score]:
    """The scores of forecasts (n,) of one event and outcomes (n,), by the names they have in the table."""
    return {
        "log loss": average(log_costs(np.where(outcomes == 1, forecasts, 1.0 - forecasts))),
        "Brier": average((forecasts - outcomes) ** 2),
        "ECE": binned_error(forecasts, outcomes),
        "decision gap": decision_gap(
            np.column_stack([1.0 - forecasts, forecasts]), outcomes.astype(np.int64), losses
        ),
    }


def confidences(table: Floats, labels: Ints) -> tuple[Floats, Bools]:
    """The largest probability of each row, and whether its class, of several the first, came true."""
    top = table.argmax(axis=1)
    return np.minimum(table[np.arange(len(table)), top], 1.0), top == labels


def resamples(n_rows: int, together: Ints | None, width: int, seed: int) -> Iterator[Floats]:
    """Blocks (n, B) of weights: first ones, then how often each row is drawn.

    Rows with the same number in `together` are drawn together; None: every row is drawn by itself. `width` is
    how many numbers a row has, on which the number of resamples in a block depends.
    """
    yield np.ones((n_rows, 1))
    units = np.arange(n_rows) if together is None else np.unique(together, return_inverse=True)[1]
    n_units = int(units.max()) + 1
    rng = np.random.default_rng([seed, 17])
    size = max(1, BLOCK_NUMBERS // (n_rows * width))
    for start in range(0, RESAMPLES, size):
        some = range(start, min(start + size, RESAMPLES))
        drawn = [np.bincount(rng.integers(0, n_units, n_units), minlength=n_units) for _ in some]
        yield np.column_stack(drawn)[units].astype(np.float64)


def drawn_units(n_rows: int, together: Ints | None) -> int:
    """How many units `resamples` draws from."""
    return n_rows if together is None else len(np.unique(together))


def _bin(forecasts: Floats) -> Ints:
    return np.searchsorted(np.arange(ECE_BINS) / ECE_BINS, forecasts, side="right") - 1


def _residuals(table: Floats, labels: Ints) -> Floats:
    errors = table.copy()
    errors[np.arange(len(labels)), labels] -= 1.0
    return errors


NORMAL_QUANTILE = 1.959963984540054
"""An interval of 95 % has so many standard deviations on either side."""
LEAST_SPREAD = 1e-12
"""Resamples that differ by less differ by rounding alone."""
SCORE_ROUNDING = 1e-6
"""Scores that differ by less count as equal, since last bits differ between machines."""
MORE_IS_BETTER = ("accuracy",)
LEAST_ROWS_FOR_ALL = 300
"""With fewer tested rows the log loss alone chooses, since calibration errors are hardly more than chance."""
MOST_TIED = 1.05
"""A method whose log loss is this times the least is not tied with the best, however wide the interval is: a
few outcomes that it gave the probability 0 make both loss and interval large."""
DEARER = 1.01
"""A method whose log loss is more than this times the least is not recommended for the sake of other
purposes."""


class Verdict(NamedTuple):
    """By one measure the method to take, and all methods that chance explains to be behind the best."""

    take: str
    tied: tuple[str, ...]


Drawn = Mapping[str, Mapping[str, Floats]]
"""By measure and method: the score, then its resamples, shape (1 + B,); simplest methods first."""


def score_records(scores: Drawn, other: str) -> list[dict[str, Any]]:
    """A record for each method and measure: intervals of 95 %, and the difference to the method `other`.

    Differences are those of scores on the same resamples. Ends of intervals are None if there are no
    resamples, or if they do not differ.
    """
    records = []
    verdicts = {measure: verdict_of(measure, drawn) for measure, drawn in scores.items()}
    for method in next(iter(scores.values())):
        for measure, drawn in scores.items():
            value, half = _with_half(drawn[method])
            more, more_half = _with_half(drawn[method] - drawn[other])
            take, tied = verdicts[measure]
            records.append(
                {
                    "method": method,
                    "measure": measure,
                    "value": value,
                    "low": None if half is None else max(value - half, 0.0),
                    "high": None if half is None else value + half,
                    "difference": more,
                    "difference_low": None if more_half is None else more - more_half,
                    "difference_high": None if more_half is None else more + more_half,
                    "best": "take" if method == take else "tied" if method in tied else None,
                }
            )
    return records


def verdict_of(measure: str, scores: Mapping[str, Floats]) -> Verdict:
    """The simplest of the methods that chance explains to be behind the best.

    `scores` has for each method, the simplest first, its score and those of its resamples, (1 + B,). Of log
    losses one that is above MOST_TIED times the least is never explained by chance.

    Differences to the best are within one-sided intervals that hold for all methods together with 95 %
    (multiple comparisons with the best; Hsu, 1981, here by the bootstrap). A difference without an interval
    is explained by chance.
    """
    drawn = np.array([*scores.values()]) * (-1.0 if measure in MORE_IS_BETTER else 1.0)
    # the first of those that are equal up to their last bits
    best = int((drawn[:, 0] <= drawn[:, 0].min() + SCORE_ROUNDING).argmax())
    more = drawn - drawn[best]
    reach = more[:, 1:].std(axis=1, ddof=1)
    unknown = ~(reach > LEAST_SPREAD)
    if unknown.all() or np.isnan(reach).any():
        return Verdict(next(iter(scores)), tuple(scores))
    beside = (more[:, 1:] - more[:, 1:].mean(axis=1, keepdims=True)) / np.maximum(reach, SCORE_ROUNDING)[
        :, None
    ]
    # the number of standard deviations that no method exceeds in 95 % of the resamples
    times = float(np.quantile(beside.max(axis=0), 0.95))
    within = unknown | (more[:, 0] <= times * reach + SCORE_ROUNDING)
    if measure == "log loss":
        within &= more[:, 0] <= (MOST_TIED - 1.0) * drawn[best, 0] + SCORE_ROUNDING
    tied = tuple(name for name, is_tied in zip(scores, within, strict=True) if is_tied)
    return Verdict(tied[0], tied)


def advice(scores: Drawn, purposes: Mapping[str, str], n_rows: int) -> tuple[str, str]:
    """The recommended method, and why, in a sentence; `n_rows` were tested.

    Of the methods with the least log loss, up to chance, it is the one that is best for most purposes, and of
    several such methods the simplest.
    """
    verdicts = {purpose: verdict_of(measure, scores[measure]) for purpose, measure in purposes.items()}
    first = verdicts["probabilities"]
    served = {
        name: [purpose for purpose, verdict in verdicts.items() if name in verdict.tied]
        for name in first.tied
    }
    losses = {name: float(scores["log loss"][name][0]) for name in first.tied}
    near = [name for name, loss in losses.items() if loss <= DEARER * losses[first.take] + SCORE_ROUNDING]
    method = first.take if n_rows < LEAST_ROWS_FOR_ALL else max(near, key=lambda name: len(served[name]))
    others = [name for name in near if name != method and served[name] == served[method]]
    texts = [f"its log loss, {losses[method]:.4f}, is the least here as far as these rows can tell"]
    if all(np.isnan(drawn[1:]).any() for drawn in scores["log loss"].values()):
        return method, f"there is too little to draw from to tell any method from {method}"
    if more := [purpose for purpose in served[method] if purpose != "probabilities"]:
        texts.append(f"nothing is better for {_listed(more, 'or')}")
    if others:
        are = "which are" if len(others) > 1 else "which is"
        texts.append(f"simpler than {_listed(others)}, {are} as good")
    if n_rows < LEAST_ROWS_FOR_ALL:
        texts.append(f"on {n_rows} rows nothing else is told from chance")
    for purpose, verdict in verdicts.items():
        if purpose not in served[method]:
            texts.append(f"for {purpose} alone take {verdict.take}")
    return method, "; ".join(texts)


def _listed(names: list[str], word: str = "and") -> str:
    return f" {word} ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _with_half(drawn: Floats) -> tuple[float, float | None]:
    """A score, or a difference, and half of its interval; None if there is none."""
    spread = float(drawn[1:].std(ddof=1))
    same = not drawn.any()
    return float(drawn[0]), NORMAL_QUANTILE * spread if spread > LEAST_SPREAD or same else None
