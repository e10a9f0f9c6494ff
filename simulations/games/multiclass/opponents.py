"""Whom a forecaster of several classes is to play: an adversary of the catalogue, or recorded labels."""

from __future__ import annotations

from pathlib import Path

import adversaries
from adversaries import LabelStream, MulticlassAdversary
from onlinecal.remarks import label_remarks
from simulations.games.opponents import Opponent, first_rounds

TABLES = (".npz",)
"""Extensions of files of class probabilities."""


def from_spec(spec: str, n_classes: int, rounds: int, seed: int) -> Opponent[MulticlassAdversary]:
    """The adversary of a spec; ValueError as from `adversaries.create_multiclass`."""
    return Opponent(adversaries.create_multiclass(spec, n_classes, rounds, seed), rounds)


def from_table(path: Path, n_classes: int | None, rounds: int | None) -> Opponent[MulticlassAdversary]:
    """The first so many labels of a file of class probabilities, or all; the probabilities are the hints."""
    if path.suffix.lower() not in TABLES and path.is_file():
        raise ValueError(
            f"class probabilities are read from a numpy archive ({', '.join(TABLES)}) with the arrays "
            f"predictions and ground_truth, got {path}"
        )
    return _from_stream(adversaries.replay_table(path), n_classes, rounds)


def from_river(name: str, n_classes: int | None, rounds: int | None) -> Opponent[MulticlassAdversary]:
    """The first so many labels of a dataset that comes with river, or all."""
    return _from_stream(adversaries.replay_river_labels(name), n_classes, rounds)


def _from_stream(
    stream: LabelStream, n_classes: int | None, rounds: int | None
) -> Opponent[MulticlassAdversary]:
    if n_classes is not None and n_classes != stream.n_classes:
        raise ValueError(f"{stream.name} has {stream.n_classes} classes, --classes says {n_classes}")
    wanted = first_rounds(rounds, len(stream), stream.name)
    hints = None if stream.hints is None else stream.hints[:wanted]
    remarks = [] if hints is None else label_remarks(hints, stream.labels[:wanted], stream.classes or None)
    return Opponent(stream.adversary(), wanted, hints, "recorded", remarks)
