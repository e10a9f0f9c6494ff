"""Decision recalibration in scikit-learn's conventions, and saving of fitted models as plain arrays.

`CompressedPredictor` has one forecast per action, which is all that one decision maker needs to know.

`fit` writes: the rounds (`rounds_`), which with `warm_start` go on from those of the fit before, the start,
and what was found on held-out rows. `from_arrays` writes the same for a model that is loaded, and nothing
else writes. `predict_proba` plays the rounds in their order. The names and shapes of `to_arrays`, and the
tuples of names below, are a saved format; `tables/keeping.py` puts STATE_FORMAT into the file, and whoever
changes the format raises that. A loaded model has no fitted rows, so `compress` needs some. `starting.py`
says in which order `_learn` calls what it inherits, and which streams of random numbers it draws from.

A loaded or pickled model maps to the same bits, so the order of sums in `Round` and in `flooring.py` may not
change without a new format. N_WATCHED, STEP_LENGTH and MOST_CAUTIOUS_ROUNDS decide what is fitted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from onlinecal.arrays import Floats, Ints, as_doubles
from onlinecal.measures.counts import total_of
from onlinecal.measures.decision.errors import PARTITIONS, PartitionKind, loss_gaps
from onlinecal.measures.decision.losses import Partition, bayes_decisions, check_losses, mean_losses
from onlinecal.recalibration.classical.temperature import PerClassIsotonic, isotonic_curve
from onlinecal.recalibration.decision.rounds import (
    Descent,
    DescentFold,
    Finder,
    HeldOut,
    Round,
    RoundProgress,
    WorstOfAllLosses,
    WorstOfGivenLosses,
    course_of,
    replay,
)
from onlinecal.recalibration.flooring import floored, least_probability
from onlinecal.recalibration.folds import merged_rows
from onlinecal.recalibration.probability_recalibrator import ProbabilityRecalibrator
from onlinecal.recalibration.starting import (
    START_MODELS,
    Start,
    StartedRecalibrator,
    StartedRows,
    fitted_start,
    started,
)
from onlinecal.tables.columns import check_probability_rows
from onlinecal.tables.keeping import keep, kept
from onlinecal.validation import check_choice, check_count, check_flag, check_positive

StepSize = Literal["shrunk", "full"]
STEP_SIZES: tuple[StepSize, ...] = get_args(StepSize)
N_WATCHED = 200
"""How many random decision makers are watched on held-out rows."""
STEP_LENGTH = 0.5
"""The factor by which a "shrunk" step is shortened."""
MOST_CAUTIOUS_ROUNDS = 32
"""The most rounds by default if folds are held out."""
KEPT_AS = "a decision recalibrator"
PLAIN_KINDS = "biufUS"
"""Kinds of numpy's types that can be saved without pickling."""
SAVED_NUMBERS = ("share_", "keep_", "limit_", "floor_", "reached_", "n_features_in_")
"""The attributes of a fitted model that are single numbers."""
CURVE_ARRAYS = ("X_thresholds_", "y_thresholds_")


def to_arrays(model: DecisionRecalibrator) -> dict[str, np.ndarray]:
    """A fitted model as arrays of numbers and texts; parameters and single numbers are JSON in one text.

    Weights and steps of all rounds are stacked; `regions` holds how many rows each round has in them.
    """
    classes = np.asarray(model.classes_)
    if classes.dtype.kind not in PLAIN_KINDS:
        raise ValueError(
            f"classes must be numbers or texts to be saved, got {classes[0]!r}: fit with such labels"
        )
    rounds, none = model.rounds_, np.zeros((0, model.n_features_in_))
    parameters = {**model.get_params(), "classes": model.classes is not None}
    described = {"parameters": parameters, "numbers": {name: getattr(model, name) for name in SAVED_NUMBERS}}
    arrays = {
        "said": np.array(json.dumps(described, default=lambda value: value.tolist())),
        "classes": classes,
        "regions": np.array([len(each.step) for each in rounds], dtype=np.int64),
        "hard": np.array([each.partition.hard for each in rounds], dtype=np.bool_),
        "weights": np.concatenate([none, *(each.partition.weights for each in rounds)]),
        "steps": np.concatenate([none, *(each.step for each in rounds)]),
        "history": np.array(model.history_.tolist(), dtype=np.float64).reshape(-1, 3),
        "start": np.array(model.start_name_),
    }
    fitted = {} if model.start_ is None else vars(model.start_).items()
    arrays |= {f"start {name}": np.array(value) for name, value in fitted if name in START_ARRAYS}
    if isinstance(model.start_, PerClassIsotonic):
        for name in CURVE_ARRAYS:
            # an array for each class, since curves have different lengths
            arrays |= {f"{name} {c}": getattr(curve, name) for c, curve in enumerate(model.start_.curves_)}
    if hasattr(model, "feature_names_in_"):
        arrays["columns"] = np.array(list(model.feature_names_in_))
    if model.held_out_ is not None:
        arrays["held_out"] = np.array(model.held_out_)
    return arrays


START_ARRAYS = ("inverse_temperature_", "factors_", "offsets_", "coef_", "intercept_", "floor_")
"""The attributes of which fitted starts consist, besides curves."""


def from_arrays(arrays: dict[str, np.ndarray]) -> DecisionRecalibrator:
    """The fitted model that `to_arrays` described."""
    described = json.loads(arrays["said"].item())
    classes = arrays["classes"].tolist() if described["parameters"]["classes"] else None
    model = DecisionRecalibrator(**{**described["parameters"], "classes": classes})
    for name, number in described["numbers"].items():
        setattr(model, name, number)
    model.classes_, k = arrays["classes"], model.n_features_in_
    model.start_ = None
    if (name := arrays["start"].item()) != "none":
        start: Any = START_MODELS[name]()
        for part in START_ARRAYS:
            if (value := arrays.get(f"start {part}")) is not None:
                setattr(start, part, value if value.ndim else value.item())
        if isinstance(start, PerClassIsotonic):
            # the isotonic regression of a curve that rises is the curve itself
            points = ((arrays[f"{name} {c}"] for name in CURVE_ARRAYS) for c in range(k))
            start.curves_ = [isotonic_curve().fit(x, y) for x, y in points]
        start.n_features_in_, start.classes_ = k, np.arange(k)
        model.start_ = start
    ends = np.cumsum(arrays["regions"])[:-1]
    weights, steps = (np.split(arrays[name], ends) for name in ("weights", "steps"))
    model.rounds_ = [
        # without rounds np.split still returns one empty part
        Round(Partition(w, is_hard), step)
        for w, is_hard, step in zip(weights, arrays["hard"].tolist(), steps, strict=False)
    ]
    model.n_rounds_ = len(model.rounds_)
    model.history_ = history_of(list(map(tuple, arrays["history"])))
    model.held_out_ = HeldOut(*arrays["held_out"]) if "held_out" in arrays else None
    if "columns" in arrays:
        model.feature_names_in_ = np.array(arrays["columns"].tolist(), dtype=object)
    return model


def history_of(rounds: Sequence[tuple[float, float, float]]) -> Any:
    """The progress of all rounds as a structured array."""
    return np.array(list(rounds), dtype=[(name, np.float64) for name in RoundProgress._fields])


@dataclass(frozen=True, eq=False)
class CompressedPredictor:
    """One forecast for each action of one decision maker; a row of probabilities gets that of its action.

    `DecisionRecalibrator.compress` makes it. A row's action is the one with the least expected loss by the
    row's probabilities. The forecast of an action is the mean of the probabilities of all rows with this
    action.

    If an action is best for all of some probabilities it is also best for their mean. So this decision maker
    decides the same by these forecasts as by the probabilities, and the mean expected loss is the same. If on
    the rows of each action the mean error of the probabilities is zero, as decision calibration demands, the
    forecasts are calibrated: among rows with forecast q, labels have the distribution q.

    Attributes
    ----------
    loss
        The loss of action a when the class is c, at [a, c]: shape (K, C).
    predictions
        The forecast of each action, shape (K, C); NaN for an action that no row took.
    masses
        The share of the rows that took each action, shape (K,).

    References
    ----------
    Zhao, Kim, Sahoo, Ma & Ermon, "Calibrating Predictions to Decisions" (2021), appendix C.2.
    """

    loss: Floats
    predictions: Floats
    masses: Floats

    def predict_proba(self, X: ArrayLike) -> Floats:
        """The forecast of each row's action, shape (n, C); it has at most K different rows, but see below.

        X are probabilities that the recalibrator gave, shape (n, C), rows with sum 1. If a row's action was
        taken by none of the rows that were averaged, it has no forecast, and the row itself is returned.

        Raises
        ------
        ValueError
            If X is no table of probabilities, or has another number of classes than the loss.
        """
        table = check_probability_rows(X, "X")
        decisions = bayes_decisions(table, self.loss)
        known = self.masses[decisions] > 0.0
        return np.where(known[:, None], self.predictions[decisions], table)


class DecisionRecalibrator(StartedRecalibrator):
    """Recalibrate class probabilities so that decisions by them cost what they promise.

    Rounds follow a smooth map of the probabilities, the start. Each round searches the partition of all
    probabilities into K regions, one for each action of a decision maker, on which the probabilities are most
    wrong, and corrects their mean error on each region. The error of a partition is the sum over its regions
    of the l2 norm, over classes, of the average over all rows of (probability - label), rows outside of the
    region counting 0. Rounds end when no error above epsilon is found, or when held-out rows show that more
    would not help. The answers mix the start's probabilities with the corrected ones, in a share that
    held-out rows choose.

    Parameters are checked by `fit`, and not before.

    Parameters
    ----------
    n_actions
        K, at least 1: decision makers with up to this many actions are served. It is ignored if losses are
        given.
    epsilon
        The error to reach on the fitted rows, above 0. Errors are averages over rows, and never above
        sqrt(2).
    partition
        "hard": a row is in the region with the largest of K linear scores (Algorithm 1 of the paper). "soft":
        the softmax of the scores says how much of a row is in each region (Algorithm 2). Given losses have
        hard regions, whatever this says.
    losses
        None: all losses with n_actions actions. Otherwise only these, the loss of action a and class c at
        [loss, a, c], shape (n_losses, K, C) for C classes, or one table (K, C). Each round corrects on the
        regions of the loss with the largest gap: how far the expected loss of its decisions is from the loss
        that came, as `decision_loss_gap` measures it. Of a `LossTable` give its `values`.
    max_rounds
        The most rounds. None: K / epsilon^2, rounded up, which the paper proves to be enough, but at most 32
        if cv is not 0.
    random_state
        A whole number from 0, from which searches, folds and halves are drawn.
    start
        The map that comes first: "temperature", "vector", "dirichlet", "isotonic" or "beta" (as the classes
        of `onlinecal.recalibration` do it), or "none". "auto": of none, temperature, vector and Dirichlet,
        held-out rows choose the one with the least log loss, or a simpler one that is hardly worse, as in
        `LpRecalibrator`; with cv=0 it is a temperature.
    share
        The part that corrected probabilities have in the answers, 0 to 1; the start's have the rest. None:
        held-out rows choose the largest with which no loss rises; with cv=0 it is 1.
    keep
        Each class keeps at least this part of what the start gives it, from 0 to below 1.
    limit
        No class is corrected by more than this factor, above 1, up or down; np.inf: there is no limit. None:
        held-out rows choose it with share=None; else there is no limit.
    classes
        The label of each column, in order; None: the names of a data frame's columns if the labels given to
        `fit` are such names, else 0..C-1.
    step
        "shrunk": the first round corrects the mean of all rows. Each later one chooses its partition on a
        random half of the rows and steps half as far as the full correction, less the part that the other
        half shows to be noise. "full": the paper's step, the full correction of all rows.
    cv
        The number of folds, 0 or at least 2. At least 2: held-out rows choose the number of rounds. It is the
        one with the smallest gap (root mean square, of 200 random decision makers or the given ones) among
        those whose held-out squared error has not risen; then all rows are fitted. With more than 50,000 rows
        one fold is held out, and with more than 500,000 one fold of a random sample of 500,000. 0: no rows
        are held out.
    warm_start
        True: a further `fit` keeps the start and the rounds of the fit before it, and adds rounds to them, if
        there are as many columns. False: it forgets them.
    floor
        True: no class is corrected to 0. With n fitted rows the corrected p becomes (n p + 1/C)/(n + 1), as
        if one more row had every class in equal parts; that can add up to 1/(n + 1) to the error reached.
        False: as in the paper, where probabilities may become exactly 0.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
        The labels of the columns, shape (C,), the number of columns and, if they had any, their names.
    start_, start_name_
        The fitted start, None for none, and its name.
    inverse_temperature_
        If the start is a temperature: the power to which it raises probabilities; else 1.
    share_, keep_, limit_
        The values that were used.
    rounds_, n_rounds_
        The corrections in their order, as `onlinecal.recalibration.decision.rounds.Round`, and how many there
        are.
    history_
        A structured array with a row for each round of this fit and one for the end: `error`, the one found
        in the round (at the end NaN, unless none above epsilon was found), and `squared_error` and `accuracy`
        of the fitted rows before the round.
    floor_
        The least probability of the corrected ones, 1/(C (n + 1)); 0 without a floor.
    held_out_
        A named tuple of two arrays, `gap` and `squared_error` on held-out rows after 0, 1, ... rounds, as
        many as were tried; None with cv=0.
    reached_
        Whether no error above epsilon was found at the end.

    Notes
    -----
    `DecisionRecalibrator.as_in_paper(...)` is the plain algorithm. On the fitted rows the squared error of
    the corrected rows, before floors, never rises from round to round; with full steps each round lowers it
    by at least epsilon^2, so there are at most 2/epsilon^2 <= K/epsilon^2 of them. The same rows and
    `random_state` give the same model to the last bit on every processor, but for the starts "beta", and
    "dirichlet" of more than 20 classes. docs/theory-tables.md has the proofs, docs/recalibrate-decisions.md
    what the defaults were measured to do. With weights all of this holds for weighted averages.

    Of the answers on the fitted rows: the log loss is at most the start's plus -log(1 - share (1 - keep));
    the gap of any loss under decisions that do not depend on the share is at most (1 - share) times the
    start's plus share times the corrected rows'. If folds choose the share, the squared error is at most the
    start's; with cv=0 or a share that is set, the floor can raise it above that. The start's squared error is
    at most that of the probabilities given, unless `warm_start` kept the start of other rows. An error of at
    most epsilon, for decisions by the answers, is proved for share=1, keep=0 and limit=np.inf only.

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
        *,
        n_actions: int = 2,
        epsilon: float = 0.01,
        partition: PartitionKind = "soft",
        losses: ArrayLike | None = None,
        max_rounds: int | None = None,
        random_state: int = 0,
        start: Start = "auto",
        step: StepSize = "shrunk",
        cv: int = 5,
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
        self.random_state = random_state
        self.start = start
        self.step = step
        self.cv = cv
        self.warm_start = warm_start
        self.classes = classes
        self.floor = floor
        self.share = share
        self.keep = keep
        self.limit = limit

    @classmethod
    def as_in_paper(cls, n_actions: int = 2, epsilon: float = 0.01, **parameters: Any) -> Self:
        """A new, unfitted recalibrator: the paper's Algorithm 2 or, with partition="hard", Algorithm 1.

        It takes full steps until the error on the fitted rows is at most epsilon: no map comes before, no
        rows are held out, and corrected probabilities, which may be 0, are the answers. `n_actions` and
        `epsilon` are parameters of the class, and `parameters` are its further parameters by name, which may
        also replace these settings. `fit` checks them, and has to follow.

        Algorithm 2 is changed in one thing. A partition's error is the sum of r_1, ..., r_K, where r_a is the
        l2 norm of the mean error on region a. The paper's Algorithm 2 searches the partition with the largest
        sum of squares, and ends when that is below epsilon^2/K. Here, as in Algorithm 1, the sum of the r_a
        is searched for, and rounds end when it is at most epsilon. The paper's end implies that, too, as r_1
        + ... + r_K <= sqrt(K (r_1^2 + ... + r_K^2)), but can come later.
        """
        plain = {"start": "none", "step": "full", "cv": 0, "floor": False, "share": 1.0}
        plain |= {"keep": 0.0, "limit": np.inf}
        return cls(n_actions=n_actions, epsilon=epsilon, **{**plain, **parameters})

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self.n_actions = check_count(self.n_actions, "n_actions")
        check_positive(self.epsilon, "epsilon")
        check_choice(self.partition, PARTITIONS, "partition")
        check_choice(self.step, STEP_SIZES, "step")
        check_flag(self.floor, "floor")
        check_flag(self.warm_start, "warm_start")
        if self.max_rounds is not None:
            self.max_rounds = check_count(self.max_rounds, "max_rounds")

    def _learn(self, table: Floats, labels: Ints, weights: Floats) -> None:
        table, labels, weights = merged_rows(as_doubles(table), labels, weights)
        k, n_rows = table.shape[1], total_of(weights)
        losses = None if self.losses is None else check_losses(self.losses, k)
        if n_rows < 2 * max(self.cv, 1):
            remark = "" if (weights == 1.0).all() else " (the sum of the weights)"
            wanted = f"X must have at least {2 * max(self.cv, 1)} rows with cv={self.cv}"
            raise ValueError(f"{wanted}, got {n_rows:g}{remark}: give more rows, or cv=0")
        least = least_probability(weights.sum(), k) if self.floor else 0.0
        find: Finder
        if losses is None:
            find = WorstOfAllLosses(self.n_actions, self.partition == "hard")
        else:
            find = WorstOfGivenLosses(losses, least)
        # `fit` sets `n_features_in_` after this call, so here it is still that of the fit before
        warm = self.warm_start and getattr(self, "n_features_in_", None) == k
        earlier = self.rounds_ if warm else []
        model = None if warm else self._start_model(table, labels, weights)
        watched, most = self._watched(losses, k), self._most_rounds(losses)

        def error(table: Floats, labels: Ints, weights: Floats) -> float:
            return float((loss_gaps(*mean_losses(table, labels, watched, weights), watched) ** 2).mean())

        def begin(
            rows: Ints, fitted_weights: Floats, stream: int
        ) -> tuple[ProbabilityRecalibrator | None, Floats, Descent]:
            """The start and the rounds fitted to these rows only, and these rows after the start."""
            if warm:
                start, begun = self.start_, started(self.start_, table[rows])
            else:
                start, begun = fitted_start(model, table[rows], labels[rows], fitted_weights)
            *_, corrected = replay(begun, earlier)
            length, seed = STEP_LENGTH if self.step == "shrunk" else None, [self.random_state, 3, stream]
            return start, begun, Descent(corrected, labels[rows], find, length, seed, fitted_weights)

        folds: list[DescentFold] = []
        for rows, fitted_weights, out, *counts in self._deciding_folds(table, labels, weights):
            start, _, descent = begin(rows, fitted_weights, 1)
            begun = started(start, table[out])
            *_, corrected = replay(begun, earlier)
            folds.append(DescentFold(descent, begun, corrected, labels[out], *counts))
        self.held_out_ = course_of(folds, self.epsilon, most, error) if folds else None
        most = most if self.held_out_ is None else self.held_out_.best
        self.start_, begun, descent = begin(np.arange(len(table)), weights, 0)
        history: list[RoundProgress] = []
        while len(descent.rounds) < most and (progress := descent.advance(self.epsilon)) is not None:
            history.append(progress)
        self.reached_, self.history_ = descent.reached, history_of([*history, descent.progress()])
        self.rounds_ = [*earlier, *descent.rounds]
        self.n_rounds_, self.floor_ = len(self.rounds_), least
        whole = StartedRows(begun, floored(descent.table, least), labels, weights, weights)
        held_out = (
            StartedRows(fold.begun, floored(fold.after(most), least), fold.labels, fold.weights, fold.blocks)
            for fold in folds
        )
        self._mix(held_out, lambda: [whole], error)
        self._fitted = self._answers(begun, whole.corrected), weights

    def _watched(self, losses: Floats | None, k: int) -> Floats:
        """The decision makers whose gaps are measured on held-out rows: the given ones, or random ones."""
        shape = N_WATCHED, max(2, self.n_actions), k
        return (
            np.random.default_rng([self.random_state, 1]).standard_normal(shape) if losses is None else losses
        )

    def _most_rounds(self, losses: Floats | None) -> int:
        """An upper bound on the number of rounds, before held-out rows are asked."""
        if self.max_rounds is not None:
            return self.max_rounds
        n_actions = max(2, self.n_actions if losses is None else losses.shape[1])
        proven = math.ceil(n_actions / self.epsilon**2)
        return min(proven, MOST_CAUTIOUS_ROUNDS) if self.cv else proven

    def _stages(self, table: Floats) -> Iterator[Floats]:
        begun = started(self.start_, table)
        for stage in replay(begun, self.rounds_):
            yield self._answers(begun, floored(stage, self.floor_))

    def _map(self, table: Floats) -> Floats:
        *_, last = self._stages(table)
        return last

    def staged_predict_proba(self, X: ArrayLike) -> Iterator[Floats]:
        """An iterator over the answers to X after 0, 1, ..., n_rounds_ rounds: n_rounds_ + 1 tables (n, C).

        X has probabilities, shape (n, C). The first table has the probabilities of the start, which nothing
        but the floor has changed, and the last one is the answer of `predict_proba`. Errors are raised when
        the first table is asked for.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If X is no table of probabilities, or has other columns than in `fit`.
        """
        yield from self._stages(self._check_table(X))

    def compress(self, loss: ArrayLike, X: ArrayLike | None = None) -> CompressedPredictor:
        """A predictor with one forecast for each action of one decision maker, a mean of recalibrated rows.

        The decision maker takes for each row the action with the least expected loss, of equals the first. By
        the compressed forecasts they decide the same. Nothing is changed here.

        Parameters
        ----------
        loss
            The loss of action a when the class is c, at [a, c]: shape (K, C).
        X
            Probabilities of rows to average over, shape (n, C), as they were before recalibration. None: the
            rows of the last `fit` with their weights, which `save` does not keep.

        Returns
        -------
        CompressedPredictor
            Its `predict_proba` takes probabilities that this recalibrator gave. Its forecasts are calibrated
            (labels among the rows of a forecast have its distribution) as far as the recalibrated
            probabilities are right on average on the rows of each action.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            A bad loss or X; X=None for a model that was loaded.
        """
        check_is_fitted(self, "rounds_")
        if X is not None:
            table = self.predict_proba(X)
            weights = np.ones(len(table))
        elif hasattr(self, "_fitted"):
            table, weights = self._fitted
        else:
            raise ValueError(
                "X must be given, got None: this model was loaded and has no fitted rows, so give "
                "probabilities to average over"
            )
        costs = check_losses(loss, table.shape[1], "loss")[0]
        if np.ndim(loss) != 2:
            raise ValueError(f"loss must be one table (actions, classes), got shape {np.shape(loss)}")
        decisions = bayes_decisions(table, costs)
        counts, sums = np.bincount(decisions, weights, minlength=len(costs)), np.zeros(costs.shape)
        np.add.at(sums, decisions, table * weights[:, None])
        with np.errstate(invalid="ignore"):
            return CompressedPredictor(costs, sums / counts[:, None], counts / weights.sum())

    def save(self, path: str | Path) -> None:
        """Write the fitted recalibrator to the file `path`, as plain arrays with a checksum; `load` reads it.

        A file of that name is replaced when the new one is complete. Fitted rows are not written, so that a
        loaded model can `compress` only rows that it is given.

        Raises
        ------
        NotFittedError
            Before `fit`.
        ValueError
            If the labels in `classes_` are not plain numbers or texts.
        OSError
            If the file cannot be written.
        """
        check_is_fitted(self, "rounds_")
        keep(path, KEPT_AS, to_arrays(self))

    @classmethod
    def load(cls, path: str | Path) -> DecisionRecalibrator:
        """A new, fitted recalibrator from the file `path`, which `save` wrote: it answers the same bits.

        Raises
        ------
        ValueError
            If the file is not one that `save` wrote, was written in the format of another version, or is
            damaged.
        OSError
            If the file cannot be read.
        """
        return from_arrays(kept(path, KEPT_AS))
