"""Recalibrate a table of class probabilities under the l_p error, in scikit-learn's conventions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Literal, Self, get_args

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from onlinecal.arrays import Floats, Ints, pieces
from onlinecal.measures.decision.losses import residuals
from onlinecal.measures.lp.errors import sums_of_level_sets
from onlinecal.measures.lp.level_sets import levels_of, number_level_sets
from onlinecal.recalibration.flooring import floored, least_probability, project_rows
from onlinecal.recalibration.folds import SampleSizeWarning, merged_rows
from onlinecal.recalibration.lp.algorithm import Outcome, run
from onlinecal.recalibration.lp.statistics import (
    ESTIMATIONS,
    Estimation,
    SampleComplexity,
    Statistics,
    coupled_beta,
    error_bound,
    plug_in_statistics,
    pool_statistics,
    rho,
    sample_sizes,
)
from onlinecal.recalibration.probability_recalibrator import weighted
from onlinecal.recalibration.starting import Rows, Start, StartedRecalibrator, fitted_start, started
from onlinecal.validation import check_choice, check_count, check_number, check_open_unit, check_order


class LevelSetMap:
    """What becomes of probabilities, by level set: known ones have levels (B, k) and values (B, k).

    A row in a known level set becomes that level set's value, any other becomes rho of its level set. With
    `shift` the value is added and the sum projected on the simplex, and any other row is kept; `least` is
    what a probability of 0 then becomes, see `onlinecal.recalibration.flooring`.
    """

    def __init__(self, levels: Ints, values: Floats, n_levels: int, shift: bool, least: float = 0.0) -> None:
        self.levels, self.values, self.n_levels = levels, values, n_levels
        self.shift, self.least = shift, least
        self._places = {row.tobytes(): b for b, row in enumerate(levels)}

    def __call__(self, table: Floats) -> Floats:
        """The mapped rows, shape (n, k)."""
        numbers, first_rows = number_level_sets(table, self.n_levels)
        levels = levels_of(table[first_rows], self.n_levels)
        places = np.array([self._places.get(row.tobytes(), -1) for row in levels])[numbers]
        known = places >= 0
        out = table.copy() if self.shift else rho(levels, self.n_levels)[numbers]
        out[known] = self._changed(table[known], self.values[places[known]])
        return out

    def one(self, row: Floats) -> Floats:
        """The same of one row, shape (k,), in a fraction of the time."""
        levels = levels_of(row, self.n_levels)
        place = self._places.get(levels.tobytes(), -1)
        if place < 0:
            return row if self.shift else rho(levels[None], self.n_levels)[0]
        return self._changed(row[None], self.values[place : place + 1])[0]

    def _changed(self, table: Floats, values: Floats) -> Floats:
        """Rows of known level sets, which have these values."""
        return floored(project_rows(table + values), self.least) if self.shift else values


Within = Literal["constant", "shift"]
WITHIN: tuple[Within, ...] = get_args(Within)

MOST_TOLERANCE = 0.25


class LpRecalibrator(StartedRecalibrator):
    """Recalibrate class probabilities as whole rows: what similar rows promise is what comes.

    First a smooth map with few numbers to learn, the start, is fitted. Then level sets are corrected, by
    Algorithm 2 of Bairaktari and Nguyen: what the start makes of the probabilities is sorted into level sets
    by rounding it down to multiples of 1/n_levels. The level sets with enough mass each begin as a group.
    While some group promises some class too much or too little, by more than the tolerance (a difference of
    probabilities, weighted with the group's mass), its prediction is moved to the class's frequency and
    projected on the simplex; groups that come to predict the same level set are merged. The answers mix the
    start's with the corrected ones, in a share that held-out rows decide.

    Parameters
    ----------
    p
        Order of the error, above 1, or inf for the largest error of a level set and class.
    epsilon
        The error to reach, between 0 and 1.
    delta
        How often the guarantee for the source may fail, between 0 and 1.
    n_levels
        Levels per class. None: ceil(1/beta) with beta = epsilon^(p/(p-1)) 2^(-1/(p-1)), as in the paper:
        fine enough to lose next to nothing by rounding, and often too fine to find anything to correct.
    tolerance
        The largest error of a group and class that is left alone; None: beta/2, and at least least_rows/n.
        Level sets with less mass than a third of it are left out.
    estimation
        "plug-in": every estimate is made from all rows; the guarantee is proved by uniform convergence.
        "pools": separate pools of rows for each group size, with Laplace noise, as in the paper; that needs
        thousands of times as many rows for every beta in practical use, and takes no weights.
    seed
        Deals rows to folds and pools, and draws the noise.
    within
        "shift": each level set starts from its mean forecast, and its rows are shifted by what the mean was
        corrected by, then projected; rows of other level sets are kept. What the model knows inside a level
        set then survives, and so does its squared error; only with estimation="plug-in". Projecting could
        make a class 0, so a shifted row p is mixed with the uniform distribution at the weight of one of the
        n fitted rows, (n p + 1/k)/(n + 1). "constant": all rows of a group get its prediction, as in the
        paper; level sets without a group get the distribution nearest to their corner. None: "shift", with
        pools "constant".
    classes
        The labels that the columns stand for, any hashables; None: 0..k-1.
    start
        The map that comes first: "temperature", "vector", "dirichlet", "isotonic" (per class), "beta" or
        "none". "auto": none, temperature, vector or (3 to 12 classes) Dirichlet, the last two with 30
        rows for each number they learn; that of the least log loss of held-out rows, or the simplest that
        chance and .2 % do not tell from it; a temperature without folds. With fewer rows, but 300,
        Dirichlet near the temperature's map (`pull`) if it is better by 2.5 standard errors.
        A start is left out if it would raise the squared error of the fitted rows.
    share
        The part that corrected probabilities have in the answers, 0 to 1, the start's having the rest. None:
        the largest of 0, 0.05, ..., 1 with which no loss rises, compared with the start's: not log loss and
        squared error of the held-out rows, by a standard error, nor squared error of the fitted rows. With
        fewer than two rows a fold it is 0; without folds 1.
    keep
        Each class keeps at least this part of what the start gives it. 0: no such floor.
    limit
        No class is corrected by more than this factor, up or down; rows beyond that, or below `keep`, are
        projected on those within. None: with share=None the widest of 1.25, 1.5, 2, 3, 5, 20, 100 and 1000
        that allows the share; else none, as np.inf.
    n_folds
        Folds of held-out rows, that decide on share and limit; 0: none are held out. Of more than 100,000
        rows one of the folds decides, and of more than 500,000 one of so many, drawn at random.
    least_rows
        With tolerance=None, of how many of the n fitted rows an error is left alone in any case.

    Attributes
    ----------
    classes_
        Labels in the order of the columns, shape (k,).
    n_features_in_
        The number of columns, k. `feature_names_in_`: their names, if the table had names.
    start_
        The fitted start, None for none; start_name_: its name.
    share_, keep_, limit_
        What was used.
    beta_, n_levels_, tolerance_, within_
        What was used; beta_ is twice the tolerance.
    level_sets_
        Lower corners of the level sets that have a group, shape (B, k).
    group_of_level_set_
        Their groups' numbers, shape (B,).
    predictions_, masses_
        The groups' predictions, shape (G, k), and estimated masses, shape (G,).
    n_rounds_, n_merges_
        Rounds played, and how many of them ended in a merge.
    history_
        Error and squared error after each round, and what the round did.
    fitted_error_bound_
        With "plug-in", "constant", share_ = 1, keep_ = 0 and limit_ = inf, what Err_p of the fitting rows
        cannot exceed, whatever start and n_levels are; below epsilon if the tolerance is beta/2. Else it
        bounds nothing.
    sample_complexity_
        Rows that the guarantee for the source needs.

    Notes
    -----
    Guarantees, with their proofs, are on the page docs/theory-tables.md. With weights those on the fitted
    rows hold for their weighted averages; those for the source are about independent rows, and do not hold.

    Of the fitted rows, whatever share and start are: their squared error is at most the start's, and that
    at most the probabilities' own; their log loss is at most the start's plus -log(1 - share (1 - keep)); on
    each group's rows the bias is at most (1 - share) times the start's
    plus share times the corrected probabilities'. The guarantee for the l_p error itself is about level sets
    of the answers, so it needs share=1: `LpRecalibrator.as_in_paper(...)` has it.

    `fit` warns, with a SampleSizeWarning, of fewer rows than the guarantee for the source needs, where the
    parameters are such that there is one, and with a ConvergenceWarning if "pools" left errors above the
    tolerance: too few rows, so that noise is larger.

    References
    ----------
    Bairaktari & Nguyen, "Sample-efficient Multiclass Calibration under Probability-weighted l_p Error"
    (2025), Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinecal import LpRecalibrator, lp_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.dirichlet([0.5, 0.5, 0.5], 300_000)
    >>> labels = (truth.cumsum(axis=1) < rng.random((300_000, 1))).sum(axis=1)
    >>> promised = 0.2 * truth + [0.8, 0.0, 0.0]  # the first class is promised too often
    >>> model = LpRecalibrator.as_in_paper(p=np.inf, epsilon=0.1).fit(promised, labels)
    >>> round(lp_calibration_error(promised, labels, p=np.inf, n_levels=10), 3)
    0.204
    >>> round(lp_calibration_error(model.predict_proba(promised), labels, p=np.inf, n_levels=10), 3)
    0.036
    """

    def __init__(
        self,
        p: float = 2.0,
        epsilon: float = 0.05,
        delta: float = 0.05,
        n_levels: int | None = 3,
        tolerance: float | None = None,
        estimation: Estimation = "plug-in",
        seed: int = 0,
        within: Within | None = None,
        classes: Sequence[Hashable] | None = None,
        start: Start = "auto",
        share: float | None = None,
        keep: float = 0.2,
        limit: float | None = None,
        n_folds: int = 5,
        least_rows: float = 3.0,
    ) -> None:
        self.p = p
        self.epsilon = epsilon
        self.delta = delta
        self.n_levels = n_levels
        self.tolerance = tolerance
        self.estimation = estimation
        self.seed = seed
        self.within = within
        self.classes = classes
        self.start = start
        self.share = share
        self.keep = keep
        self.limit = limit
        self.n_folds = n_folds
        self.least_rows = least_rows

    @classmethod
    def as_in_paper(cls, p: float = 2.0, epsilon: float = 0.1, **parameters: Any) -> Self:
        """Algorithm 2 and nothing else: no start, all of the correction, constant, its levels by epsilon.

        That is what the guarantees for the error are about. Further parameters are those of the class.
        """
        plain = {"start": "none", "share": 1.0, "keep": 0.0, "limit": math.inf, "n_folds": 0}
        plain |= {"n_levels": None, "within": "constant", "least_rows": 0.0}
        return cls(p, epsilon, **{**plain, **parameters})

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_order(self.p, above_one=True)
        check_choice(self.estimation, ESTIMATIONS, "estimation")
        if self.within is not None:
            check_choice(self.within, WITHIN, "within")
        if self.within == "shift" and self.estimation == "pools":
            raise ValueError("within='shift' needs estimation='plug-in', got estimation='pools'")
        check_number(self.least_rows, "least_rows", 0.0, math.inf, "[)", "a number of at least 0")
        check_open_unit(self.epsilon, "epsilon")
        check_open_unit(self.delta, "delta")

    def _learn(self, table: Floats, labels: Ints, weights: Floats) -> None:
        n, k = table.shape
        needs, once = self.settings_for(k, weights.sum()), bool((weights == 1.0).all())
        if self.estimation == "pools" and not once:
            raise ValueError("sample_weight must be None with estimation='pools', which deals out whole rows")
        if self._promises and once and n < (wanted := needs.needed(self.estimation)):
            reached = error_bound(self.beta_, float(self.p))
            said = f"{n:,} rows guarantee less for the source (epsilon_for), {reached:.3g} takes {wanted:,}"
            warnings.warn(said, SampleSizeWarning, stacklevel=3)
        if self.estimation == "plug-in":
            table, labels, weights = merged_rows(table, labels, weights)
        model = self._start_model(table, labels, weights)
        whole_start, whole = fitted_start(model, table, labels, weights)
        statistics = self._counted(whole, labels, weights)
        self._keep(statistics, *self._run(statistics))
        self.start_ = whole_start

        splits = self._deciding_folds(table, labels, weights)

        def held_out() -> Iterator[Rows]:
            for rows, mine, out, *counts in splits:
                start, begun = fitted_start(model, table[rows], labels[rows], mine)
                _, found = self._run(self._counted(begun, labels[rows], mine))
                begun = started(start, table[out])
                yield Rows(begun, found(begun), labels[out], *counts)

        def all_rows() -> Iterator[Rows]:
            for rows in pieces(whole):
                yield Rows(whole[rows], self.map_(whole[rows]), labels[rows], weights[rows], weights[rows])

        self._mix(held_out(), all_rows, self._error)

    def _counted(self, begun: Floats, labels: Ints, weights: Floats) -> Statistics:
        """What is counted of some rows that the start has mapped."""
        needs = self.sample_complexity_
        if self.estimation == "pools":
            return pool_statistics(begun, labels, needs, self.delta, self.seed)
        return plug_in_statistics(begun, labels, needs.n_levels, needs.beta, self.within_ == "shift", weights)

    def _run(self, statistics: Statistics) -> tuple[Outcome, LevelSetMap]:
        """Algorithm 2, and the map that it ends with: shifts, if groups began at their means."""
        outcome = run(statistics, self.n_levels_, self.tolerance_, float(self.p))
        values, least = outcome.predictions[outcome.group_of_bin], 0.0
        if shift := statistics.means is not None:
            values = values - statistics.means
            least = least_probability(statistics.pools.mass_rows[0], values.shape[1])
        return outcome, LevelSetMap(statistics.levels, values, self.n_levels_, shift, least)

    def _error(self, table: Floats, labels: Ints, weights: Floats) -> float:
        """Err_p to the power p, of inf Err_p."""
        numbers, level_sets = number_level_sets(table, self.n_levels_)
        wrong = weighted(residuals(table, labels), weights) / len(table)
        sums = np.abs(sums_of_level_sets(wrong.T, numbers, len(level_sets)))
        return float(sums.max() if math.isinf(self.p) else (sums ** float(self.p)).sum())

    @property
    def _promises(self) -> bool:
        """Whether there is a guarantee for the source: nothing but Algorithm 2, as it is proved."""
        told = (self.start, self.share, self.keep, self.limit, self.within_)
        return told == ("none", 1.0, 0.0, math.inf, "constant")

    def settings_for(self, n_classes: int, n_rows: float = math.inf) -> SampleComplexity:
        """Check the parameters, set what they are for `n_rows` of `n_classes`; what the guarantee needs."""
        self._check_parameters()
        self.within_: Within = self.within or ("shift" if self.estimation == "plug-in" else "constant")
        tolerance, n_levels = self.tolerance, self.n_levels
        if tolerance is None or n_levels is None:
            beta = coupled_beta(float(self.p), self.epsilon)
            if tolerance is None:
                tolerance = max(beta / 2.0, min(self.least_rows / n_rows, MOST_TOLERANCE))
            n_levels = math.ceil(1.0 / beta) if n_levels is None else n_levels
        self.tolerance_ = check_open_unit(tolerance, "tolerance")
        self.n_levels_ = check_count(n_levels, "n_levels", 2**53)
        self.beta_ = 2.0 * self.tolerance_
        self.sample_complexity_ = sample_sizes(self.beta_, self.n_levels_, self.delta, n_classes)
        return self.sample_complexity_

    def fit_statistics(self, statistics: Statistics) -> None:
        """Run Algorithm 2 on `statistics`, for `settings_for` these parameters, and answer by it alone."""
        self._keep(statistics, *self._run(statistics))
        self.start_, self.share_, self.keep_, self.limit_ = None, 1.0, 0.0, math.inf

    def _keep(self, statistics: Statistics, outcome: Outcome, found: LevelSetMap) -> None:
        if not outcome.finished:
            warnings.warn(
                f"after {len(outcome.history.group):,} rounds some errors may still be above the tolerance"
                f" {self.tolerance_:.3g}: the estimates contradict each other, there are too few rows",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.level_sets_ = statistics.levels / self.n_levels_
        self.group_of_level_set_ = outcome.group_of_bin
        self.predictions_ = outcome.predictions
        self.masses_ = outcome.masses
        self.history_ = outcome.history
        self.n_rounds_ = len(outcome.history.group)
        self.n_merges_ = int((outcome.history.merged_with >= 0).sum())
        self.fitted_error_bound_ = error_bound(4.0 / 3.0 * self.tolerance_, float(self.p))
        self.n_features_in_ = found.values.shape[1]
        self.map_ = found

    def _map(self, table: Floats) -> Floats:
        begun = started(self.start_, table)
        return self._answers(begun, self.map_(begun))
