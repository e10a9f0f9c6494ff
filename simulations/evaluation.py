"""Evaluations of recalibrated models on streams: the streams, the methods, their scores and the table.

Every round is forecast before its label is learnt. `simulations.plots.evaluations` has the pictures.

The order is: sources are read and checked (`source_of`), methods are planned (`planned`), and `evaluate`
plays each on a model of its own through the whole stream, and takes its score at the end. Methods share
nothing but the source, which never changes. Equal seeds give equal games: in `hard` the forecasts are drawn
before the outcomes. The fields of a `Score`, in this order, are columns of files and keys of JSON, and the
names of streams and methods stand in them. N_CHECKPOINTS decides where certificates are read, and changes no
score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from river import linear_model, multiclass, naive_bayes, preprocessing, tree
from river.base import Classifier

from onlinecal import BinnedMean, CalibratedClassifier, PlattScaling
from onlinecal.adversaries.streams import BINARY_TASK, SEVERAL_CLASSES_TASK, river_dataset, river_datasets
from onlinecal.arrays import Floats
from onlinecal.catalogue import did_you_mean
from onlinecal.cli.output import table
from onlinecal.measures.scores import (
    ECE_BINS,
    BesideConstants,
    best_constant_brier,
    cross_entropy,
    event_scores,
)
from onlinecal.measures.summary import unkept
from onlinecal.remarks import constant_remarks, input_remarks, outcome_remarks, run_remarks
from onlinecal.simulations.games.measuring import Game, measure_recorded
from onlinecal.tables.files import is_file
from onlinecal.tables.names import event_columns
from onlinecal.tables.rounds import Reading, known_from, read_rounds
from onlinecal.wrappers.late_labels import MOST_WAITING

if TYPE_CHECKING:
    from rich.table import Table


SEPARATE_ADVICE = (
    "? Their outcomes leak into each other's forecasts: --together COL or --settled-at COL keeps them apart"
)


MADE_UP_ROUNDS = 20_000
"""The rounds of a made-up stream."""
N_CHECKPOINTS = 24
"""A stream is divided into this many parts; after each of them certificate and distance are recorded."""


class FileColumns(NamedTuple):
    """The names of a file's columns; None for one that is not named."""

    forecast: str | None = None
    outcome: str | None = None
    sort: str | None = None
    settled_at: str | None = None
    together: str | None = None


@dataclass(frozen=True, eq=False)
class Source:
    """A stream of T rounds.

    Attributes
    ----------
    name
        The name in tables and pictures.
    features
        The features that the model sees, one dictionary for each of T rounds.
    label
        Gives the label of round t, from t and the probability announced for the positive label, which only an
        adversary looks at.
    is_multiclass
        Whether there are more than two labels; of two, True is the positive one.
    recorded
        Whether the features are a model's forecasts, so that there is no model to choose.
    remarks
        Remarks on what looks wrong in the columns of a file.
    known_from
        For each round the first round before which its label is learnt, shape (T,); None: the next round.
    """

    name: str
    features: Sequence[dict[str, Any]]
    label: Callable[[int, float], Any]
    is_multiclass: bool = False
    recorded: bool = True
    remarks: Sequence[str] = ()
    known_from: NDArray[Any] | None = None


def source_of(name: str, rounds: int | None, seed: int, columns: FileColumns, reading: Reading) -> Source:
    """The stream of a file, of a dataset that comes with river, or one of `HARD_STREAMS`.

    `columns` and `reading` are for files only. Raises ValueError for an unknown name, and lists those there
    are.
    """
    if is_file(Path(name)):
        return from_file(Path(name), columns, rounds, reading)
    if reading != Reading() or any(columns):
        raise ValueError(
            f"--forecast, --outcome and other options about columns need a file, and {name} is none: leave "
            "them out"
        )
    if name in HARD_STREAMS:
        return hard(name, rounds or MADE_UP_ROUNDS, seed)
    recorded = river_datasets(BINARY_TASK, SEVERAL_CLASSES_TASK)
    if name not in recorded:
        known = did_you_mean(name, (*HARD_STREAMS, *recorded))
        raise ValueError(f"there is no file {name!r}, nor a stream of this name{known}")
    return from_river(name, rounds)


def _first_rounds(rounds: int | None, available: int, name: str) -> int:
    if rounds is not None and rounds > available:
        raise ValueError(f"rounds must be at most the {available} that {name} has, got {rounds}")
    return rounds or available


def from_river(name: str, rounds: int | None) -> Source:
    """A classification dataset that comes with river; ValueError lists those there are."""
    dataset = river_dataset(name, BINARY_TASK, SEVERAL_CLASSES_TASK)
    features, labels = zip(*dataset, strict=True)
    count = _first_rounds(rounds, len(labels), name)
    is_multiclass = dataset.task == SEVERAL_CLASSES_TASK
    kept = labels if is_multiclass else [bool(label) for label in labels]
    return Source(name, features[:count], lambda t, _: kept[t], is_multiclass, recorded=False)


def from_file(path: Path, columns: FileColumns, rounds: int | None, reading: Reading | None = None) -> Source:
    """The recorded forecasts of a file; raises what `read_rounds` and `known_from` raise.

    It raises ValueError, too, if the file has fewer rounds than asked for.
    """
    forecast, outcome, sort, settled_at, together = columns
    forecast, outcome = event_columns(path, forecast, outcome)
    more = [name for name in (settled_at, together) if name is not None]
    read = read_rounds(path, outcome, [forecast], sort=sort, more=more, reading=reading)
    known = known_from(read, settled_at, together, sort)
    count = _first_rounds(rounds, len(read.outcomes), read.name)
    forecasts, outcomes = read.forecasts[forecast][:count], read.outcomes[:count]
    labels = [bool(y) for y in outcomes]
    remarks = [*read.remarks, *outcome_remarks(outcomes, forecasts, outcome, forecast)]
    features = _recorded(forecasts)
    if known is None:
        remarks += run_remarks(outcomes, forecasts, outcome, SEPARATE_ADVICE)
    else:
        known = known[:count]
        rows = np.arange(1, count + 1)
        most = int((rows - np.searchsorted(np.sort(known), rows, side="right")).max())
        if most > MOST_WAITING:
            remarks.append(
                f"{most:,} forecasts are open at once, the oldest beyond {MOST_WAITING:,} are given up"
            )
        # labels find their forecasts by features, so the number of the row is one of them
        features = [{**x, "row": row} for row, x in enumerate(features)]
    return Source(read.name, features, lambda t, _: labels[t], remarks=remarks, known_from=known)


def hard(name: str, rounds: int, seed: int) -> Source:
    """A stream made to break recalibrators, with forecasts drawn evenly from [0, 1].

    "flip": the forecast is the true probability in the first half, and one minus it in the second. "fold":
    the forecast is the true probability up to 0.7, and above that the truth is 0.3. "drift": the truth's odds
    are the forecast's times a factor that falls from 20 to 1/20. "threshold": an adversary plays 1 if and
    only if less than 1/2 was announced.
    """
    rng = np.random.default_rng(seed)
    forecasts = rng.random(rounds)
    draws = rng.random(rounds)
    if name == "threshold":
        return Source(name, _recorded(forecasts), lambda _, announced: announced < 0.5)
    truth = TRUTHS[name](forecasts, np.arange(rounds) / rounds)
    outcomes: list[bool] = (draws < truth).tolist()
    return Source(name, _recorded(forecasts), lambda t, _: outcomes[t])


def _drift(forecasts: Floats, time: Floats) -> Floats:
    factor = 20.0 ** (1.0 - 2.0 * time)
    return forecasts * factor / (forecasts * factor + 1.0 - forecasts)


TRUTHS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "flip": lambda forecasts, time: np.where(time < 0.5, forecasts, 1.0 - forecasts),
    "fold": lambda forecasts, time: np.where(forecasts <= 0.7, forecasts, 0.3),
    "drift": _drift,
}
"""Functions from (forecasts, time in [0, 1)), both of shape (T,), to true probabilities."""

HARD_STREAMS = (*TRUTHS, "threshold")
"""The names of the hard streams."""


def _recorded(forecasts: Floats) -> list[dict[str, Any]]:
    return [{"forecast": p} for p in forecasts.tolist()]


BASE_METHOD, CALIBRATED_METHOD = "base", "calibrated"


class Recorded(Classifier):
    """A model whose forecasts were recorded: its forecast of True comes as the feature "forecast"."""

    def learn_one(self, x: Any, y: Any) -> None:
        """Do nothing, since the forecasts are recorded."""

    def predict_proba_one(self, x: Any) -> dict[bool, float]:
        """The recorded forecast."""
        return {False: 1.0 - x["forecast"], True: x["forecast"]}


FEATURE_MODELS: dict[str, Callable[[], Classifier]] = {
    "logistic": lambda: preprocessing.StandardScaler() | linear_model.LogisticRegression(),
    "bayes": naive_bayes.GaussianNB,
    "tree": tree.HoeffdingTreeClassifier,
}
"""Models that learn from features."""


def create(name: str, is_multiclass: bool = False) -> Classifier:
    """A fresh model by its name; one for two labels is fitted to each label against the rest if needed."""
    if name not in FEATURE_MODELS:
        raise ValueError(f"unknown model {name!r}{did_you_mean(name, FEATURE_MODELS)}")
    model = FEATURE_MODELS[name]()
    return model if model._multiclass or not is_multiclass else multiclass.OneVsRestClassifier(model)


def methods(is_multiclass: bool = False) -> dict[str, Callable[[Classifier], Classifier]]:
    """The model itself and its three recalibrations, by their names in tables.

    With more than two labels the event is that the top label is right, and this event is calibrated.
    """
    calibrated = partial(CalibratedClassifier, strategy="top-label" if is_multiclass else "auto")
    return {
        BASE_METHOD: lambda model: model,
        "Platt": PlattScaling,
        "mean": BinnedMean,
        CALIBRATED_METHOD: calibrated,
    }


def planned(sources: Sequence[Source], models: Sequence[str]) -> list[tuple[Source, str, str, Classifier]]:
    """Each stream with each model and each method: the stream, both names, and a fresh classifier."""
    return [
        (source, name, method, wrap(Recorded() if source.recorded else create(name, source.is_multiclass)))
        for source in sources
        for name in models
        for method, wrap in methods(source.is_multiclass).items()
    ]


class Score(BesideConstants, msgspec.Struct, frozen=True):
    """A line of the table; all errors are averages over rounds.

    Attributes
    ----------
    stream, model, method
        The names of the stream, the model and the recalibration.
    rounds, ones
        In how many rounds there was a forecast, and in how many of them the event came.
    brier, log_loss
        Averages of (p - y)^2, and of -log of the probability given to the outcome.
    ece_bins, ece
        Expected calibration error in 15 bins, and by exact value.
    distance_lower, distance_upper
        Bounds on the distance to calibration.
    certificate, guarantee
        The method's certificate, and the bound that it cannot exceed; None if the method proves nothing.
    brier_constant, log_loss_constant
        The losses of the best constant forecast in hindsight.
    """

    stream: str
    model: str
    method: str
    rounds: int
    ones: int
    brier: float
    log_loss: float
    ece_bins: float
    ece: float
    distance_lower: float
    distance_upper: float
    certificate: float | None
    guarantee: float | None
    brier_constant: float
    log_loss_constant: float

    def broken_bounds(self) -> list[str]:
        """Every proven inequality that was broken, in words; empty if all were kept."""
        if self.certificate is None or self.guarantee is None:
            return []
        chain = [
            ("distance to calibration", self.distance_lower, "certificate", self.certificate),
            ("certificate", self.certificate, "guarantee", self.guarantee),
        ]
        return unkept(chain, 0)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One method on one stream: its line of the table, and the game round by round.

    `checkpoints` are numbers of forecasts, after each of which it has the certificate and the guarantee,
    sums; a method without a certificate has none.
    """

    score: Score
    game: Game
    checkpoints: list[int]
    certificates: Sequence[float] = ()
    guarantees: Sequence[float] = ()


def evaluate(
    source: Source,
    model: Classifier,
    model_name: str,
    method: str,
    *,
    late: int = 0,
    budget: float = 1.0,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Play a model through a stream; each label comes after `late` more rounds, or when the source says.

    With two labels the event is the label True; with more it is that the model's top label is right. Rounds
    without a forecast, which a model gives that has learnt nothing yet, are not scored.
    """
    forecasts: list[float] = []
    outcomes: list[bool] = []
    labels: list[Any] = []
    checkpoints: list[int] = []
    proofs: list[tuple[float, float]] = []
    count = len(source.features)
    due = np.arange(1 + late, count + 1 + late) if source.known_from is None else source.known_from
    # labels that come at the same time are learnt oldest first; after the last round all have come
    order = np.argsort(due, kind="stable")
    come = np.searchsorted(due[order], np.arange(1, count + 1), side="right")
    come[-1:] = count
    ask = top_label if source.is_multiclass else probability_of_true
    learnt = 0
    for begin, end in pairwise(np.unique(np.linspace(0, count, N_CHECKPOINTS + 1).astype(int)).tolist()):
        for t in range(begin, end):
            event, p = ask(model, source.features[t])
            label = source.label(t, 0.5 if p is None else p)
            if p is not None:
                forecasts.append(p)
                outcomes.append(bool(label == event))
            labels.append(label)
            for row in order[learnt : come[t]].tolist():
                model.learn_one(source.features[row], labels[row])
            learnt = come[t]
        checkpoints.append(len(forecasts))
        if isinstance(model, CalibratedClassifier):
            proofs.append((model.certificate, model.guarantee))
        if progress is not None:
            progress(end - begin)
    title = source.name if source.recorded else f"{source.name}, {model_name}"
    game = measure_recorded(np.array(forecasts), np.array(outcomes, np.uint8), method, title, budget=budget)
    score = _score(game, source.name, model_name, *(proofs[-1] if proofs else (None, None)))
    return Evaluation(score, game, checkpoints, *zip(*proofs, strict=True))


def probability_of_true(model: Classifier, x: Any) -> tuple[Any, float | None]:
    """The event "the label is True" and its probability; None if the model announces nothing."""
    answer = model.predict_proba_one(x)
    if not answer:
        return True, None
    return True, _within(answer[True] if True in answer else 1.0 - sum(answer.values()))


def top_label(model: Classifier, x: Any) -> tuple[Any, float | None]:
    """The event "the top label is right", as the model (or its certificate) understands it."""
    ask = model.certified_proba_one if isinstance(model, CalibratedClassifier) else model.predict_proba_one
    answer = {label: _within(p) for label, p in ask(x).items()}
    label = max(answer, key=answer.__getitem__, default=None)
    return label, answer.get(label)


def _score(game: Game, stream: str, model: str, certificate: float | None, guarantee: float | None) -> Score:
    measured = game.measured
    rounds, averages = measured.rounds, event_scores(game.forecasts, game.outcomes)
    sums = {name: getattr(measured, name) for name in ("ece", "distance_lower", "distance_upper")}
    sums |= {"certificate": certificate, "guarantee": guarantee}
    means: dict[str, Any] = {name: None if sum_ is None else sum_ / rounds for name, sum_ in sums.items()}
    return Score(
        stream=stream,
        model=model,
        method=measured.forecaster,
        rounds=rounds,
        ones=measured.ones,
        brier=averages.brier,
        log_loss=averages.log_loss,
        ece_bins=averages.ece,
        **means,
        brier_constant=best_constant_brier(rounds, measured.ones) / rounds,
        log_loss_constant=cross_entropy(np.full(rounds, measured.ones / rounds), game.outcomes) / rounds,
    )


def _within(p: float) -> float:
    return 0.5 if p != p else min(max(float(p), 0.0), 1.0)


def score_table(scores: Sequence[Score], late: str) -> Table:
    """A table with a line per stream, model and method, and one for the best constant; averages over rounds.

    Beside Brier score and log loss it shows how far they are from those of the model alone.
    """
    streams = {score.stream: score.rounds for score in scores}
    title = ", ".join(f"{name} ({rounds:,} rounds)" for name, rounds in streams.items())
    lines = []
    for base, group in by_model(scores):
        lines += [_line(score, base) for score in group]
        constant = [base.stream, base.model, "best constant"]
        for own, other in zip(base.constants.values(), base.losses.values(), strict=True):
            constant += [f"{own:.4f}", _change(own, other)]
        lines.append([*constant, *[""] * 5])
    return table(
        f"{title}{late}: averages per round",
        ["stream", "model", "", "Brier", "± base", "log loss", "± base", f"ECE ({ECE_BINS} bins)", "ECE",
         "distance to calibration", "certificate", "guarantee"],
        lines,
        left=3,
    )  # fmt: skip


def by_model(scores: Sequence[Score]) -> list[tuple[Score, list[Score]]]:
    """For each model on each stream the score of the model itself, and the scores of all methods."""
    groups: dict[tuple[str, str], list[Score]] = {}
    for score in scores:
        groups.setdefault((score.stream, score.model), []).append(score)
    return [
        (next(score for score in group if score.method == BASE_METHOD), group) for group in groups.values()
    ]


def comparisons(scores: Sequence[Score]) -> list[str]:
    """Remarks on models that are worse than a constant, and on calibrated ones that are worse than before."""
    texts = []
    for base, group in by_model(scores):
        for score in (score for score in group if score.method in (BASE_METHOD, CALIBRATED_METHOD)):
            name = f"{score.method} {score.model} on {score.stream}"
            texts += constant_remarks(name, score.rounds, score.losses, score.constants)
            texts += input_remarks(name, f"{base.method} {base.model}", score.losses, base.losses)
    return texts


def _line(score: Score, base: Score) -> list[str]:
    low, high = f"{score.distance_lower:.4f}", f"{score.distance_upper:.4f}"
    line = [score.stream, score.model, score.method]
    for own, other in zip(score.losses.values(), base.losses.values(), strict=True):
        line += [f"{own:.4f}", "" if score is base else _change(own, other)]
    line += [f"{score.ece_bins:.4f}", f"{score.ece:.4f}", high if low == high else f"{low} … {high}"]
    proofs = (score.certificate, score.guarantee)
    return [*line, *("–" if value is None else f"{value:.4f}" for value in proofs)]


def _change(value: float, base: float) -> str:
    return f"{100 * (value / base - 1):+.1f} %" if base else "–"
