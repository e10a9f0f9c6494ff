"""The catalogues of adversaries of two classes, and of several: from names and spec strings to players.

The library's own entries are fixed; `register` adds kinds of one's own to the catalogue of two classes.

The two catalogues are the one state here, and each process has its own. They are made when this module is
imported, of the lists in which `protocol.plays` has entered steps, and of the kinds named below. Later
`register` alone adds to the one of two classes, or replaces a kind of one's own. A `Kind` never changes, and
an adversary that was made does not look at a catalogue any more. Names, parameters and defaults are written
into specs, which name games in the results of sweeps: a kind or parameter that is renamed is another one
there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from onlinecal.adversaries import streams
from onlinecal.adversaries.kinds import binary, several
from onlinecal.adversaries.kinds.genome import CHAMPION, GENOME
from onlinecal.adversaries.kinds.mixture import MIXTURE, two_phase
from onlinecal.adversaries.protocol import (
    MOST_ADVERSARY_CLASSES,
    POWERS,
    Adversary,
    Kind,
    MulticlassAdversary,
    Phase,
    Seed,
)
from onlinecal.catalogue import Catalogue, Parameter
from onlinecal.texts import shown
from onlinecal.validation import check_count


class Row(TypedDict):
    """A dict about one adversary of a catalogue, as `describe` and `describe_multiclass` return them.

    Its keys are name; power, how much the adversary looks at; parameters, a text of their names and defaults
    such as "bias=0.5", empty without any; needs_horizon, whether with these defaults `create` must be told
    the number of rounds; summary, which outcomes it plays; and source, where it comes from.
    """

    name: str
    power: str
    parameters: str
    needs_horizon: bool
    summary: str
    source: str


class KindCatalogue(Catalogue[Kind]):
    """Kinds of adversaries by name: the library's, sorted by power, and after them registered ones."""

    def __init__(self, noun: str, own: Iterable[Kind]) -> None:
        super().__init__(noun, sorted(own, key=lambda kind: POWERS.index(kind.power)))

    def rows(self) -> list[Row]:
        """A row for each kind, for a table."""
        return [
            Row(
                name=kind.name, power=kind.power, parameters=kind._settings_text,
                needs_horizon=kind.needs_horizon, summary=kind.summary, source=kind.source,
            )
            for kind in self.entries.values()
        ]  # fmt: skip

    def add(self, entry: Kind) -> None:
        """Add a kind of one's own; ValueError if it cannot be played or its name belongs to another."""
        for part in ("step" if entry.compose is None else "compose", "initial"):
            function = getattr(entry, part)
            if not callable(function) and (part != "initial" or function is not None):
                raise ValueError(f"{entry.name}: {part} must be callable, got {function!r}")
        given = entry.parameters
        if not isinstance(given, (tuple, list)) or not all(isinstance(one, Parameter) for one in given):
            raise ValueError(f"{entry.name}: parameters must be a tuple of Parameter, got {shown(given)}")
        if entry.power not in POWERS:
            raise ValueError(f"{entry.name}: power must be one of {', '.join(POWERS)}, got {entry.power!r}")
        for name in (entry.depth_parameter, entry.horizon_unless):
            if name is not None:
                entry._parameter(name)
        super().add(entry)

    def phases(
        self, kind: Kind, values: Mapping[str, Any], size: tuple[int, ...], horizon: int | None
    ) -> tuple[Phase, ...]:
        """The phases of a kind with these parameter values; `size` is (), or (number of classes,)."""
        kind._check_horizon(values, horizon)
        if kind.compose is not None:

            def build(spec: str, rounds: int | None) -> tuple[Phase, ...]:
                return self.phases(*self.read(spec), size, rounds)

            return kind.compose(values, *size, horizon, build)
        assert kind.step is not None
        depth = 1 if kind.depth_parameter is None else values[kind.depth_parameter]
        if kind.initial is None:
            state = np.array([*values.values()], dtype=np.float64)
        else:
            state = kind.initial(values, *size, horizon)
        return (Phase(kind.step, state, power=kind.power, depth=depth),)


COMPOSED = two_phase("coin", "threshold"), MIXTURE
_TWO_CLASSES = KindCatalogue(
    "adversary", (*binary.TWO_CLASS_KINDS, GENOME, CHAMPION, *streams.STREAM_KINDS, *COMPOSED)
)


def catalogue() -> dict[str, Kind]:
    """Every `Kind` of adversary of two classes, by name: the library's, then those registered.

    The library's are in the order of their power, the oblivious ones first. It is a new dict: changing it
    does not change what `create` knows.
    """
    return dict(_TWO_CLASSES.entries)


def describe() -> list[Row]:
    """A row for each adversary of two classes, for a table, in the order of `catalogue`.

    Returns a new list of dicts with the keys name, power (how much it looks at), parameters (a text of their
    names and defaults), needs_horizon (whether with these defaults `create` must be told the number of
    rounds), summary and source.
    """
    return _TWO_CLASSES.rows()


def register(kind: Kind) -> None:
    """Add an adversary of one's own to the catalogue, so that `create`, `describe` and `catalogue` know it.

    It has two classes, and only this process knows it. A kind replaces an earlier one of the same name if the
    step (or `compose`) of both was defined in the same module under the same name; so a module may be
    reloaded and a notebook cell run twice. The names of the library's own adversaries cannot be taken.

    Parameters
    ----------
    kind
        Its step has to be decorated with `numba.extending.register_jitable` to be played by compiled loops,
        and to stand at the top level of a module to be pickled.

    Raises
    ------
    ValueError
        If it is no `Kind`, if the name is not in kebab-case or belongs to another kind, if the power is not
        "oblivious", "adaptive", "internal" or "mixed", if the parameters are no tuple of `Parameter`, if
        there is neither a step nor a `compose` that can be called, if `initial` can neither be called nor is
        None, or if `depth_parameter` or `horizon_unless` names no parameter.
    """
    if not isinstance(kind, Kind):
        raise ValueError(f"kind must be a Kind, got {kind!r}")
    _TWO_CLASSES.add(kind)


def create(spec: str, horizon: int | None = None, *, seed: Seed = 0) -> Adversary:
    """Make the adversary that a spec string describes.

    Parameters
    ----------
    spec
        A name, or a name with settings: "coin", "coin:bias=0.7", "two-phase:first=coin,second=threshold". A
        setting with commas in it (a spec, a path) goes in square brackets.
    horizon
        The number of rounds to be played, at least 1. Where `describe` says needs_horizon, it has to be
        given, unless a setting takes its place: switch of two-phase, spacing of change-points, cells of
        bias-lifter. Recorded streams (file, river) end there, or with None after their last row, and so does
        what is composed of them if it ends with one (a mixture: if either player is one); all others play on.
        None: it is not known.
    seed
        An integer or a sequence of integers, none negative, or a `numpy.random.SeedSequence`. Equal specs,
        horizons and seeds make identical adversaries.

    Returns
    -------
    Adversary
        It stands before its round 0. Its `name` is the spec in canonical form: the settings that differ from
        the defaults, in the catalogue's order.

    Raises
    ------
    ValueError
        For an unknown name, an unknown or repeated parameter, a value that is not allowed, settings that do
        not go together, a missing or impossible horizon, or any other seed, None and generators among them.
    FileNotFoundError
        If a spec names a file that is not there.

    Examples
    --------
    >>> create("coin:bias=0.70", seed=1).name
    'coin:bias=0.7'
    >>> create("alternating").outcomes(6)
    array([0, 1, 0, 1, 0, 1], dtype=uint8)
    """
    kind, values = _TWO_CLASSES.read(spec)
    rounds = None if horizon is None else check_count(horizon, "horizon")
    return Adversary(kind._spec_of(values), kind, _TWO_CLASSES.phases(kind, values, (), rounds), seed, rounds)


def recorded_files(spec: str) -> list[Path]:
    """The files whose rows a spec's adversary plays, its players' included; raises as `create`."""
    kind, values = _TWO_CLASSES.read(spec)
    inner = (values[parameter.name] for parameter in kind.parameters if parameter.form == "adversary")
    own = [Path(values["path"])] if kind.name == "file" else []
    return [*own, *(path for player in inner for path in recorded_files(player))]


_SEVERAL_CLASSES = KindCatalogue(
    "adversary of several classes",
    (*several.SEVERAL_CLASS_KINDS, *streams.STREAM_KINDS_OF_SEVERAL, two_phase("uniform", "least-likely")),
)


def multiclass_catalogue() -> dict[str, Kind]:
    """Every `Kind` of adversary of several classes by name, the oblivious ones first.

    It is a new dict: changing it does not change what `create_multiclass` knows.
    """
    return dict(_SEVERAL_CLASSES.entries)


def describe_multiclass() -> list[Row]:
    """A row for each adversary of several classes, for a table, in the order of `multiclass_catalogue`.

    Returns a new list of dicts with the keys name, power (how much it looks at), parameters (a text of their
    names and defaults), needs_horizon (whether with these defaults `create_multiclass` must be told the
    number of rounds), summary and source.
    """
    return _SEVERAL_CLASSES.rows()


def create_multiclass(
    spec: str, n_classes: int, horizon: int | None = None, *, seed: Seed = 0
) -> MulticlassAdversary:
    """Make the adversary of k classes that a spec string describes.

    Parameters
    ----------
    spec
        A name, or a name with settings: "uniform", "markov:stay=0.7", "weights:shares=[5,3,2]".
    n_classes
        k, from 2 to 1000.
    horizon
        The number of rounds to be played, at least 1. Where `describe_multiclass` says needs_horizon, it has
        to be given, unless a setting takes its place: spacing of dirichlet-drift, start of late-class, switch
        of two-phase. Recorded streams (file, river) end there, or with None after their last row, and so does
        what is composed of them if it ends with one; all others play on. None: it is not known.
    seed
        An integer or a sequence of integers, none negative, or a `numpy.random.SeedSequence`. Equal specs,
        numbers of classes, horizons and seeds make identical adversaries.

    Returns
    -------
    MulticlassAdversary
        It stands before its round 0. Its `name` is the spec in canonical form: the settings that differ from
        the defaults, in the catalogue's order.

    Raises
    ------
    ValueError
        For an unknown name, a setting that is not allowed or does not go with the number of classes, an
        n_classes that is not from 2 to 1000, a missing or impossible horizon, or any other seed, None and
        generators among them.
    FileNotFoundError
        If a spec names a file that is not there.

    Examples
    --------
    >>> create_multiclass("rotating:length=2", n_classes=3).outcomes(8)
    array([0, 0, 1, 1, 2, 2, 0, 0])
    """
    kind, values = _SEVERAL_CLASSES.read(spec)
    k = check_count(n_classes, "n_classes", most=MOST_ADVERSARY_CLASSES, least=2)
    rounds = None if horizon is None else check_count(horizon, "horizon")
    phases = _SEVERAL_CLASSES.phases(kind, values, (k,), rounds)
    return MulticlassAdversary(kind._spec_of(values), kind, k, phases, seed, rounds)
