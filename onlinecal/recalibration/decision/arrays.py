"""Decision recalibrators as plain arrays: what a file of them holds.

Rounds have different numbers of regions, so their weights and steps are stacked, with `n_regions` telling
how many rows each round has.

The predictor with one forecast per action: all that one decision maker needs to know.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onlinecal.arrays import Floats
from onlinecal.measures.decision.losses import Partition, bayes_decisions
from onlinecal.recalibration.classical.linear import DirichletCalibration, VectorScaling
from onlinecal.recalibration.classical.temperature import (
    BetaCalibration,
    PerClassIsotonic,
    TemperatureScaling,
    isotonic_curve,
)
from onlinecal.recalibration.decision.rounds import HeldOut, Progress, Round
from onlinecal.recalibration.weights import Weights, total_weight
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
