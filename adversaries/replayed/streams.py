"""Real streams as adversaries: recorded outcomes, with the forecasts someone made for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba.extending import register_jitable
from numpy.typing import ArrayLike, NDArray

from adversaries.adversary import Adversary
from adversaries.protocol import Kind, Phase, State
from onlinecal.catalogue import did_you_mean
from onlinecal.validation import check_outcomes, check_probabilities, check_same_length

BINARY, SEVERAL = "Binary classification", "Multi-class classification"
"""What river calls its tasks."""


@register_jitable
def replay_step(state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float) -> int:
    """The recorded outcome of round t; beyond the end, the last one. State: [outcome 0, outcome 1, ...]."""
    return int(state[min(t, len(state) - 1)])


REPLAY = Kind(
    "replay", "the outcomes of a recorded stream, in order", "oblivious", "the stream", step=replay_step
)
"""The kind of replayed streams. Made from data, not from a spec string, they are not in the catalogue."""


@dataclass(frozen=True, eq=False)
class Stream:
    """A recorded stream of T rounds.

    Parameters
    ----------
    name
        Where it comes from, for tables and plots.
    outcomes
        Zeros and ones, uint8, shape (T,).
    hints
        Probabilities that were forecast for these outcomes, float64, shape (T,); None if there are none.
    times
        When the rounds took place, as the file has it, shape (T,); None if not asked for.
    """

    name: str
    outcomes: NDArray[np.uint8]
    hints: NDArray[np.float64] | None = None
    times: NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.outcomes)

    def adversary(self) -> Adversary:
        """An oblivious adversary that plays these outcomes once, in one phase of T rounds."""
        phase = Phase(replay_step, self.outcomes.astype(np.float64), rounds=len(self), power="oblivious")
        return Adversary(self.name, REPLAY, [phase], horizon=len(self))


def replay_sequence(outcomes: ArrayLike, hints: ArrayLike | None = None, name: str = "sequence") -> Stream:
    """A stream from outcomes in memory.

    Parameters
    ----------
    outcomes
        Zeros and ones or booleans, shape (T,), T >= 1.
    hints
        Probabilities in [0, 1], shape (T,), or None.
    name
        The stream's name.

    Returns
    -------
    Stream
        With its own copies.

    Raises
    ------
    ValueError
        For an empty or wrongly shaped sequence, an outcome other than 0 and 1, or a hint outside [0, 1]; it
        names the value and its row, counting from 0.
    """
    played = check_outcomes(outcomes).copy()
    if hints is None:
        return Stream(name, played)
    announced = check_probabilities(hints, "hints").copy()
    check_same_length(played, announced, "outcomes and hints")
    return Stream(name, played, announced)


def replay_river(name: str) -> Stream:
    """The labels of a binary dataset that comes with river, in its order (no download).

    Parameters
    ----------
    name
        The dataset's class name in `river.datasets`, for example "Phishing" or "Bananas".

    Returns
    -------
    Stream
        Without hints: the datasets hold features and labels only.

    Raises
    ------
    ValueError
        For any other name; it lists those that can be used.
    """
    labels = [bool(label) for _, label in river_dataset(name, BINARY)]
    return replay_sequence(np.array(labels), name=f"river:{name}")


def river_dataset(name: str, *tasks: str) -> Any:
    """A dataset that comes with river for one of these tasks; ValueError lists those there are."""
    usable = river_datasets(*tasks)
    if name not in usable:
        sort = "binary" if tasks == (BINARY,) else "classification"
        raise ValueError(f"no {sort} dataset {name!r} comes with river{did_you_mean(name, usable, 'Usable')}")
    return usable[name]


def river_datasets(*tasks: str) -> dict[str, Any]:
    """The datasets that come with river for these of its `tasks` ("Binary classification", ...), by name."""
    from river import datasets
    from river.datasets.base import FileDataset, RemoteDataset

    found = {}
    for name, thing in sorted(vars(datasets).items()):
        if (
            isinstance(thing, type)
            and issubclass(thing, FileDataset)
            and not issubclass(thing, RemoteDataset)
        ):
            dataset = thing()
            if dataset.task in tasks:
                found[name] = dataset
    return found
