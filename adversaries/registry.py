"""The catalogues: adversaries of two classes or more by name, and the way from a spec to a player."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, TypeVar
from zipfile import BadZipFile

import numpy as np
from numba.extending import register_jitable
from numpy.typing import ArrayLike, NDArray

from adversaries import streams
from adversaries.kinds import adaptive, oblivious
from adversaries.kinds.genome import CHAMPION, GENOME
from adversaries.kinds.mixture import MIXTURE, TWO_PHASE, two_phases
from adversaries.multiclass import kinds
from adversaries.protocol import (
    MOST_CLASSES,
    MOST_ROUNDS,
    POWERS,
    SUM_TOLERANCE,
    Adversary,
    AnyKind,
    Build,
    Kind,
    MulticlassAdversary,
    MulticlassKind,
    Phase,
    Seed,
    State,
)
from adversaries.streams import BINARY, SEVERAL, river_dataset
from onlinecal.arrays import Floats
from onlinecal.catalogue import Catalogue, Parameter
from onlinecal.validation import check_count, check_labels, refuse

K = TypeVar("K", bound=AnyKind)


class Row(TypedDict):
    """What `describe` says about one adversary."""

    name: str
    power: str
    parameters: str
    needs_horizon: bool
    summary: str
    source: str


class Kinds(Catalogue[K]):
    """Kinds of adversaries by name: the library's sorted by power, then those registered."""

    def __init__(self, noun: str, own: Iterable[K]) -> None:
        super().__init__(noun, sorted(own, key=lambda kind: POWERS.index(kind.power)))

    def rows(self) -> list[Row]:
        """One row per kind for a table."""
        return [
            Row(
                name=kind.name,
                power=kind.power,
                parameters=kind.settings_text,
                needs_horizon=kind.needs_horizon,
                summary=kind.summary,
                source=kind.source,
            )
            for kind in self.entries.values()
        ]

    def add(self, entry: K) -> None:
        """Enter a kind of one's own; ValueError if it cannot be played or its name belongs to another."""
        for part in ("step", "initial") if entry.compose is None else ("compose",):
            if not callable(getattr(entry, part)):
                raise ValueError(f"{entry.name}: {part} must be callable, got {getattr(entry, part)!r}")
        if entry.power not in POWERS:
            raise ValueError(f"{entry.name}: power must be one of {', '.join(POWERS)}, got {entry.power!r}")
        for name in (entry.depth_parameter, entry.horizon_unless):
            if name is not None:
                entry.parameter(name)
        super().add(entry)

    def phases(
        self, kind: K, values: Mapping[str, Any], size: tuple[int, ...], horizon: int | None
    ) -> tuple[Phase, ...]:
        """The phases of a kind with these parameter values; `size` is (), or (number of classes,)."""
        kind.check_horizon(values, horizon)
        if kind.compose is not None:

            def build(spec: str, rounds: int | None) -> tuple[Phase, ...]:
                return self.phases(*self.read(spec), size, rounds)

            return kind.compose(values, *size, horizon, build)
        assert kind.step is not None
        assert kind.initial is not None
        depth = 1 if kind.depth_parameter is None else values[kind.depth_parameter]
        return (Phase(kind.step, kind.initial(values, *size, horizon), power=kind.power, depth=depth),)


_CATALOGUE: Kinds[Kind] = Kinds(
    "adversary",
    (
        *oblivious.KINDS,
        *adaptive.EPOCH_KINDS,
        GENOME,
        CHAMPION,
        *streams.KINDS,
        *adaptive.KINDS,
        *adaptive.INTERNAL,
        TWO_PHASE,
        MIXTURE,
    ),
)


def catalogue() -> dict[str, Kind]:
    """Every kind of adversary by name: the library's, the oblivious ones first, then those registered."""
    return dict(_CATALOGUE.entries)


def describe() -> list[Row]:
    """One row per adversary for a table: name, power, parameters with defaults, summary and source."""
    return _CATALOGUE.rows()


def register(kind: Kind) -> None:
    """Enter an adversary of one's own in the catalogue: `create`, `describe` and `catalogue` then know it.

    Registering again what has the same name and a step (or `compose`) of the same module and name replaces
    the earlier kind, so that a module may be reloaded and a notebook cell run twice. The names of the
    library's own adversaries cannot be taken.

    Parameters
    ----------
    kind
        Its step has to be decorated with `numba.extending.register_jitable` to be played by compiled loops,
        and to stand at the top level of a module to be pickled.

    Raises
    ------
    ValueError
        If the name is not in kebab-case or belongs to somebody else, if the power is none of the four, if
        there is neither a step with an `initial` nor a `compose` that can be called, or if `depth_parameter`
        or `horizon_unless` names no parameter.
    """
    if not isinstance(kind, Kind):
        raise ValueError(f"only a Kind can be registered, got {kind!r}")
    _CATALOGUE.add(kind)


def create(spec: str, horizon: int | None = None, seed: Seed = 0) -> Adversary:
    """Make the adversary that a spec string describes.

    Parameters
    ----------
    spec
        A name, or a name with settings: "coin", "coin:bias=0.7", "two-phase:first=coin,second=threshold". A
        setting with commas in it (a spec, a path) goes in square brackets.
    horizon
        The number of rounds to be played, at least 1. Some adversaries cannot do without it.
    seed
        A seed of `numpy.random.default_rng`, but not None. Equal specs, horizons and seeds make identical
        adversaries.

    Returns
    -------
    Adversary
        Before its round 0. Its `name` is the spec in canonical form: the settings that differ from the
        defaults, in the catalogue's order.

    Raises
    ------
    ValueError
        For an unknown name, an unknown or repeated parameter, a value that is not allowed, settings that do
        not go together, a missing or impossible horizon, or an unusable seed.
    FileNotFoundError
        If a spec names a file that is not there.

    Examples
    --------
    >>> create("coin:bias=0.70", seed=1).name
    'coin:bias=0.7'
    >>> create("alternating").outcomes(6)
    array([0, 1, 0, 1, 0, 1], dtype=uint8)
    """
    kind, values = _CATALOGUE.read(spec)
    rounds = None if horizon is None else check_count(horizon, "horizon")
    return Adversary(kind.spec_of(values), kind, _CATALOGUE.phases(kind, values, (), rounds), seed, rounds)


PROBABILITIES, LABELS = "predictions", "ground_truth"
"""The arrays of a file of class probabilities."""


@register_jitable
def replay_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """The recorded class of round t; beyond the end, the last one. State: [class 0, class 1, ...]."""
    return int(state[min(t, len(state) - 1)])


REPLAY = MulticlassKind("replay", "recorded labels, in order", "oblivious", "the stream", step=replay_step)
"""The kind of replayed labels; made from data, they are not in the catalogue."""


@dataclass(frozen=True, eq=False)
class LabelStream:
    """Recorded labels of T rounds.

    Parameters
    ----------
    name
        Where they come from, for tables and plots.
    labels
        Class numbers, int64, shape (T,).
    n_classes
        k, more than the largest label.
    hints
        Class probabilities that were forecast for them, shape (T, k), each row with sum 1; None for none.
    classes
        What the classes are called, in the order of their numbers.
    """

    name: str
    labels: NDArray[np.int64]
    n_classes: int
    hints: Floats | None = None
    classes: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    def adversary(self) -> MulticlassAdversary:
        """An oblivious adversary that plays these labels once."""
        phase = replay_phase(self.labels)
        return MulticlassAdversary(self.name, REPLAY, self.n_classes, [phase], horizon=len(self))


def replay_phase(labels: NDArray[np.int64]) -> Phase:
    """One phase of these labels."""
    return Phase(replay_step, labels.astype(np.float64), rounds=len(labels), power="oblivious")


def replay_labels(
    labels: ArrayLike, n_classes: int | None = None, hints: ArrayLike | None = None, name: str = "labels"
) -> LabelStream:
    """A stream from class numbers in memory.

    Parameters
    ----------
    labels
        Class numbers from 0 on, shape (T,), T >= 1.
    n_classes
        k; None: as many as the hints have, or one more than the largest label, at least 2.
    hints
        Class probabilities, shape (T, k). Sums that rounding took from 1, by at most 1e-3 as in float16 or
        float32 tables, are brought back to 1. None for no hints.
    name
        The stream's name.

    Raises
    ------
    ValueError
        For labels that are no class numbers, or hints that are no class probabilities for them; the message
        names the value and its row, counting from 0.
    """
    numbers = np.asarray(labels)
    if numbers.ndim != 1 or numbers.size == 0 or numbers.dtype.kind not in "iu":
        raise ValueError(
            f"labels must be class numbers in a row, at least one, got {numbers.dtype}, shape {numbers.shape}"
        )
    guide = None if hints is None else _hints(hints, len(numbers))
    k = n_classes or (max(2, int(numbers.max()) + 1) if guide is None else guide.shape[1])
    if guide is not None and guide.shape[1] != k:
        raise ValueError(f"hints must have {k} columns, one for each class, got {guide.shape[1]}")
    return LabelStream(name, check_labels(numbers, k).copy(), k, guide, tuple(range(k)))


def replay_river_labels(name: str) -> LabelStream:
    """The labels of a classification dataset that comes with river, in its order (no download).

    Classes are numbered in the order of their labels. ValueError for any other `name`.
    """
    labels = [label for _, label in river_dataset(name, BINARY, SEVERAL)]
    classes, numbers = np.unique(np.array(labels), return_inverse=True)
    return LabelStream(f"river:{name}", numbers.astype(np.int64), len(classes), None, tuple(classes.tolist()))


def replay_table(path: str | Path) -> LabelStream:
    """The labels of a file of class probabilities, with the probabilities as hints.

    Parameters
    ----------
    path
        A numpy archive (.npz) with the arrays `predictions`, shape (T, k), and `ground_truth`, shape (T,).

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no such archive, lacks one of the arrays, or they are not class probabilities and labels.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    try:
        with np.load(path) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (BadZipFile, ValueError, TypeError, AttributeError, OSError) as error:
        raise ValueError(f"{path} is not a numpy archive (.npz) of arrays") from error
    for name in (PROBABILITIES, LABELS):
        if name not in arrays:
            raise ValueError(f"{path} has no array {name!r}; it has {', '.join(arrays) or 'none'}")
    labels = arrays[LABELS]
    return replay_labels(labels.reshape(len(labels), -1)[:, 0], None, arrays[PROBABILITIES], path.stem)


def _hints(hints: ArrayLike, rounds: int) -> Floats:
    table = np.asarray(hints)
    if table.ndim != 2 or table.shape[0] != rounds or table.shape[1] < 2 or table.dtype.kind not in "iuf":
        raise ValueError(f"hints must be probabilities of shape ({rounds}, classes), got shape {table.shape}")
    table = table.astype(np.float64)
    sums = table.sum(axis=1)
    bad = ~((table >= 0.0).all(axis=1) & (np.abs(sums - 1.0) <= 1e3 * SUM_TOLERANCE))
    refuse(bad, table, "hints must be probabilities with sum 1")
    return table / sums[:, None]


def _phases(stream: LabelStream, called: str, n_classes: int, horizon: int | None) -> tuple[Phase, ...]:
    rounds = len(stream) if horizon is None else horizon
    if rounds > len(stream):
        raise ValueError(f"{called} has only {len(stream)} rounds, fewer than the horizon of {rounds}")
    if stream.n_classes > n_classes:
        raise ValueError(f"{called} has {stream.n_classes} classes, more than n_classes, {n_classes}")
    return (replay_phase(stream.labels[:rounds]),)


def river_phases(
    values: Mapping[str, Any], n_classes: int, horizon: int | None, build: Build
) -> tuple[Phase, ...]:
    """The labels of a dataset that comes with river."""
    return _phases(replay_river_labels(values["name"]), values["name"], n_classes, horizon)


def file_phases(
    values: Mapping[str, Any], n_classes: int, horizon: int | None, build: Build
) -> tuple[Phase, ...]:
    """The labels of a file of class probabilities."""
    return _phases(replay_table(values["path"]), values["path"], n_classes, horizon)


RECORDED = (
    MulticlassKind(
        "file",
        "the labels recorded in a numpy archive: all, or the first `horizon`",
        "oblivious",
        "the file",
        (Parameter("path", None, "the file", form="text", required=True),),
        compose=file_phases,
    ),
    MulticlassKind(
        "river",
        "the labels of a dataset that comes with river: all, or the first `horizon`",
        "oblivious",
        "river",
        (Parameter("name", None, "the dataset: ImageSegments, Phishing, ...", form="text", required=True),),
        compose=river_phases,
    ),
)


def two_multiclass_phases(
    values: Mapping[str, Any], n_classes: int, horizon: int | None, build: Build
) -> tuple[Phase, ...]:
    """The phases of both players, see `adversaries.kinds.mixture.two_phases`."""
    return two_phases(values, horizon, build)


TWO_PHASES_OF_CLASSES = MulticlassKind(
    "two-phase",
    "one adversary first, another from half way (or from round `switch`) on",
    "mixed",
    "this library",
    (
        Parameter("first", "uniform", "who plays first", form="adversary"),
        Parameter("second", "least-likely", "who takes over", form="adversary"),
        Parameter(
            "switch", None, "rounds the first one plays, instead of half", 1, MOST_ROUNDS, form="whole"
        ),
    ),
    compose=two_multiclass_phases,
    needs_horizon=True,
    horizon_unless="switch",
)

_OF_CLASSES: Kinds[MulticlassKind] = Kinds(
    "adversary of several classes", (*kinds.OBLIVIOUS, *RECORDED, *kinds.ADAPTIVE, TWO_PHASES_OF_CLASSES)
)


def multiclass_catalogue() -> dict[str, MulticlassKind]:
    """Every kind of adversary of several classes by name, the oblivious ones first."""
    return dict(_OF_CLASSES.entries)


def describe_multiclass() -> list[Row]:
    """One row per adversary of several classes, as `adversaries.describe`."""
    return _OF_CLASSES.rows()


def create_multiclass(
    spec: str, n_classes: int, horizon: int | None = None, seed: Seed = 0
) -> MulticlassAdversary:
    """Make the adversary of k classes that a spec string describes.

    Parameters
    ----------
    spec
        A name, or a name with settings: "uniform", "markov:stay=0.7", "weights:shares=[5,3,2]".
    n_classes
        k, from 2 to 1000.
    horizon
        The number of rounds to be played, at least 1. Some adversaries cannot do without it.
    seed
        A seed of `numpy.random.default_rng`, but not None.

    Raises
    ------
    ValueError
        For an unknown name, a setting that is not allowed or does not go with the number of classes, a
        missing or impossible horizon, or an unusable seed.
    FileNotFoundError
        If a spec names a file that is not there.

    Examples
    --------
    >>> create_multiclass("rotating:length=2", n_classes=3).outcomes(8)
    array([0, 0, 1, 1, 2, 2, 0, 0])
    """
    kind, values = _OF_CLASSES.read(spec)
    k = check_count(n_classes, "n_classes", most=MOST_CLASSES, least=2)
    rounds = None if horizon is None else check_count(horizon, "horizon")
    phases = _OF_CLASSES.phases(kind, values, (k,), rounds)
    return MulticlassAdversary(kind.spec_of(values), kind, k, phases, seed, rounds)
