"""Recalibrated models on streams, round by round: their scores, as a table, records and pictures."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from river.base import Classifier

from onlinecal import CalibratedClassifier
from onlinecal.cli.output import table
from onlinecal.measures.scores import BINS, BesideConstants, best_constant_brier, cross_entropy, event_scores
from onlinecal.measures.summary import unkept
from onlinecal.remarks import beside, constant_remarks, input_remarks
from simulations.evaluation.sources import BASE, CALIBRATED, Source
from simulations.games.measuring import Game, measure_recorded

if TYPE_CHECKING:
    from rich.table import Table


class Score(BesideConstants, msgspec.Struct, frozen=True):
    """One line of the table. All errors are averages over rounds.

    Attributes
    ----------
    stream, model, method
        What was recalibrated how.
    rounds, ones
        Rounds in which something was announced, and how many of those came true.
    brier, log_loss
        Averages of (p - y)^2 and of -log of the probability given to what happened.
    ece_bins, ece
        Expected calibration error in 15 bins, and by exact value.
    distance_lower, distance_upper
        Where the distance to calibration lies.
    certificate, guarantee
        What the method can prove of itself, and what that cannot exceed; None if it proves nothing.
    brier_constant, log_loss_constant
        Of the best constant forecast in hindsight.
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
        """Every proven inequality that was not kept, in words; empty if all is well."""
        if self.certificate is None or self.guarantee is None:
            return []
        chain = [
            ("distance to calibration", self.distance_lower, "certificate", self.certificate),
            ("certificate", self.certificate, "guarantee", self.guarantee),
        ]
        return unkept(chain, 0)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One method on one stream in full.

    Attributes
    ----------
    score
        The line of the table.
    game
        Forecasts, outcomes and witness, round by round.
    checkpoints, certificates, guarantees
        How many forecasts had been given, and the two sums then; the latter empty without a certificate.
    """

    score: Score
    game: Game
    checkpoints: list[int]
    certificates: list[float]
    guarantees: list[float]


def evaluate(
    source: Source,
    model: Classifier,
    model_name: str,
    method: str,
    *,
    late: int = 0,
    budget: float = 1.0,
    n_checkpoints: int = 24,
    progress: Callable[[int], None] | None = None,
) -> Evaluation:
    """Play a model through a stream, each label coming when `late` more rounds have been asked about.

    Or when the source says so, if it does.

    With two labels the event forecast is the label True, with more that the model's top label is right.
    Rounds in which a model that has learnt nothing yet announces nothing are not scored.
    """
    forecasts: list[float] = []
    outcomes: list[bool] = []
    checkpoints: list[int] = []
    certificates: list[float] = []
    guarantees: list[float] = []
    labels: list[Any] = []
    order, upto = _schedule(source, late)
    learnt = 0
    stops = set(np.linspace(0, len(source), n_checkpoints + 1).astype(int)[1:].tolist())
    proving = model if isinstance(model, CalibratedClassifier) else None
    ask = top_label if source.is_multiclass else probability_of_true
    for t, x in enumerate(source.features):
        event, p = ask(model, x)
        label = source.label(t, 0.5 if p is None else p)
        if p is not None:
            forecasts.append(p)
            outcomes.append(bool(label == event))
        labels.append(label)
        for row in order[learnt : upto[t]]:
            model.learn_one(source.features[row], labels[row])
        learnt = upto[t]
        if t + 1 in stops:
            checkpoints.append(len(forecasts))
            if proving is not None:
                certificates.append(proving.certificate)
                guarantees.append(proving.guarantee)
            if progress is not None:
                progress(t + 1 - max((stop for stop in stops if stop <= t), default=0))
    p_array, y_array = np.array(forecasts), np.array(outcomes, dtype=np.uint8)
    title = source.name if source.recorded else f"{source.name}, {model_name}"
    game = measure_recorded(p_array, y_array, method, title, budget=budget)
    score = _score(game, source.name, model_name, certificates[-1:], guarantees[-1:])
    return Evaluation(score, game, checkpoints, certificates, guarantees)


def _schedule(source: Source, late: int) -> tuple[list[int], list[int]]:
    """The rounds in the order in which their labels come, and how many have come after each round.

    Of labels that come at once the oldest is first; after the last round all have come.
    """
    count = len(source)
    due = np.arange(1 + late, count + 1 + late) if source.known_from is None else source.known_from
    order = np.argsort(due, kind="stable")
    upto = np.searchsorted(due[order], np.arange(1, count + 1), side="right")
    upto[-1:] = count
    return order.tolist(), upto.tolist()


def probability_of_true(model: Classifier, x: Any) -> tuple[Any, float | None]:
    """The event "the label is True" and its probability; None where the model announces nothing."""
    answer = model.predict_proba_one(x)
    if not answer:
        return True, None
    return True, _within(answer[True] if True in answer else 1.0 - sum(answer.values()))


def top_label(model: Classifier, x: Any) -> tuple[Any, float | None]:
    """The event "the top label is right", as the model (or its certificate) understands it."""
    ask = model.forecasts_one if isinstance(model, CalibratedClassifier) else model.predict_proba_one
    answer = ask(x)
    if not answer:
        return None, None
    label = max(answer, key=lambda name: _within(answer[name]))
    return label, _within(answer[label])


def _score(game: Game, stream: str, model: str, certificate: list[float], guarantee: list[float]) -> Score:
    one = game.measured
    rounds, averages = one.rounds, event_scores(game.forecasts, game.outcomes)
    return Score(
        stream=stream,
        model=model,
        method=one.forecaster,
        rounds=rounds,
        ones=one.ones,
        brier=averages.brier,
        log_loss=averages.log_loss,
        ece_bins=averages.ece,
        ece=one.ece / rounds,
        distance_lower=one.distance_lower / rounds,
        distance_upper=one.distance_upper / rounds,
        certificate=certificate[0] / rounds if certificate else None,
        guarantee=guarantee[0] / rounds if guarantee else None,
        brier_constant=best_constant_brier(rounds, one.ones) / rounds,
        log_loss_constant=cross_entropy(np.full(rounds, one.ones / rounds), game.outcomes) / rounds,
    )


def _within(p: float) -> float:
    return 0.5 if p != p else min(max(float(p), 0.0), 1.0)


def score_table(scores: Sequence[Score], late: str) -> Table:
    """A line per stream, model and method, and one for the best constant; averages over rounds.

    Beside Brier score and log loss stands how far they are from those of the model alone.
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
        ["stream", "model", "", "Brier", "± base", "log loss", "± base", f"ECE ({BINS} bins)", "ECE",
         "distance to calibration", "certificate", "guarantee"],
        lines,
        left=3,
    )  # fmt: skip


def by_model(scores: Sequence[Score]) -> list[tuple[Score, list[Score]]]:
    """The scores of each model on each stream, and among them those of the model itself."""
    groups: dict[tuple[str, str], list[Score]] = {}
    for score in scores:
        groups.setdefault((score.stream, score.model), []).append(score)
    return [(next(one for one in group if one.method == BASE), group) for group in groups.values()]


def comparisons(scores: Sequence[Score]) -> list[str]:
    """Where the model or its calibrated version is worse than a constant, or the latter than the model."""
    texts = []
    for base, group in by_model(scores):
        for one in (one for one in group if one.method in (BASE, CALIBRATED)):
            name = f"{one.method} {one.model} on {one.stream}"
            texts += constant_remarks(name, one.rounds, beside(one.losses, one.constants))
            texts += input_remarks(name, f"{base.method} {base.model}", beside(one.losses, base.losses))
    return texts


def machine_readable(
    scores: Sequence[Score], broken: Sequence[str], files: Sequence[Path], remarks: Sequence[str] = ()
) -> dict[str, Any]:
    """The scores as plain records."""
    return {
        "scores": [msgspec.structs.asdict(score) for score in scores],
        "broken": list(broken),
        "warnings": list(remarks),
        "pictures": [str(path) for path in files],
    }


def write_evaluations(evaluations: Sequence[Evaluation], folder: Path) -> list[Path]:
    """Write results.csv, reliability diagrams per stream and model, and how the distance grew."""
    import polars as pl

    from onlinecal.plots.reliability_diagram import reliability_panels
    from onlinecal.plots.style import write_figure
    from onlinecal.tables import write_table
    from simulations.plots.games import draw_running, prepare_running, reliability_of

    rows = [msgspec.structs.asdict(one.score) for one in evaluations]
    written = [write_table(pl.DataFrame(rows, infer_schema_length=None), folder / "results.csv")]
    groups: dict[tuple[str, str], list[Evaluation]] = {}
    for one in evaluations:
        groups.setdefault((one.score.stream, one.score.model), []).append(one)
    for names, group in groups.items():
        numbers = reliability_of([one.game for one in group])
        stem = folder / _file_name("reliability", *names)
        written.append(write_figure(reliability_panels(numbers), numbers, stem))
    numbers = prepare_running(evaluations)
    written.append(write_figure(draw_running(numbers), numbers, folder / "distance"))
    return written


def _line(score: Score, base: Score) -> list[str]:
    low, high = f"{score.distance_lower:.4f}", f"{score.distance_upper:.4f}"
    proofs = (score.certificate, score.guarantee)
    return [
        score.stream,
        score.model,
        score.method,
        f"{score.brier:.4f}",
        "" if score is base else _change(score.brier, base.brier),
        f"{score.log_loss:.4f}",
        "" if score is base else _change(score.log_loss, base.log_loss),
        f"{score.ece_bins:.4f}",
        f"{score.ece:.4f}",
        high if low == high else f"{low} … {high}",
        *("–" if value is None else f"{value:.4f}" for value in proofs),
    ]


def _change(value: float, base: float) -> str:
    return f"{100 * (value / base - 1):+.1f} %" if base else "–"


def _file_name(*parts: str) -> str:
    return "-".join(re.sub(r"\W+", "-", part).strip("-").lower() for part in parts)
