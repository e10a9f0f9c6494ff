"""Whom a forecaster is to play: an adversary of the catalogue or a recorded stream, of any classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

import adversaries
from adversaries import Adversary, LabelStream, MulticlassAdversary, Stream
from onlinecal.remarks import label_remarks, outcome_remarks

TABLES = (".npz",)
"""Extensions of files of class probabilities."""

A = TypeVar("A", Adversary, MulticlassAdversary)


@dataclass(frozen=True, eq=False)
class Opponent(Generic[A]):
    """An adversary, for how many rounds, and the hints that come with them, if there are any.

    The hints are of shape (T,), of several classes (T, k). `hints_name` says in tables where they come from,
    `remarks` what looks wrong in the columns of a file.
    """

    adversary: A
    rounds: int
    hints: NDArray[np.float64] | None = None
    hints_name: str = ""
    remarks: Sequence[str] = ()

    @property
    def name(self) -> str:
        """What it is called."""
        return self.adversary.name

    @property
    def title(self) -> str:
        """One line for a table."""
        one = self.adversary
        classes = f" of {one.n_classes} classes" if isinstance(one, MulticlassAdversary) else ""
        return f"{self.rounds:,} rounds{classes} against {self.name}"

    def outcomes(self) -> NDArray[Any]:
        """The outcomes to come, shape (T,); ValueError if they depend on the forecasts."""
        return self.adversary.outcomes(self.rounds)


def from_spec(spec: str, rounds: int, seed: int) -> Opponent[Adversary]:
    """The adversary of a spec; ValueError as from `adversaries.create`."""
    return Opponent(adversaries.create(spec, rounds, seed), rounds)


def from_file(
    path: Path, outcome: str, forecast: str | None, sort: str | None, rounds: int | None
) -> Opponent[Adversary]:
    """The first so many rounds of a file, or all; errors as from `adversaries.replay_file`."""
    stream = adversaries.replay_file(path, outcome, forecast, sort=sort)
    opponent = _from_stream(stream, rounds, f"{forecast} itself")
    outcomes = stream.outcomes[: opponent.rounds]
    remarks = outcome_remarks(outcomes, opponent.hints, outcome, forecast or "")
    return replace(opponent, remarks=remarks)


def from_river(name: str, rounds: int | None) -> Opponent[Adversary]:
    """The first so many rounds of a dataset that comes with river, or all."""
    return _from_stream(adversaries.replay_river(name), rounds, "")


def first_rounds(rounds: int | None, available: int, name: str) -> int:
    """So many of the rounds there are, or all; ValueError if there are fewer."""
    if rounds is not None and rounds > available:
        raise ValueError(f"rounds must be at most the {available} that {name} has, got {rounds}")
    return rounds or available


def _from_stream(stream: Stream, rounds: int | None, hints_name: str) -> Opponent[Adversary]:
    wanted = first_rounds(rounds, len(stream), stream.name)
    hints = None if stream.hints is None else stream.hints[:wanted]
    return Opponent(stream.adversary(), wanted, hints, hints_name)


def several_from_spec(spec: str, n_classes: int, rounds: int, seed: int) -> Opponent[MulticlassAdversary]:
    """The adversary of a spec; ValueError as from `adversaries.create_multiclass`."""
    return Opponent(adversaries.create_multiclass(spec, n_classes, rounds, seed), rounds)


def from_table(path: Path, n_classes: int | None, rounds: int | None) -> Opponent[MulticlassAdversary]:
    """The first so many labels of a file of class probabilities, or all; the probabilities are the hints."""
    if path.suffix.lower() not in TABLES and path.is_file():
        raise ValueError(
            f"class probabilities are read from a numpy archive ({', '.join(TABLES)}) with the arrays "
            f"predictions and ground_truth, got {path}"
        )
    return _from_labels(adversaries.replay_table(path), n_classes, rounds)


def several_from_river(name: str, n_classes: int | None, rounds: int | None) -> Opponent[MulticlassAdversary]:
    """The first so many labels of a dataset that comes with river, or all."""
    return _from_labels(adversaries.replay_river_labels(name), n_classes, rounds)


def _from_labels(
    stream: LabelStream, n_classes: int | None, rounds: int | None
) -> Opponent[MulticlassAdversary]:
    if n_classes is not None and n_classes != stream.n_classes:
        raise ValueError(f"{stream.name} has {stream.n_classes} classes, --classes says {n_classes}")
    wanted = first_rounds(rounds, len(stream), stream.name)
    hints = None if stream.hints is None else stream.hints[:wanted]
    remarks = [] if hints is None else label_remarks(hints, stream.labels[:wanted], stream.classes or None)
    return Opponent(stream.adversary(), wanted, hints, "recorded", remarks)
