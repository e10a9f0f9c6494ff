"""Sequences that are fixed beforehand: recorded streams, misleading hints, all outcomes of a short game.

The specs `file:path=...` and `river:name=...` play recorded streams in sweeps, two-phase games and mixtures;
the times of a stream are left out there. The state of the adversary that plays a stream is the list of its
outcomes; the round says which one comes, and the step only reads.

A `Stream` has the arrays of its rounds, all of the same length, and nothing here writes to them. The
functions `replay_...` check outcomes and hints and make it; `Stream` itself checks nothing. A file is read
when the adversary is made, and not again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numba.extending import register_jitable
from numpy.typing import ArrayLike, NDArray

from onlinecal.adversaries.protocol import (
    FORECAST_SUM_TOLERANCE,
    Adversary,
    Kind,
    MulticlassAdversary,
    Phase,
    State,
)
from onlinecal.arrays import Floats
from onlinecal.catalogue import Parameter, did_you_mean
from onlinecal.tables.columns import (
    as_numbers,
    check_labels,
    check_outcomes,
    check_probabilities,
    check_same_length,
    refuse,
)
from onlinecal.tables.frames import as_array
from onlinecal.tables.rounds import read_rounds
from onlinecal.validation import check_count, check_number, check_path

BINARY_TASK, SEVERAL_CLASSES_TASK = "Binary classification", "Multi-class classification"
"""River's names of these tasks."""


@register_jitable
def replay_step(state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float) -> int:
    """The recorded outcome of round t; beyond the end, the last one. State: [outcome 0, outcome 1, ...]."""
    return int(state[min(t, len(state) - 1)])


@register_jitable
def replay_label_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """The recorded class of round t; beyond the end, the last one. State: [class 0, class 1, ...]."""
    return int(state[min(t, len(state) - 1)])


REPLAY = Kind("replay", "the outcomes of a recorded stream, in order", "oblivious", "the stream")
"""The kind of replayed streams that are made from data, not from a spec string."""


@dataclass(frozen=True, eq=False)
class Stream:
    """The recorded outcomes of T rounds. The functions `replay_...` make one of checked data.

    Making one yourself checks nothing. `len(stream)` is T.

    Parameters
    ----------
    name
        The origin of the stream, for tables and plots.
    outcomes
        Zeros and ones, uint8, shape (T,); with several classes their numbers from 0, int64.
    hints
        Probabilities that were forecast for these outcomes, which a forecaster may be given before each
        round: float64, shape (T,), or for k classes (T, k) with sum 1 in each row. None: there are none.
    times
        The times of the rounds, as the file has them, shape (T,); None if not asked for. No game looks at
        them.
    n_classes
        k, more than the largest class number; None for outcomes 0 and 1.
    classes
        The names of the classes, in the order of their numbers; empty for outcomes 0 and 1.
    """

    name: str
    outcomes: NDArray[Any]
    hints: NDArray[np.float64] | None = None
    times: NDArray[Any] | None = None
    n_classes: int | None = None
    classes: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return len(self.outcomes)

    def phase(self, rounds: int | None = None) -> Phase:
        """A new `Phase` that plays the first `rounds` outcomes, with their hints; None, or more than T: all.

        Raises ValueError unless `rounds` is None or a whole number from 1 on.
        """
        rounds = None if rounds is None else check_count(rounds, "rounds")
        step = replay_step if self.n_classes is None else replay_label_step
        state = self.outcomes[:rounds].astype(np.float64)
        hints = None if self.hints is None else self.hints[:rounds]
        return Phase(step, state, len(state), "oblivious", hints=hints)

    def adversary(self) -> Any:
        """A new `Adversary`, or with several classes a `MulticlassAdversary`, that plays these outcomes once.

        It looks at no forecast, raises ValueError when it is asked for more than T outcomes, and has the
        hints as its `hints`. Raises ValueError for more than 1000 classes.
        """
        if self.n_classes is None:
            return Adversary(self.name, REPLAY, [self.phase()], horizon=len(self))
        return MulticlassAdversary(self.name, REPLAY, self.n_classes, [self.phase()], horizon=len(self))


def replay_sequence(outcomes: ArrayLike, *, hints: ArrayLike | None = None, name: str = "sequence") -> Stream:
    """A stream of two classes from outcomes in memory.

    Parameters
    ----------
    outcomes
        Zeros and ones or booleans, shape (T,), T >= 1.
    hints
        Probabilities that were forecast for the outcomes, in [0, 1], shape (T,); None for no hints.
    name
        The stream's name.

    Returns
    -------
    Stream
        It has its own copies of the arrays.

    Raises
    ------
    ValueError
        For an empty or wrongly shaped sequence, lengths that differ, an outcome other than 0 and 1, or a hint
        outside [0, 1]; the error names the value and its row, counting from 0.
    """
    played = check_outcomes(outcomes).copy()
    if hints is None:
        return Stream(name, played)
    announced = check_probabilities(hints, "hints").copy()
    check_same_length(played, announced, "outcomes and hints")
    return Stream(name, played, announced)


def replay_file(
    path: str | Path,
    *,
    outcome: str = "outcome",
    forecast: str | None = None,
    time: str | None = None,
    sort: str | None = None,
) -> Stream:
    """A stream of two classes from a file: CSV, JSON Lines, Parquet or numpy's NPZ.

    Parameters
    ----------
    path
        The file; its extension says how to read it: .csv or .tsv; .jsonl, .ndjson or .json, with a JSON
        object a line; these also with .gz behind; .parquet or .pq; or .npz. "-" is standard input. A CSV
        starts with a header; its fields are separated by commas, semicolons, tabs or bars. The columns of an
        NPZ are its arrays.
    outcome
        The column of outcomes: 0 and 1, or booleans (as texts also true/false, yes/no, in any case).
    forecast
        The column of forecasts made for them, in [0, 1], which become the hints; None for no hints.
    time
        A column to keep as the stream's `times`, which does not change the order; None for none.
    sort
        The column to order the rounds by, smallest first; rows that are equal in it keep their order. None:
        the order of the file.

    Returns
    -------
    Stream
        Its `name` is that of the file, with the extension.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        For what is no path, an unknown extension, a file that cannot be read as its extension says, a missing
        column (the columns are listed), no rounds at all, an outcome that is neither 0/1 nor boolean, a
        forecast that is missing or outside [0, 1], or a missing value in the column to sort by. The error
        counts the rows of the file from 0, without the header.
    """
    forecasts, more = ([] if name is None else [name] for name in (forecast, time))
    rounds = read_rounds(check_path(path, "path"), outcome, forecasts, sort=sort, more=more)
    times = None if time is None else rounds.frame[time].to_numpy()
    return Stream(rounds.name, rounds.outcomes, rounds.forecasts.get(forecast or ""), times)


def replay_river(name: str) -> Stream:
    """A stream of the labels of a binary dataset that comes with river, in its order (no download).

    Parameters
    ----------
    name
        The dataset's class name in `river.datasets`, for example "Phishing" or "Bananas".

    Returns
    -------
    Stream
        Of outcomes 0 and 1, called "river:NAME". It has no hints, since the datasets hold features and labels
        only.

    Raises
    ------
    ValueError
        For any other name; the error lists the names that can be used.
    """
    labels = [bool(label) for _, label in river_dataset(name, BINARY_TASK)]
    return replay_sequence(np.array(labels), name=f"river:{name}")


def river_dataset(name: str, *tasks: str) -> Any:
    """A dataset that comes with river for one of these tasks; ValueError lists those there are."""
    usable = river_datasets(*tasks)
    if name not in usable:
        sort = "binary" if tasks == (BINARY_TASK,) else "classification"
        raise ValueError(f"no {sort} dataset {name!r} comes with river{did_you_mean(name, usable, 'Usable')}")
    return usable[name]


def river_datasets(*tasks: str) -> dict[str, Any]:
    """The datasets that come with river for any of these `tasks`: a new dict from class names to objects.

    `tasks` are river's own words: "Binary classification", "Multi-class classification", "Regression". Other
    words, or none, find nothing. No dataset that has to be downloaded is among them.
    """
    from river import datasets
    from river.datasets.base import FileDataset, RemoteDataset

    made = {
        name: thing()
        for name, thing in sorted(vars(datasets).items())
        if isinstance(thing, type) and issubclass(thing, FileDataset) and not issubclass(thing, RemoteDataset)
    }
    return {name: dataset for name, dataset in made.items() if dataset.task in tasks}


def replay_labels(
    labels: ArrayLike, *, n_classes: int | None = None, hints: ArrayLike | None = None, name: str = "labels"
) -> Stream:
    """A stream of several classes from class numbers in memory.

    Parameters
    ----------
    labels
        Class numbers from 0 on, shape (T,), T >= 1.
    n_classes
        k, at least 2. None: as many as the hints have columns, or without hints one more than the largest
        label, at least 2.
    hints
        Class probabilities that were forecast for the labels, shape (T, k). Rows with a sum that differs from
        1 by at most 1e-3, which rounding to float16 or float32 causes, are divided by their sum. None for no
        hints.
    name
        The stream's name.

    Returns
    -------
    Stream
        Of k classes, called 0, ..., k - 1. It has its own copies of the arrays.

    Raises
    ------
    ValueError
        For an n_classes below 2, labels that are not class numbers below k, or hints that are not class
        probabilities for them; the error names the value and its row, counting from 0.
    """
    most = None if n_classes is None else check_count(n_classes, "n_classes", least=2)
    numbers = check_labels(labels, most)
    guide = None if hints is None else _hints(hints, len(numbers))
    k = most or (max(2, int(numbers.max()) + 1) if guide is None else guide.shape[1])
    if guide is not None and guide.shape[1] != k:
        raise ValueError(f"hints must have {k} columns, one for each class, got {guide.shape[1]}")
    return Stream(name, check_labels(numbers, k).copy(), guide, None, k, tuple(range(k)))


def _hints(hints: ArrayLike, rounds: int) -> Floats:
    table = as_array(hints, "hints", "a table", "a table with rows of equal length")
    if table.ndim != 2 or table.shape[0] != rounds or table.shape[1] < 2:
        raise ValueError(f"hints must be probabilities of shape ({rounds}, classes), got shape {table.shape}")
    table = as_numbers(table, "hints must be probabilities")
    sums = table.sum(axis=1)
    bad = ~((table >= 0.0).all(axis=1) & (np.abs(sums - 1.0) <= 1e3 * FORECAST_SUM_TOLERANCE))
    refuse(bad, table, "hints must be probabilities with sum 1")
    return table / sums[:, None]


def replay_river_labels(name: str) -> Stream:
    """A stream of the labels of a classification dataset that comes with river, in its order (no download).

    Returns a `Stream` of k classes without hints, also for two labels. Its `classes` are the labels, sorted;
    the first has the class number 0. `name` is the dataset's class name in `river.datasets`, "ImageSegments"
    for example. Raises ValueError for any other name; the error lists those that can be used.
    """
    labels = [label for _, label in river_dataset(name, BINARY_TASK, SEVERAL_CLASSES_TASK)]
    classes, numbers = np.unique(np.array(labels), return_inverse=True)
    names = tuple(classes.tolist())
    return Stream(f"river:{name}", numbers.astype(np.int64), None, None, len(classes), names)


PROBABILITIES_ARRAY, LABELS_ARRAY = "predictions", "ground_truth"
"""The names of the arrays in a file of class probabilities."""


def replay_table(path: str | Path) -> Stream:
    """A stream of the labels in a file of class probabilities, with the probabilities as hints.

    Parameters
    ----------
    path
        A numpy archive (.npz) with the arrays `predictions`, class probabilities of shape (T, k), and
        `ground_truth`, class numbers from 0 to k - 1 of shape (T,) or (T, 1).

    Returns
    -------
    Stream
        Of k classes. Its name is that of the file, without the extension.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If path is no path, or the file no such archive, if it lacks one of the arrays, or if they are not
        class probabilities and labels.
    """
    path = check_path(path, "path")
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    try:
        with np.load(path) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (BadZipFile, ValueError, TypeError, AttributeError, OSError) as error:
        raise ValueError(
            f"{path} must be a numpy archive (.npz) with the arrays {PROBABILITIES_ARRAY} and {LABELS_ARRAY}"
        ) from error
    for name in (PROBABILITIES_ARRAY, LABELS_ARRAY):
        if name not in arrays:
            raise ValueError(f"{path} must have an array {name!r}; its arrays: {', '.join(arrays) or 'none'}")
    labels = arrays[LABELS_ARRAY]
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(
            f"{path} must have one class number a row in {LABELS_ARRAY!r}, got the shape {labels.shape}"
        )
    return replay_labels(
        labels,
        n_classes=None,
        hints=arrays[PROBABILITIES_ARRAY],
        name=path.stem,
    )


def recorded_phases(
    read: Callable[..., Stream], values: Mapping[str, Any], *size_and_horizon: Any
) -> tuple[Phase, ...]:
    """The phase of the first rounds of the stream that `read(**values)` returns.

    Raises what `read` raises, and ValueError if there are too few rounds or too many classes.
    """
    *size, horizon, _ = size_and_horizon
    stream, origin = read(**values), values.get("path") or values["name"]
    if horizon is not None and horizon > len(stream):
        raise ValueError(
            f"{origin} has only {len(stream)} rounds, and is to play {horizon}: play fewer rounds, or a "
            "longer stream"
        )
    if size and (stream.n_classes or 2) > size[0]:
        raise ValueError(
            f"n_classes must be at least {stream.n_classes}, the classes of {origin}, got {size[0]}"
        )
    return (stream.phase(horizon),)


def _recorded(name: str, what: str, source: str, read: Callable[..., Stream], *parameters: Parameter) -> Kind:
    summary = f"{what}: all, or the first `horizon`"
    return Kind(name, summary, "oblivious", source, parameters, compose=partial(recorded_phases, read))


PATH_PARAMETER = Parameter("path", None, "the file", form="text", required=True)
NAME_PARAMETER = Parameter(
    "name", None, "the dataset: Phishing, ImageSegments, ...", form="text", required=True
)

OUTCOME_PARAMETER = Parameter("outcome", "outcome", "its column of outcomes", form="text")
FORECAST_PARAMETER = Parameter("forecast", None, "its column of forecasts, which become hints", form="text")
SORT_PARAMETER = Parameter("sort", None, "its column to order the rounds by", form="text")

STREAM_KINDS = (
    _recorded(
        "file", "the outcomes recorded in a CSV, JSON Lines or Parquet file", "the file", replay_file,
        PATH_PARAMETER, OUTCOME_PARAMETER, FORECAST_PARAMETER, SORT_PARAMETER,
    ),
    _recorded(
        "river", "the labels of a binary dataset that comes with river", "river", replay_river, NAME_PARAMETER
    ),
)  # fmt: skip
STREAM_KINDS_OF_SEVERAL = (
    _recorded(
        "file", "the labels recorded in a numpy archive, its probabilities as hints", "the file",
        replay_table, PATH_PARAMETER,
    ),
    _recorded(
        "river", "the labels of a dataset that comes with river", "river", replay_river_labels,
        NAME_PARAMETER,
    ),
)  # fmt: skip


def misleading_hints(rounds: int, n_cells: int, slack: float = 1.0) -> Stream:
    """Hints that mislead: calibrated forecasts near them score far worse than the hints themselves.

    They are meant for `AlmostOneStepAhead(n_cells=n_cells, slack=slack, hints=True)`, whatever its `report`.
    It answers with a forecast near the hint that keeps it calibrated. First, hints just above each grid
    point, from the highest down to 1/2, come with outcome 0, until the forecaster may not follow such hints
    any more. Then a hint of 1 followed by outcome 1, and a hint just above 1/2 followed by outcome 0, come in
    turn. To both it answers with about 1/2. So, with a slack of at least 1 - 1/m, its squared errors, summed
    over rounds, exceed those of the hints by at least T/8 - T/m - slack (m/8 + 1/2) - 1/8 (Fact 17a of
    docs/theory.md). With less slack they may not: then it may follow more of the hints.

    Parameters
    ----------
    rounds
        T, at least 1.
    n_cells
        m, the cells of the forecaster's uniform grid of [0, 1], at least 3.
    slack
        The `slack` of that forecaster, from 0.5 to 1000.

    Returns
    -------
    Stream
        It has T rounds of outcomes 0 and 1, with hints. Its first part takes at most
        `slack * n_cells` rounds, with slack 1 about half of that.

    Raises
    ------
    ValueError
        For arguments outside these ranges.

    Examples
    --------
    >>> stream = misleading_hints(6, n_cells=4)
    >>> stream.hints, stream.outcomes
    (array([0.8125, 0.5625, 0.5625, 1.    , 0.5625, 1.    ]), array([0, 0, 0, 1, 0, 1], dtype=uint8))
    """
    rounds = check_count(rounds, "rounds")
    n_cells = check_count(n_cells, "n_cells", least=3)
    check_number(slack, "slack", 0.5, 1000.0)
    middle = (n_cells + 1) // 2
    most = math.floor(slack * n_cells)
    hints = [
        (point + 0.25) / n_cells for point in range(n_cells - 1, middle - 1, -1) for _ in range(most // point)
    ][:rounds]
    outcomes = [0] * len(hints)
    for t in range(rounds - len(hints)):
        hints.append((middle + 0.25) / n_cells if t % 2 else 1.0)
        outcomes.append(1 - t % 2)
    return replay_sequence(outcomes, hints=hints, name="misleading hints")


LARGEST_T_AT_ONCE = 20
LARGEST_T = 62


def all_sequences(T: int) -> NDArray[np.uint8]:
    """Every sequence of T outcomes 0 and 1, in the order of the binary numbers they spell.

    Parameters
    ----------
    T
        The number of rounds, 1 to 20 (20 rounds take 20 MB; `sequence_chunks` goes further).

    Returns
    -------
    NDArray[np.uint8]
        An array of shape (2**T, T); row i is i in binary, with the first round in front.

    Raises
    ------
    ValueError
        For any other T.

    Examples
    --------
    >>> all_sequences(2)
    array([[0, 0],
           [0, 1],
           [1, 0],
           [1, 1]], dtype=uint8)
    """
    T = check_count(T, "T")
    if T > LARGEST_T_AT_ONCE:
        raise ValueError(
            f"T must be at most {LARGEST_T_AT_ONCE}, got {T}: sequence_chunks makes longer ones, part by part"
        )
    return next(sequence_chunks(T, 2**T))


def sequence_chunks(T: int, chunk: int = 1 << 16) -> Iterator[NDArray[np.uint8]]:
    """Every sequence of T outcomes 0 and 1, in the order of the binary numbers they spell, part by part.

    Parameters
    ----------
    T
        The number of rounds, 1 to 62.
    chunk
        The number of rows in each array, at least 1.

    Returns
    -------
    Iterator[NDArray[np.uint8]]
        New uint8 arrays of shape (chunk, T), a row a sequence; the last one may have fewer rows.

    Raises
    ------
    ValueError
        For T or chunk outside these ranges: at once, before the first array is asked for.
    """
    T, chunk = check_count(T, "T"), check_count(chunk, "chunk")
    if T > LARGEST_T:
        raise ValueError(f"T must be at most {LARGEST_T}, got {T}")
    return (_rows(first, min(first + chunk, 2**T), T) for first in range(0, 2**T, chunk))


def _rows(first: int, last: int, T: int) -> NDArray[np.uint8]:
    numbers = np.arange(first, last, dtype=np.int64)
    sequences = np.empty((last - first, T), dtype=np.uint8)
    for t in range(T):
        sequences[:, t] = (numbers >> (T - 1 - t)) & 1
    return sequences
