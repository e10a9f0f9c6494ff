"""Recorded streams by spec, so that sweeps, two-phase games and mixtures can use them.

They play what `replay_file` and `replay_river` read, without the forecasts and times that may come with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from adversaries.protocol import Build, Kind, Phase
from adversaries.replayed.files import replay_file
from adversaries.replayed.streams import Stream, replay_river, replay_step
from onlinecal.specs import Parameter


def file_phase(values: Mapping[str, Any], horizon: int | None, build: Build) -> tuple[Phase, ...]:
    """The single phase of a file's outcomes; errors as from `replay_file`, or if it has too few rounds."""
    stream = replay_file(values["path"], values["outcome"], sort=values["sort"])
    return _first_rounds(stream, values["path"], horizon)


def river_phase(values: Mapping[str, Any], horizon: int | None, build: Build) -> tuple[Phase, ...]:
    """The single phase of a dataset's labels; errors as from `replay_river`, or if it has too few rounds."""
    return _first_rounds(replay_river(values["name"]), values["name"], horizon)


def _first_rounds(stream: Stream, called: str, horizon: int | None) -> tuple[Phase, ...]:
    rounds = len(stream) if horizon is None else horizon
    if rounds > len(stream):
        raise ValueError(f"{called} has only {len(stream)} rounds, fewer than the horizon of {rounds}")
    return (Phase(replay_step, stream.outcomes[:rounds].astype(np.float64), rounds, "oblivious"),)


KINDS = (
    Kind(
        "file",
        "the outcomes recorded in a CSV, JSON Lines or Parquet file: all, or the first `horizon`",
        "oblivious",
        "the file",
        (
            Parameter("path", None, "the file", form="text", required=True),
            Parameter("outcome", "outcome", "its column of outcomes", form="text"),
            Parameter("sort", None, "its column to order the rounds by", form="text"),
        ),
        compose=file_phase,
    ),
    Kind(
        "river",
        "the labels of a binary dataset that comes with river: all, or the first `horizon`",
        "oblivious",
        "river",
        (Parameter("name", None, "the dataset: Phishing, Bananas, ...", form="text", required=True),),
        compose=river_phase,
    ),
)
