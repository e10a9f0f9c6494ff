"""Recalibrate a table of class probabilities under the l_p error, in scikit-learn's conventions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Sequence
from typing import Literal, get_args

from sklearn.exceptions import ConvergenceWarning

from onlinecal.recalibration.flooring import least_probability
from onlinecal.recalibration.lp.algorithm import Outcome, run
from onlinecal.recalibration.lp.map import LevelSetMap
from onlinecal.recalibration.lp.sizes import (
    ESTIMATIONS,
    Estimation,
    SampleComplexity,
    coupled_beta,
    error_bound,
    sample_sizes,
)
from onlinecal.recalibration.lp.statistics import (
    Statistics,
    plug_in_statistics,
    pool_statistics,
)
from onlinecal.recalibration.probability_recalibrator import Floats, Ints, ProbabilityRecalibrator
from onlinecal.validation import check_choice, check_count, check_open_unit, check_order

Within = Literal["constant", "shift"]
WITHIN: tuple[Within, ...] = get_args(Within)


class SampleSizeWarning(UserWarning):
    """There are fewer rows than the guarantee needs."""


class LpRecalibrator(ProbabilityRecalibrator):
    """Class probabilities whose l_p calibration error is small: Algorithm 2 of Bairaktari and Nguyen.

    Probabilities are sorted into level sets by rounding them down to multiples of 1/n_levels. The level sets
    with enough mass each start as a group. While some group promises some class too much or too little, by
    more than the tolerance (a difference of probabilities, weighted with the group's mass), its prediction
    is moved to the class's frequency and projected on the simplex; groups that come to predict the same
    level set are merged.

    Parameters
    ----------
    p
        Order of the error, above 1, or inf for the largest error of a level set and class.
    epsilon
        The error to reach, between 0 and 1.
    delta
        How often the guarantee for the source may fail, between 0 and 1.
    n_levels
        Levels per class; None: ceil(1/beta) with beta = epsilon^(p/(p-1)) 2^(-1/(p-1)), as in the paper. That
        is fine enough to lose next to nothing by rounding, and often too fine to find anything to correct:
        with real networks use 2 to 10, and within="shift".
    tolerance
        The largest error of a group and class that is left alone; None: beta/2. Level sets with less mass
        than a third of it are left out.
    estimation
        "plug-in": every estimate is made from all rows; the guarantee is proved by uniform convergence.
        "pools": separate pools of rows for each group size, with Laplace noise, as in the paper; that needs
        thousands of times as many rows for every beta in practical use.
    seed
        Deals rows to pools and draws the noise; "plug-in" uses no chance.
    within
        "constant": all rows of a group get its prediction, as in the paper; level sets without a group get
        the distribution nearest to their corner. "shift": each level set starts from its mean forecast, and
        its rows are shifted by what the mean was corrected by, then projected; rows of other level sets are
        kept. What the model knows inside a level set then survives, and so does its squared error; only
        with estimation="plug-in". Projecting could make a class 0, so a shifted row p is mixed with the
        uniform distribution at the weight of one of the n fitted rows, (n p + 1/k)/(n + 1). "constant" has no
        such floor, as in the paper: where a group never saw a class it may say 0.
    classes
        The labels that the columns stand for, any hashables; None: 0..k-1.

    Attributes
    ----------
    classes_
        Labels in the order of the columns, shape (k,).
    n_features_in_
        The number of columns, k. `feature_names_in_`: their names, if the table had names.
    beta_, n_levels_, tolerance_
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
        With "plug-in" and "constant", what Err_p of the fitting rows cannot exceed, whatever n_levels is;
        below epsilon if the tolerance is None.
    sample_complexity_
        Rows that the guarantee for the source needs.

    Notes
    -----
    Guarantees, with their proofs, are on the page docs/recalibrate-lp.md.

    `fit` warns, with a SampleSizeWarning, of fewer rows than the guarantee needs, and with a
    ConvergenceWarning if "pools" left errors above the tolerance: too few rows, so that noise is larger.

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
    >>> model = LpRecalibrator(p=np.inf, epsilon=0.1).fit(promised, labels)
    >>> round(lp_calibration_error(promised, labels, p=np.inf, n_levels=10), 3)
    0.204
    >>> round(lp_calibration_error(model.predict_proba(promised), labels, p=np.inf, n_levels=10), 3)
    0.036
    """

    def __init__(
        self,
        p: float = 2.0,
        epsilon: float = 0.1,
        delta: float = 0.05,
        n_levels: int | None = None,
        tolerance: float | None = None,
        estimation: Estimation = "plug-in",
        seed: int = 0,
        within: Within = "constant",
        classes: Sequence[Hashable] | None = None,
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

    def _check_parameters(self) -> None:
        check_order(self.p, above_one=True)
        check_choice(self.estimation, ESTIMATIONS, "estimation")
        check_choice(self.within, WITHIN, "within")
        if self.within == "shift" and self.estimation == "pools":
            raise ValueError("within='shift' needs estimation='plug-in', got estimation='pools'")
        check_open_unit(self.epsilon, "epsilon")
        check_open_unit(self.delta, "delta")

    def _learn(self, table: Floats, labels: Ints) -> None:
        n, k = table.shape
        needs = self.settings_for(k)
        if n < needs.needed(self.estimation):
            warnings.warn(
                f"{n:,} rows are fewer than the {needs.needed(self.estimation):,} that the guarantee needs"
                f" for tolerance {self.tolerance_:.3g}, delta {self.delta!r}, {k} classes and"
                f" estimation {self.estimation!r}",
                SampleSizeWarning,
                stacklevel=3,
            )
        if self.estimation == "plug-in":
            statistics = plug_in_statistics(table, labels, needs.n_levels, needs.beta, self.within == "shift")
        else:
            statistics = pool_statistics(table, labels, needs, self.delta, self.seed)
        self.fit_statistics(statistics, stacklevel=4)

    def settings_for(self, n_classes: int) -> SampleComplexity:
        """Check the parameters and set beta_, n_levels_ and tolerance_; what the guarantee then needs."""
        self._check_parameters()
        tolerance, n_levels = self.tolerance, self.n_levels
        if tolerance is None or n_levels is None:
            beta = coupled_beta(float(self.p), self.epsilon)
            tolerance = beta / 2.0 if tolerance is None else tolerance
            n_levels = math.ceil(1.0 / beta) if n_levels is None else n_levels
        self.tolerance_ = check_open_unit(tolerance, "tolerance")
        self.n_levels_ = check_count(n_levels, "n_levels", 2**53)
        self.beta_ = 2.0 * self.tolerance_
        self.sample_complexity_ = sample_sizes(self.beta_, self.n_levels_, self.delta, n_classes)
        return self.sample_complexity_

    def fit_statistics(self, statistics: Statistics, stacklevel: int = 3) -> None:
        """Run Algorithm 2 on counts, for `settings_for` these parameters, and keep what it finds.

        A ConvergenceWarning names the line that many calls up.
        """
        outcome = run(statistics, self.n_levels_, self.tolerance_, float(self.p))
        if not outcome.finished:
            warnings.warn(
                f"after {len(outcome.history.group):,} rounds some errors may still be above the tolerance"
                f" {self.tolerance_:.3g}: the estimates contradict each other, there are too few rows",
                ConvergenceWarning,
                stacklevel=stacklevel,
            )
        self._keep(statistics, outcome)

    def _keep(self, statistics: Statistics, outcome: Outcome) -> None:
        self.level_sets_ = statistics.levels / self.n_levels_
        self.group_of_level_set_ = outcome.group_of_bin
        self.predictions_ = outcome.predictions
        self.masses_ = outcome.masses
        self.history_ = outcome.history
        self.n_rounds_ = len(outcome.history.group)
        self.n_merges_ = int((outcome.history.merged_with >= 0).sum())
        self.fitted_error_bound_ = error_bound(4.0 / 3.0 * self.tolerance_, float(self.p))
        values = outcome.predictions[outcome.group_of_bin]
        if statistics.means is not None:
            values = values - statistics.means
        shift = statistics.means is not None
        least = least_probability(statistics.pools.mass_rows[0], values.shape[1]) if shift else 0.0
        self.n_features_in_ = values.shape[1]
        self.map_ = LevelSetMap(statistics.levels, values, self.n_levels_, shift, least)

    def _map(self, table: Floats) -> Floats:
        return self.map_(table)
