"""Recalibrate class probabilities until no decision maker with K actions is misled about the losses."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from onlinecal.arrays import Floats, Ints
from onlinecal.measures.decision.errors import PartitionKind
from onlinecal.measures.decision.losses import check_losses
from onlinecal.pieces import as_doubles
from onlinecal.recalibration.decision.arrays import (
    CompressedPredictor,
    compress,
    fitted_rows,
    read_arrays,
    write_arrays,
)
from onlinecal.recalibration.decision.rounds import Fitting, Progress, Round, Step, check_settings, replay
from onlinecal.recalibration.flooring import floored, least_probability
from onlinecal.recalibration.starting import Start, StartedRecalibrator, started
from onlinecal.recalibration.weights import Weights, total_weight


class DecisionRecalibrator(StartedRecalibrator):
    """Probabilities under which decision makers know what their decisions will cost.

    Each round finds the partition of the simplex into K regions on which the probabilities are most wrong on
    average, sum_a ||E[(p - Y) b_a(p)]||_2, and corrects the mean error on its regions. Rounds end when
    nothing above epsilon is found, or when held-out rows say that more would not help. They begin with what a
    smooth map, the start, makes of the probabilities, and the answers mix the start's with the corrected
    ones, in a share that held-out rows decide, too.

    Parameters
    ----------
    n_actions
        K: decision makers with up to that many actions are served. Ignored if losses are given.
    epsilon
        The error to reach on the fitted rows, above 0: an average over rows, at most sqrt(2).
    partition
        "soft": regions are softmax of linear scores, corrected by the pseudo-inverse (Algorithm 2 of the
        paper). "hard": the largest score wins (Algorithm 1). Given losses have hard regions.
    losses
        None: all losses with n_actions actions. Else only these, (n_losses, K, C) or one table (K, C): each
        round corrects on the regions of the loss with the largest gap.
    max_rounds
        None: K / epsilon^2 (what the paper proves to suffice), or 32 with folds if that is less.
    seed
        Of searches, folds and halves.
    start
        The map that comes first: "temperature", "vector", "dirichlet", "isotonic" (per class), "beta" or
        "none". "auto": none, temperature, vector or (3 to 12 classes) Dirichlet, the last two with 30
        rows for each number they learn; that of the least log loss of held-out rows, or the simplest that
        chance and .2 % do not tell from it; a temperature without folds. With fewer rows, but 300,
        Dirichlet near the temperature's map (`pull`) if it is better by 2.5 standard errors.
        A start is left out if it would raise the squared error of the fitted rows.
    step
        "shrunk": the mean is corrected first; each round then chooses its partition on a random half of the
        rows and steps half as far as the full correction, less what the other half says is noise. "full": the
        paper's step.
    n_folds
        At least 2: the number of rounds is the one with the smallest gap on held-out rows (root mean square,
        of 200 random decision makers or the given ones) among those whose held-out squared error has not
        risen; then all rows are fitted. Of more than 50,000 rows one fold is held out, of more than 500,000
        one of so many. 0: no rows are held out.
    n_starts
        Gradient climbs per search.
    warm_start
        True: `fit` keeps the rounds of the fit before, if the columns are as many, and adds to them.
    classes
        The labels that the columns stand for, any hashables; None: 0..C-1.
    floor
        True: no class is corrected to 0. With n fitted rows the corrected p becomes (n p + 1/C)/(n + 1), as
        if one more row had every class in equal parts; that can add up to 1/(n + 1) to the error reached.
        False: as in the paper, where projecting makes probabilities exactly 0.
    share
        The part that corrected probabilities have in the answers, 0 to 1, the start's having the rest. None:
        the largest of 0, 0.05, ..., 1 with which no loss rises, compared with the start's: not log loss and
        squared error of the held-out rows, by a standard error, nor squared error of the fitted rows. 1
        without folds.
    keep
        Each class keeps at least this part of what the start gives it. 0: no such floor.
    limit
        No class is corrected by more than this factor, up or down; rows beyond that, or below `keep`, are
        projected on those within. None: with share=None the widest of 1.25, 1.5, 2, 3, 5, 20, 100 and 1000
        that allows the share; else none, as np.inf.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
        The columns: their labels (C,), their number and, if they had any, their names.
    start_
        The fitted start, None for none; start_name_: its name.
    inverse_temperature_
        Its beta if it is a temperature, else 1.
    share_, keep_, limit_
        What was used.
    rounds_
        The corrections in their order; see `onlinecal.recalibration.decision.rounds.Round`.
    n_rounds_
        How many there are.
    history_
        One row per round and one for the end, a structured array: `error` found (nan at the end unless the
        tolerance was reached), and `squared_error` and `accuracy` of the fitted rows, before the round.
    floor_
        The least probability of the corrected ones, 1/(C (n + 1)); 0 without a floor.
    held_out_
        Gap and squared error on held-out rows by number of rounds; None without folds.
    reached_
        Whether no error above epsilon was found at the end.

    Notes
    -----
    `DecisionRecalibrator.as_in_paper(...)` is the plain algorithm. On the fitted rows the squared error of
    the corrected rows, before floors, never rises from round to round; with full steps each round lowers it
    by at least epsilon^2, so there are at most 2/epsilon^2 <= K/epsilon^2 of them. The same rows and seed
    give the same model to the last bit on every processor, but for the starts "beta", and "dirichlet" of
    more than 20 classes.
    docs/recalibrate-decisions.md has the proofs and what the defaults were measured to do. With weights all
    of this holds for weighted averages.

    Of the answers on the fitted rows: the squared error is at most the start's, and that at most the
    probabilities' own; the log loss is at most the start's plus -log(1 - share (1 - keep)); the gap of any
    loss under decisions that do not depend on the share is at most (1 - share) times the start's plus share
    times the corrected rows'. An error of at most epsilon, for decisions by the answers, is proved for
    share=1, keep=0 and limit=np.inf only.

    References
    ----------
    Zhao, Kim, Sahoo, Ma & Ermon, "Calibrating Predictions to Decisions" (2021), Algorithms 1 and 2.

    Examples
    --------
    >>> import numpy as np
    >>> from onlinecal import DecisionRecalibrator, decision_calibration_error
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.dirichlet([1.0, 1.0, 1.0], 4000)
    >>> labels = (truth.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1)
    >>> sure = truth**3 / (truth**3).sum(axis=1, keepdims=True)
    >>> model = DecisionRecalibrator(n_actions=2).fit(sure[:2000], labels[:2000])
    >>> before = decision_calibration_error(sure[2000:], labels[2000:], n_actions=2)
    >>> after = decision_calibration_error(model.predict_proba(sure[2000:]), labels[2000:], n_actions=2)
    >>> bool(after < 0.3 * before)
    True
    """

    rounds_: list[Round]

    def __init__(
        self,
        n_actions: int = 2,
        epsilon: float = 0.01,
        partition: PartitionKind = "soft",
        losses: ArrayLike | None = None,
        max_rounds: int | None = None,
        seed: int = 0,
        start: Start = "auto",
        step: Step = "shrunk",
        n_folds: int = 5,
        n_starts: int = 1,
        warm_start: bool = False,
        classes: Sequence[Hashable] | None = None,
        floor: bool = True,
        share: float | None = None,
        keep: float = 0.2,
        limit: float | None = None,
    ) -> None:
        self.n_actions = n_actions
        self.epsilon = epsilon
        self.partition = partition
        self.losses = losses
        self.max_rounds = max_rounds
        self.seed = seed
        self.start = start
        self.step = step
        self.n_folds = n_folds
        self.n_starts = n_starts
        self.warm_start = warm_start
        self.classes = classes
        self.floor = floor
        self.share = share
        self.keep = keep
        self.limit = limit

    @classmethod
    def as_in_paper(cls, n_actions: int = 2, epsilon: float = 0.01, **parameters: Any) -> Self:
        """Algorithm 1 (partition="hard") or 2 ("soft"): full steps from the first round to the tolerance.

        Algorithm 2 is followed but for what is searched for and when it ends. The paper's maximises the sum
        of squares, sum_a ||E[(Y - p) b_a(p)]||^2, and ends when that is below epsilon^2/K. This one maximises
        the sum of norms, as Algorithm 1 does, and ends when that is at most epsilon. Either end makes the sum
        of norms at most epsilon, for r_1 + ... + r_K <= sqrt(K (r_1^2 + ... + r_K^2)). The paper's can go on
        where this one ends: as when no sum of norms is above epsilon, but one region has most of it.
        """
        plain = {"start": "none", "step": "full", "n_folds": 0, "floor": False, "share": 1.0}
        plain |= {"keep": 0.0, "limit": np.inf}
        return cls(n_actions, epsilon, **{**plain, **parameters})

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_settings(self)

    def _learn(self, table: Floats, labels: Ints, weights: Weights) -> None:
        table = as_doubles(table)
        given = None if self.losses is None else check_losses(self.losses, table.shape[1])
        if 0 < len(table) < 2 * max(self.n_folds, 1):
            raise ValueError(f"P must have at least {2 * max(self.n_folds, 1)} rows, got {len(table)}")
        least = least_probability(total_weight(table, weights), table.shape[1])
        self.floor_ = least if self.floor else 0.0
        warm = self.warm_start and getattr(self, "n_features_in_", None) == table.shape[1]
        earlier = (self.start_, self.rounds_) if warm else None
        fitting = Fitting(self, table, labels, weights, given, self.floor_, earlier)
        self.held_out_ = fitting.held_out() if self.n_folds else None
        most = fitting.most_rounds if self.held_out_ is None else self.held_out_.best
        self.start_, begun, descent, history, self.reached_ = fitting.run(most)
        self.rounds_ = [*(self.rounds_ if warm else []), *descent.rounds]
        self.n_rounds_ = len(self.rounds_)
        self.history_ = np.array(history, dtype=[(name, np.float64) for name in Progress._fields])
        corrected = floored(descent.table, self.floor_)
        self.keep_, (self.share_, self.limit_) = self.keep, fitting.mixture(most, begun, corrected)
        self._fitted_table = self._answers(begun, corrected)
        self._fitted_weights = weights

    def _stages(self, table: Floats) -> Iterator[Floats]:
        begun = started(self.start_, table)
        for stage in replay(begun, self.rounds_):
            yield self._answers(begun, floored(stage, self.floor_))

    def _map(self, table: Floats) -> Floats:
        *_, last = self._stages(table)
        return last

    def staged_predict_proba(self, P: ArrayLike) -> Iterator[Floats]:
        """The probabilities at the start and after each round: n_rounds_ + 1 tables of shape (n, C).

        Raises
        ------
        NotFittedError, ValueError
            As `predict_proba`.
        """
        yield from self._stages(self._check_table(P))

    def compress(self, loss: ArrayLike, P: ArrayLike | None = None) -> CompressedPredictor:
        """One forecast per action of a loss table (K, C), from recalibrated probabilities.

        Every decision is kept, and the forecasts are distribution calibrated as far as the probabilities are
        calibrated on the loss's regions: on the fitted rows, up to the error that was reached.

        Parameters
        ----------
        loss
            Shape (K, C).
        P
            Rows to average over, (n, C), as given to `predict_proba`; None: the fitted rows, which a saved
            model does not keep.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            A bad loss or table; None for a model that was loaded.
        """
        check_is_fitted(self, "rounds_")
        table, weights = (self.predict_proba(P), None) if P is not None else fitted_rows(self)
        if np.ndim(loss) != 2:
            raise ValueError(f"loss must be one table (actions, classes), got shape {np.shape(loss)}")
        return compress(table, check_losses(loss, table.shape[1], "loss")[0], weights)

    def save(self, path: str | Path) -> None:
        """Write the fitted map as plain arrays, a NumPy .npz file without pickled objects.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            Labels that are no plain numbers or texts.
        """
        check_is_fitted(self, "rounds_")
        write_arrays(self, path)

    @classmethod
    def load(cls, path: str | Path) -> DecisionRecalibrator:
        """Read what `save` wrote; maps probabilities to the same bits.

        Raises
        ------
        ValueError
            A file that is none of these.
        """
        return read_arrays(cls, path)
