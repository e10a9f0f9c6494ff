"""The catalogue of adversaries of several classes, and the way from a spec string to a player."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from adversaries.cards import Catalogue, Row, canonical
from adversaries.kinds.mixed import two_phases
from adversaries.multiclass import adaptive, oblivious, streams
from adversaries.multiclass.adversary import MulticlassAdversary
from adversaries.multiclass.protocol import MOST_CLASSES, MOST_ROUNDS, MulticlassKind
from adversaries.phased import Seed, check_rounds
from adversaries.protocol import Build, Parameter, Phase


def two_multiclass_phases(
    values: Mapping[str, Any], n_classes: int, horizon: int | None, build: Build
) -> tuple[Phase, ...]:
    """The phases of both players, see `adversaries.kinds.mixed.two_phases`."""
    return two_phases(values, horizon, build)


TWO_PHASE = MulticlassKind(
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

_CATALOGUE: Catalogue[MulticlassKind] = Catalogue(
    "adversary of several classes", (*oblivious.KINDS, *streams.KINDS, *adaptive.KINDS, TWO_PHASE)
)


def multiclass_catalogue() -> dict[str, MulticlassKind]:
    """The card of every adversary of several classes by name, the oblivious ones first."""
    return dict(_CATALOGUE.cards)


def describe_multiclass() -> list[Row]:
    """One row per adversary of several classes, as `adversaries.describe`."""
    return _CATALOGUE.rows()


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
    kind, values = _CATALOGUE.read(spec)
    if isinstance(n_classes, bool) or not isinstance(n_classes, int) or not 2 <= n_classes <= MOST_CLASSES:
        raise ValueError(f"n_classes must be a whole number from 2 to {MOST_CLASSES}, got {n_classes!r}")
    checked = None if horizon is None else check_rounds(horizon, "horizon")
    phases = _phases(kind, values, n_classes, checked)
    return MulticlassAdversary(canonical(kind, values), kind, n_classes, phases, seed, checked)


def _phases(
    kind: MulticlassKind, values: Mapping[str, Any], n_classes: int, horizon: int | None
) -> tuple[Phase, ...]:
    kind.check_horizon(values, horizon)
    if kind.compose is not None:
        return kind.compose(values, n_classes, horizon, partial(_phases_of_spec, n_classes))
    assert kind.step is not None
    assert kind.initial is not None
    return (Phase(kind.step, kind.initial(values, n_classes, horizon), power=kind.power),)


def _phases_of_spec(n_classes: int, spec: str, horizon: int | None) -> tuple[Phase, ...]:
    return _phases(*_CATALOGUE.read(spec), n_classes, horizon)
