"""Decision recalibration in scikit-learn's conventions, and its maps as arrays that outlive a process.

Rounds have different numbers of regions, so their weights and steps are stacked, with `n_regions` telling
how many rows each round has.

The predictor with one forecast per action: all that one decision maker needs to know.
"""

from __future__ import annotations

import zipfile
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from onlinecal.arrays import Floats, Ints, as_doubles
from onlinecal.measures.decision.errors import PartitionKind
from onlinecal.measures.decision.losses import Partition, bayes_decisions, check_losses
from onlinecal.recalibration.classical.linear import DirichletCalibration, VectorScaling
from onlinecal.recalibration.classical.temperature import (
    BetaCalibration,
    PerClassIsotonic,
    TemperatureScaling,
    isotonic_curve,
)
from onlinecal.recalibration.decision.rounds import (
    Fitting,
    HeldOut,
    Progress,
    Round,
    Step,
    check_settings,
    replay,
)
from onlinecal.recalibration.flooring import floored, least_probability
from onlinecal.recalibration.probability_recalibrator import Weights, total_weight
from onlinecal.recalibration.starting import Start, StartedRecalibrator, started
from onlinecal.validation import check_probability_rows
from onlinecal.version import STATE_FORMAT, check_format

_OR_NONE = ("share", "limit")
_STARTS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "temperature": (TemperatureScaling, ("inverse_temperature_",)),
    "vector": (VectorScaling, ("factors_", "offsets_")),
    "dirichlet": (DirichletCalibration, ("coef_", "intercept_")),
    "beta": (BetaCalibration, ("coef_",)),
    "isotonic": (PerClassIsotonic, ("floor_",)),
}
_PLAIN_KINDS = "biufUS"
_SCALARS = (
    *("n_actions", "epsilon", "partition", "seed", "start", "step", "n_folds", "n_starts", "warm_start"),
    *("floor", "keep"),
)


def to_arrays(model: Any) -> dict[str, np.ndarray]:
    """A fitted model as arrays of numbers and texts."""
    classes = np.asarray(model.classes_)
    if classes.dtype.kind not in _PLAIN_KINDS:
        raise ValueError(f"classes must be plain numbers or texts to be saved, got {classes[0]!r}")
    width = model.n_features_in_
    rounds = model.rounds_
    arrays = {
        "format": np.array(STATE_FORMAT),
        "classes": classes,
        "n_classes": np.array(width),
        "named": np.array(model.classes is not None),
        **_start_arrays(model.start_),
        "share": np.array(model.share_),
        "kept": np.array(model.keep_),
        "limit": np.array(model.limit_),
        **{
            f"parameter_{name}": np.array(np.nan if (value := getattr(model, name)) is None else value)
            for name in _OR_NONE
        },
        "n_regions": np.array([len(each.step) for each in rounds], dtype=np.int64),
        "hard": np.array([each.partition.hard for each in rounds], dtype=np.bool_),
        "weights": np.concatenate([np.zeros((0, width)), *(each.partition.weights for each in rounds)]),
        "steps": np.concatenate([np.zeros((0, width)), *(each.step for each in rounds)]),
        "history": np.array(model.history_.tolist(), dtype=np.float64).reshape(-1, 3),
        "reached": np.array(model.reached_),
        "least": np.array(model.floor_),
        "max_rounds": np.array(-1 if model.max_rounds is None else model.max_rounds),
        **{f"parameter_{name}": np.array(getattr(model, name)) for name in _SCALARS},
    }
    if model.losses is not None:
        arrays["losses"] = np.asarray(model.losses, dtype=np.float64)
    if hasattr(model, "feature_names_in_"):
        arrays["columns"] = np.array(list(model.feature_names_in_))
    if model.held_out_ is not None:
        arrays["held_out"] = np.array(model.held_out_)
    return arrays


def _start_arrays(start: Any) -> dict[str, np.ndarray]:
    """A start, by its name and the numbers that it consists of."""
    name = next((name for name, (kind, _) in _STARTS.items() if isinstance(start, kind)), "none")
    arrays = {"start": np.array(name)}
    if isinstance(start, PerClassIsotonic):
        arrays["start_lengths"] = np.array([len(curve.X_thresholds_) for curve in start.curves_])
        for axis in ("X_thresholds_", "y_thresholds_"):
            arrays[f"start_{axis}"] = np.concatenate([getattr(curve, axis) for curve in start.curves_])
    if start is not None:
        arrays |= {f"start_{part}": np.array(getattr(start, part)) for part in _STARTS[name][1]}
    return arrays


def _start_of(arrays: dict[str, np.ndarray]) -> Any:
    """The fitted start that `_start_arrays` described."""
    name = str(arrays["start"])
    if name == "none":
        return None
    kind, parts = _STARTS[name]
    start = kind()
    for part in parts:
        value = arrays[f"start_{part}"]
        setattr(start, part, value if value.ndim else value.item())
    if isinstance(start, PerClassIsotonic):
        ends = np.cumsum(arrays["start_lengths"])[:-1]
        axes = (np.split(arrays[f"start_{axis}"], ends) for axis in ("X_thresholds_", "y_thresholds_"))
        # a curve that rises already is its own isotonic regression
        start.curves_ = [isotonic_curve().fit(x, y) for x, y in zip(*axes, strict=True)]
    start.n_features_in_ = int(arrays["n_classes"])
    start.classes_ = np.arange(start.n_features_in_)
    return start


def write_arrays(model: Any, path: str | Path) -> None:
    """Save a fitted model under exactly this name."""
    with open(path, "wb") as file:
        contents: dict[str, Any] = to_arrays(model)
        np.savez_compressed(file, **contents)


def read_arrays(kind: Any, path: str | Path) -> Any:
    """A model of this class from a file of arrays; refuses anything pickled."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file) if hasattr(file, "files") else {}
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is no file of a decision recalibrator: {error}") from error
    if "format" not in arrays or "n_regions" not in arrays:
        raise ValueError(f"{path} is no file of a decision recalibrator: it holds other arrays")
    found = arrays["format"]
    check_format(f"the decision recalibrator of {path}", found.item() if found.ndim == 0 else found.tolist())
    return from_arrays(kind, arrays)


def from_arrays(kind: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The fitted model that `to_arrays` described."""
    classes = arrays["classes"]
    most = int(arrays["max_rounds"])
    told = {name: float(arrays[f"parameter_{name}"]) for name in _OR_NONE}
    model = kind(
        **{name: arrays[f"parameter_{name}"].item() for name in _SCALARS},
        max_rounds=None if most < 0 else most,
        **{name: None if np.isnan(value) else value for name, value in told.items()},
        losses=arrays.get("losses"),
        classes=classes.tolist() if arrays["named"] else None,
    )
    ends = np.cumsum(arrays["n_regions"])[:-1]
    hard = arrays["hard"].tolist()
    weights, steps = (np.split(arrays[name], ends) for name in ("weights", "steps"))
    model.classes_ = classes
    model.n_features_in_ = int(arrays["n_classes"])
    model.start_ = _start_of(arrays)
    model.share_, model.keep_, model.limit_ = (float(arrays[name]) for name in ("share", "kept", "limit"))
    model.rounds_ = [
        # of no rounds numpy makes one empty part
        Round(Partition(w, is_hard), step)
        for w, is_hard, step in zip(weights, hard, steps, strict=False)
    ]
    model.n_rounds_ = len(model.rounds_)
    model.history_ = np.array(
        [tuple(row) for row in arrays["history"]], dtype=[(name, np.float64) for name in Progress._fields]
    )
    model.reached_ = bool(arrays["reached"])
    model.floor_ = float(arrays["least"])
    model.held_out_ = HeldOut(*arrays["held_out"]) if "held_out" in arrays else None
    if "columns" in arrays:
        model.feature_names_in_ = np.array(arrays["columns"].tolist(), dtype=object)
    return model


@dataclass(frozen=True, eq=False)
class CompressedPredictor:
    """p_l(x) = E[p(X) | d(p(X)) = d(p(x))]: each row gets the mean of its action's rows.

    A mean of probabilities for which an action is best has that action as its best again, so every decision
    of this loss is kept, and its expected loss. If the mean error on each action's region is zero, as
    decision calibration for all losses with K actions demands, then the predictor is distribution calibrated:
    among rows with forecast q, labels have distribution q.

    Attributes
    ----------
    loss
        The decision maker's table, shape (K, C).
    predictions
        Mean of the probabilities per action, shape (K, C); NaN for an action that nobody takes.
    masses
        Share of the rows per action, shape (K,).

    References
    ----------
    Zhao, Kim, Sahoo, Ma & Ermon (2021), appendix C.2.
    """

    loss: Floats
    predictions: Floats
    masses: Floats

    def predict_proba(self, P: ArrayLike) -> Floats:
        """The forecast of each row's action, shape (n, C); at most K values.

        Rows whose action was not seen when the means were taken are kept as they are. The rows are
        recalibrated probabilities, as the means were.

        Raises
        ------
        ValueError
            A bad table.
        """
        table = check_probability_rows(P, "P")
        decisions = bayes_decisions(table, self.loss)
        known = self.masses[decisions] > 0.0
        return np.where(known[:, None], self.predictions[decisions], table)


def fitted_rows(model: Any) -> tuple[Floats, Weights]:
    """What a recalibrator made of the rows that it was fitted to, and their weights."""
    table = getattr(model, "_fitted_table", None)
    if table is None:
        raise ValueError("P must be given: this model was loaded and has no fitted rows")
    return table, getattr(model, "_fitted_weights", None)


def compress(table: Floats, loss: Floats, weights: Weights = None) -> CompressedPredictor:
    """Average the rows of a table (n, C), with weights (n,), by the Bayes decisions of a loss (K, C)."""
    decisions = bayes_decisions(table, loss)
    counts = np.bincount(decisions, weights, minlength=len(loss))
    sums = np.zeros(loss.shape)
    np.add.at(sums, decisions, table if weights is None else table * weights[:, None])
    with np.errstate(invalid="ignore"):
        return CompressedPredictor(loss, sums / counts[:, None], counts / total_weight(table, weights))


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
