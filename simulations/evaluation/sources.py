"""What a model is evaluated on: river's bundled data, a file of forecasts, streams made to break it.

The models that are evaluated, by name, and the ways to recalibrate them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base, linear_model, multiclass, naive_bayes, preprocessing, tree

from adversaries.streams import BINARY, SEVERAL, river_dataset
from onlinecal import BinnedMean, CalibratedClassifier, PlattScaling
from onlinecal.arrays import Floats
from onlinecal.catalogue import did_you_mean
from onlinecal.columns import Reading
from onlinecal.remarks import outcome_remarks, run_remarks
from onlinecal.rounds import known_from, read_rounds
from onlinecal.wrappers.late_labels import MOST_WAITING
from onlinecal.wrappers.strategies.buckets import Buckets
from onlinecal.wrappers.strategies.catalogue import StrategyName
from simulations.games.opponents import first_rounds

ADVICE = "? Their outcomes leak into each other's forecasts: --group COL or --settled-at COL keeps them apart"


@dataclass(frozen=True, eq=False)
class Source:
    """A stream of T rounds.

    Attributes
    ----------
    name
        For tables and pictures.
    features
        What the model sees, T of them.
    label
        The label of round t, given the probability announced for the positive label: only an adversary
        looks at that.
    is_multiclass
        Whether there are more than two labels; of two, True is the positive one.
    recorded
        Whether the features are a model's forecasts, so that there is no model to choose.
    remarks
        What looks wrong in the columns of a file.
    known_from
        For each round the first one before which its label is learnt, shape (T,); None: the next round.
    """

    name: str
    features: Sequence[dict[str, Any]]
    label: Callable[[int, float], Any]
    is_multiclass: bool = False
    recorded: bool = True
    remarks: Sequence[str] = ()
    known_from: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.features)


def from_river(name: str, rounds: int | None) -> Source:
    """A classification dataset that comes with river; ValueError lists those there are."""
    dataset = river_dataset(name, BINARY, SEVERAL)
    features, labels = zip(*dataset, strict=True)
    count = first_rounds(rounds, len(labels), name)
    is_multiclass = dataset.task == SEVERAL
    kept = labels if is_multiclass else [bool(label) for label in labels]
    return Source(name, features[:count], lambda t, _: kept[t], is_multiclass, recorded=False)


def from_file(
    path: Path,
    outcome: str,
    forecast: str,
    sort: str | None,
    rounds: int | None,
    *,
    settled_at: str | None = None,
    group: str | None = None,
    reading: Reading | None = None,
) -> Source:
    """Recorded forecasts of a file; errors as from `read_rounds`, `known_from` and for too few rounds."""
    more = [name for name in (settled_at, group) if name is not None]
    found = read_rounds(path, outcome, [forecast], sort=sort, more=more, reading=reading)
    known = known_from(found, settled_at, group, sort)
    count = first_rounds(rounds, len(found.outcomes), found.name)
    forecasts, outcomes = found.forecasts[forecast][:count], found.outcomes[:count]
    labels = [bool(y) for y in outcomes]
    remarks = [*found.remarks, *outcome_remarks(outcomes, forecasts, outcome, forecast)]
    features = _recorded(forecasts)
    if known is None:
        remarks += run_remarks(outcomes, forecasts, outcome, ADVICE)
    else:
        known = known[:count]
        rows = np.arange(1, count + 1)
        most = int((rows - np.searchsorted(np.sort(known), rows, side="right")).max())
        if most > MOST_WAITING:
            remarks.append(
                f"{most:,} forecasts are open at once, the oldest beyond {MOST_WAITING:,} are given up"
            )
        # labels find their forecasts by features, and do not come in the order of the rows
        features = [{**x, "row": row} for row, x in enumerate(features)]
    return Source(found.name, features, lambda t, _: labels[t], remarks=remarks, known_from=known)


def hard(name: str, rounds: int, seed: int) -> Source:
    """A stream made to break recalibrators, with forecasts drawn evenly from [0, 1].

    "flip": the forecast is the true probability, until from half way on one minus it is. "fold": it is up to
    0.7, above that the truth is 0.3. "drift": the truth's odds are the forecast's times a factor that falls
    from 20 to 1/20. "threshold": an adversary plays 1 if and only if less than 1/2 was announced.
    """
    if name not in HARD:
        raise ValueError(f"unknown stream {name!r}; known: {', '.join(HARD)}")
    rng = np.random.default_rng(seed)
    forecasts = rng.random(rounds)
    draws = rng.random(rounds)
    if name == "threshold":
        return Source(name, _recorded(forecasts), lambda _, announced: announced < 0.5)
    truth = TRUTHS[name](forecasts, np.arange(rounds) / rounds)
    outcomes: list[bool] = (draws < truth).tolist()
    return Source(name, _recorded(forecasts), lambda t, _: outcomes[t])


def _flip(forecasts: Floats, time: Floats) -> Floats:
    return np.where(time < 0.5, forecasts, 1.0 - forecasts)


def _fold(forecasts: Floats, time: Floats) -> Floats:
    return np.where(forecasts <= 0.7, forecasts, 0.3)


def _drift(forecasts: Floats, time: Floats) -> Floats:
    factor = 20.0 ** (1.0 - 2.0 * time)
    return forecasts * factor / (forecasts * factor + 1.0 - forecasts)


TRUTHS: dict[str, Callable[[Floats, Floats], Floats]] = {"flip": _flip, "fold": _fold, "drift": _drift}
"""True probabilities by (forecasts, time in [0, 1)), both of shape (T,)."""

HARD = (*TRUTHS, "threshold")
"""The names of the hard streams."""


def _recorded(forecasts: Floats) -> list[dict[str, Any]]:
    return [{"forecast": p} for p in forecasts.tolist()]


BASE, CALIBRATED = "base", "calibrated"


class Recorded(base.Classifier):
    """A model that said everything beforehand: its forecasts of True come as the feature "forecast"."""

    def learn_one(self, x: Any, y: Any) -> None:
        """Nothing is learnt."""

    def predict_proba_one(self, x: Any) -> dict[bool, float]:
        """The recorded forecast."""
        p = x["forecast"]
        return {False: 1.0 - p, True: p}


MODELS: dict[str, Callable[[], base.Classifier]] = {
    "logistic": lambda: preprocessing.StandardScaler() | linear_model.LogisticRegression(),
    "bayes": naive_bayes.GaussianNB,
    "tree": tree.HoeffdingTreeClassifier,
}
"""Models that learn from features."""


def create(name: str, is_multiclass: bool = False) -> base.Classifier:
    """A fresh model by its name; ValueError lists the known ones.

    Models that know two labels only are asked one against the rest where there are more.
    """
    if name not in MODELS:
        raise ValueError(f"unknown model {name!r}{did_you_mean(name, MODELS)}")
    model = MODELS[name]()
    return model if model._multiclass or not is_multiclass else multiclass.OneVsRestClassifier(model)


def methods(
    slack: float | None, n_buckets: Buckets, is_multiclass: bool = False
) -> dict[str, Callable[[base.Classifier], base.Classifier]]:
    """The model itself and its three recalibrations, by the names they have in tables.

    With more than two labels the event is that the top label is right, and that is what is calibrated.
    Raises ValueError for a slack or a number of buckets that CalibratedClassifier does not take.
    """
    strategy: StrategyName = "top-label" if is_multiclass else "auto"
    CalibratedClassifier(Recorded(), slack=slack, n_buckets=n_buckets)
    return {
        BASE: lambda model: model,
        "Platt": PlattScaling,
        "mean": BinnedMean,
        CALIBRATED: lambda model: CalibratedClassifier(
            model, slack=slack, n_buckets=n_buckets, strategy=strategy
        ),
    }
