"""The recalibrator of tables under the l_p error, in scikit-learn's conventions, and the map that it fits.

Attributes that end in an underscore are written by `fit`. For rows that somebody else has counted
(`online.py`), `_settings_for` writes those that follow from the parameters alone, and then `_fit_statistics`
the rest. `predict_proba` changes nothing. `starting.py` says in which order `_learn` calls what it inherits.
A `LevelSetMap` never changes: its rows of `levels` are the level sets that it knows, each once, and `values`
has what becomes of each.
"""

from __future__ import annotations

import math
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
from onlinecal.recalibration.lp.algorithm import FinalGroups, run
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
from onlinecal.recalibration.starting import Start, StartedRecalibrator, StartedRows, fitted_start, started
from onlinecal.remarks import warn_of
from onlinecal.validation import check_choice, check_count, check_number, check_open_unit, check_order


class LevelSetMap:
    """Maps probabilities by their level sets; the known ones have levels (B, k) and values (B, k).

    A row in a known level set becomes that level set's value, any other becomes rho of its level set. With
    `shift` the value is added and the sum is projected on the simplex, and any other row is kept. Then
    `least` is the probability that 0 becomes, see `onlinecal.recalibration.flooring`.
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
        """The map of one row, shape (k,), which takes a fraction of the time."""
        levels = levels_of(row, self.n_levels)
        place = self._places.get(levels.tobytes(), -1)
        if place < 0:
            return row if self.shift else rho(levels[None], self.n_levels)[0]
        return self._changed(row[None], self.values[place : place + 1])[0]

    def _changed(self, table: Floats, values: Floats) -> Floats:
        """The mapped rows of known level sets with these values."""
        return floored(project_rows(table + values), self.least) if self.shift else values


Within = Literal["constant", "shift"]
WITHIN: tuple[Within, ...] = get_args(Within)

P, EPSILON, DELTA, N_LEVELS = 2.0, 0.1, 0.05, 5
"""The defaults wherever the l_p error is recalibrated: of tables, of streams, and of keys of the engine.

On recorded streams fifths with shifts are best: finer levels find too few rows, and one prediction a group
forgets what the model knew inside a level set. On tables of 500 to 5,000 rows no other choice is better.
"""

MOST_TOLERANCE = 0.25
"""The default tolerance is not raised above this for the sake of `least_rows`."""


class LpRecalibrator(StartedRecalibrator):
    """Recalibrate class probabilities as whole rows: classes come as often as similar rows promise.

    What it lowers is the l_p calibration error: with level sets v of similar rows, and classes j, the p-th
    root of the sum of |share of the rows in v times (mean probability - frequency of j in v)|^p, as
    `lp_calibration_error` has it. First a smooth map with few numbers to learn, the start, is fitted. The
    start's probabilities are sorted into level sets by rounding them down to multiples of 1/n_levels. Each
    level set with enough rows begins as a group with a prediction. While some group promises some class too
    much or too little, by more than the tolerance (share of rows times difference of probabilities), its
    prediction is moved to the class's frequency, and then to the nearest distribution. Groups that come to
    predict the same level set are merged. The answers mix the start's probabilities with the corrected ones,
    in a share that held-out rows decide.

    Parameters are checked by `fit`, and not before.

    Parameters
    ----------
    p
        Order of the error, above 1, or inf for the largest error of a level set and class.
    epsilon
        The error to reach, between 0 and 1. It is looked at only if n_levels or tolerance is None.
    delta
        How often the guarantee for the source, the distribution that rows are drawn from, may fail, between 0
        and 1. With "plug-in" only `sample_complexity_`, and a warning that follows from it, depend on it.
    n_levels
        Levels per class. None: 1/beta, rounded up, with beta = epsilon^(p/(p-1)) 2^(-1/(p-1)), as in the
        paper: that is fine enough to lose next to nothing by rounding, and often too fine to find errors.
    tolerance
        The largest error of a group and class that is not corrected, between 0 and 1. None: half the beta
        that follows from epsilon as above, and at least least_rows/n, but for least_rows no more than 0.25.
        Level sets with less than a third of the tolerance as their share of the rows are left out.
    estimation
        "plug-in": shares and frequencies are counted on all rows. "pools": on separate pools of rows for each
        size of a group, with Laplace noise, as in the paper. That needs thousands of times as many rows for
        every beta in practical use, and takes no weights.
    random_state
        A whole number from 0: it deals rows to folds and pools, and draws the noise.
    within
        "shift": the rows of a group are shifted by as much as the mean of their level set was corrected, and
        then moved to the nearest distribution; rows of other level sets are kept. So what the model knows
        inside a level set survives, and so does its squared error. This needs estimation="plug-in". A shifted
        row x becomes (n x + 1/k)/(n + 1) with n fitted rows and k classes, so that no class gets 0.
        "constant": all rows of a group get its prediction, as in the paper; rows of level sets without a
        group get the distribution nearest to the level set's lower corner. None: "shift", but with pools
        "constant".
    classes
        The label of each column, in order, any hashables; None: the names of a data frame's columns if the
        labels given to `fit` are such names, else 0..k-1.
    start
        The map that comes first: "temperature", "vector", "dirichlet", "isotonic" (per class) or "beta", as
        the classes of `onlinecal.recalibration` do it, or "none". "auto" tries none, temperature, vector and
        (for 3 to 12 classes) Dirichlet, the last two if there are 30 rows for each number they learn. It
        takes the one with the least log loss of held-out rows, or the simplest that chance, or a difference
        of .2 %, does not tell from it; with cv=0 it is a temperature. With fewer rows, but at least 300, it
        takes Dirichlet near the temperature's map (its parameter `pull`) if that is better by 2.5 standard
        errors. A start is left out if it would raise the squared error of the fitted rows.
    share
        The part that corrected probabilities have in the answers, 0 to 1; the start's have the rest. None:
        the largest of 0, 0.05, ..., 1 with which no loss is higher than the start's. The losses are log loss
        and squared error of the held-out rows, which must be lower by a standard error, and the squared error
        of the fitted rows. With fewer than two rows a fold the share is 0; with cv=0 it is 1.
    keep
        Each class keeps at least this part of what the start gives it, from 0 to below 1; 0 means no such
        floor.
    limit
        No class is corrected by more than this factor, above 1, up or down; rows beyond that, or below
        `keep`, are moved to the nearest within. np.inf: no limit. None: with share=None the widest of 1.25,
        1.5, 2, 3, 5, 20, 100 and 1000 that allows the share; with a given share there is no limit.
    cv
        The number of folds of held-out rows, at least 2, which decide on share and limit; 0: no rows are held
        out. With more than 50,000 rows one of the folds decides, and with more than 500,000 one fold of a
        random sample of 500,000.
    least_rows
        With tolerance=None, the tolerance is at least the error of this many of the n fitted rows; a number
        of at least 0.

    Attributes
    ----------
    classes_
        Labels in the order of the columns, shape (k,).
    n_features_in_, feature_names_in_
        The number of columns, k, and, if the table had names, their names.
    start_, start_name_
        The fitted start, None for none, and its name.
    share_, keep_, limit_
        The values that were used.
    beta_, n_levels_, tolerance_, within_
        The values that were used; beta_ is twice the tolerance.
    level_sets_
        The lower corners of the level sets that have a group, shape (B, k): multiples of 1/n_levels_.
    group_of_level_set_
        The number of each one's group, from 0, shape (B,).
    predictions_, masses_
        The groups' predictions, shape (G, k), and shares of the rows, shape (G,).
    n_rounds_
        How many corrections were made.
    history_
        Errors and squared errors, at the start and after each correction, and what each one did, as arrays;
        see `onlinecal.recalibration.lp.algorithm.LpHistory`.
    fitted_error_bound_
        With "plug-in", "constant", share_ = 1, keep_ = 0 and limit_ = inf, a bound on the l_p error of the
        fitted rows, whatever start and n_levels are; it is below epsilon if the tolerance is beta/2. With
        other settings it bounds nothing.
    sample_complexity_
        How many rows the guarantee for the source needs, as a `SampleComplexity`.

    Notes
    -----
    Guarantees, with their proofs, are on the page docs/theory-tables.md. With weights the guarantees on the
    fitted rows hold for their weighted averages; those for the source, the distribution that the rows are
    drawn from, need independent rows without weights.

    On the fitted rows these hold for every share and start. The log loss is at most the start's plus -log(1 -
    share (1 - keep)). The start's squared error is at most that of the probabilities given. If folds choose
    the share, that of the answers is at most the start's; with cv=0 or a share that is set it can be above
    that. On each group's rows the bias is at most (1 - share) times the start's plus share times the
    corrected probabilities'. The guarantee for the l_p error itself is about level sets of the answers, so it
    needs share=1: `LpRecalibrator.as_in_paper(...)` has it.

    `fit` gives a SampleSizeWarning if the parameters are such that there is a guarantee for the source, and
    there are fewer rows than it needs. It gives a ConvergenceWarning if "pools" left errors above the
    tolerance, since noise was large with so few rows.

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
    >>> round(lp_calibration_error(promised, labels, p=np.inf, n_bins=10), 3)
    0.204
    >>> round(lp_calibration_error(model.predict_proba(promised), labels, p=np.inf, n_bins=10), 3)
    0.036
    """

    def __init__(
        self,
        *,
        p: float = P,
        epsilon: float = EPSILON,
        delta: float = DELTA,
        n_levels: int | None = N_LEVELS,
        tolerance: float | None = None,
        estimation: Estimation = "plug-in",
        random_state: int = 0,
        within: Within | None = None,
        classes: Sequence[Hashable] | None = None,
        start: Start = "auto",
        share: float | None = None,
        keep: float = 0.2,
        limit: float | None = None,
        cv: int = 5,
        least_rows: float = 3.0,
    ) -> None:
        self.p = p
        self.epsilon = epsilon
        self.delta = delta
        self.n_levels = n_levels
        self.tolerance = tolerance
        self.estimation = estimation
        self.random_state = random_state
        self.within = within
        self.classes = classes
        self.start = start
        self.share = share
        self.keep = keep
        self.limit = limit
        self.cv = cv
        self.least_rows = least_rows

    @classmethod
    def as_in_paper(cls, p: float = P, epsilon: float = EPSILON, **parameters: Any) -> Self:
        """A new, unfitted recalibrator that plays the paper's Algorithm 2 alone, which has the guarantees.

        No map is fitted before and no rows are held out, all rows of a group get one prediction, that is the
        answer, and epsilon, the error to reach, determines the levels. `p` and `epsilon` are parameters of
        the class, and `parameters` are its further parameters by name, which may also replace these settings,
        but then there is no guarantee. `fit` checks them, and has to follow.
        """
        plain = {"start": "none", "share": 1.0, "keep": 0.0, "limit": math.inf, "cv": 0}
        plain |= {"n_levels": None, "within": "constant", "least_rows": 0.0}
        return cls(p=p, epsilon=epsilon, **{**plain, **parameters})

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
        needs, unweighted = self._settings_for(k, weights.sum()), bool((weights == 1.0).all())
        if self.estimation == "pools" and not unweighted:
            raise ValueError(
                "sample_weight must be None with estimation='pools', which deals whole rows: "
                "use estimation='plug-in'"
            )
        if self._promises and unweighted and n < (wanted := needs.needed(self.estimation)):
            reached = error_bound(self.beta_, float(self.p))
            remark = f"{n:,} rows guarantee less for the source (epsilon_for), {reached:.3g} takes {wanted:,}"
            warn_of([remark], SampleSizeWarning)
        if self.estimation == "plug-in":
            table, labels, weights = merged_rows(table, labels, weights)
        model = self._start_model(table, labels, weights)
        whole_start, whole = fitted_start(model, table, labels, weights)
        statistics = self._counted(whole, labels, weights)
        self._keep(statistics, *self._run(statistics))
        self.start_ = whole_start

        splits = self._deciding_folds(table, labels, weights)

        def held_out() -> Iterator[StartedRows]:
            for rows, fitted_weights, out, *counts in splits:
                start, begun = fitted_start(model, table[rows], labels[rows], fitted_weights)
                _, mapping = self._run(self._counted(begun, labels[rows], fitted_weights))
                begun = started(start, table[out])
                yield StartedRows(begun, mapping(begun), labels[out], *counts)

        def all_rows() -> Iterator[StartedRows]:
            for rows in pieces(whole):
                yield StartedRows(
                    whole[rows], self.map_(whole[rows]), labels[rows], weights[rows], weights[rows]
                )

        self._mix(held_out(), all_rows, self._error)

    def _counted(self, begun: Floats, labels: Ints, weights: Floats) -> Statistics:
        """The statistics of some rows after the start."""
        needs = self.sample_complexity_
        if self.estimation == "pools":
            return pool_statistics(begun, labels, needs, self.delta, self.random_state)
        return plug_in_statistics(begun, labels, needs.n_levels, needs.beta, self.within_ == "shift", weights)

    def _run(self, statistics: Statistics) -> tuple[FinalGroups, LevelSetMap]:
        """Run Algorithm 2; its result, and the map made of it, which shifts rows if groups began at means."""
        outcome = run(statistics, self.n_levels_, self.tolerance_, float(self.p))
        values, least = outcome.predictions[outcome.group_of_bin], 0.0
        if shift := statistics.means is not None:
            values = values - statistics.means
            least = least_probability(statistics.pools.mass_rows[0], values.shape[1])
        return outcome, LevelSetMap(statistics.levels, values, self.n_levels_, shift, least)

    def _error(self, table: Floats, labels: Ints, weights: Floats) -> float:
        """Err_p to the power p; for p = inf Err_p itself."""
        numbers, level_sets = number_level_sets(table, self.n_levels_)
        wrong = weighted(residuals(table, labels), weights) / len(table)
        sums = np.abs(sums_of_level_sets(wrong.T, numbers, len(level_sets)))
        return float(sums.max() if math.isinf(self.p) else (sums ** float(self.p)).sum())

    @property
    def _promises(self) -> bool:
        """Whether there is a guarantee for the source: it is proved for Algorithm 2 alone."""
        asked = (self.start, self.share, self.keep, self.limit, self.within_)
        return asked == ("none", 1.0, 0.0, math.inf, "constant")

    def _settings_for(self, n_classes: int, n_rows: float = math.inf) -> SampleComplexity:
        """Check the parameters, set those used for `n_rows` rows of `n_classes`; what the guarantee needs."""
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

    def _fit_statistics(self, statistics: Statistics) -> None:
        """Run Algorithm 2 on `statistics`, after `_settings_for`; answers are then those of its map alone."""
        self._keep(statistics, *self._run(statistics))
        self.start_, self.share_, self.keep_, self.limit_ = None, 1.0, 0.0, math.inf

    def _keep(self, statistics: Statistics, outcome: FinalGroups, level_set_map: LevelSetMap) -> None:
        if not outcome.finished:
            remark = (
                f"after {len(outcome.history.group):,} rounds some errors may still be above the tolerance"
                f" {self.tolerance_:.3g}: the estimates contradict each other, since there are too few rows"
            )
            warn_of([remark], ConvergenceWarning)
        self.level_sets_ = statistics.levels / self.n_levels_
        self.group_of_level_set_ = outcome.group_of_bin
        self.predictions_ = outcome.predictions
        self.masses_ = outcome.masses
        self.history_ = outcome.history
        self.n_rounds_ = len(outcome.history.group)
        self.fitted_error_bound_ = error_bound(4.0 / 3.0 * self.tolerance_, float(self.p))
        self.n_features_in_ = level_set_map.values.shape[1]
        self.map_ = level_set_map

    def _map(self, table: Floats) -> Floats:
        begun = started(self.start_, table)
        return self._answers(begun, self.map_(begun))
