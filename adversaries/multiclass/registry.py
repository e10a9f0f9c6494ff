"""The catalogue of adversaries of several classes, and the way from a spec string to a player."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adversaries.adversary import Seed
from adversaries.kinds.mixture import two_phases
from adversaries.multiclass import kinds, streams
from adversaries.multiclass.adversary import MOST_CLASSES, MOST_ROUNDS, MulticlassAdversary, MulticlassKind
from adversaries.protocol import Build, Phase
from adversaries.registry import Kinds, Row
from onlinecal.catalogue import Parameter
from onlinecal.validation import check_count


def two_multiclass_phases(
    values: Mapping[str, Any], n_classes: int, horizon: int | None, build: Build
) -> tuple[Phase, ...]:
    """The phases of both players, see `adversaries.kinds.mixture.two_phases`."""
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

_CATALOGUE: Kinds[MulticlassKind] = Kinds(
    "adversary of several classes", (*kinds.OBLIVIOUS, *streams.KINDS, *kinds.ADAPTIVE, TWO_PHASE)
)


def multiclass_catalogue() -> dict[str, MulticlassKind]:
    """Every kind of adversary of several classes by name, the oblivious ones first."""
    return dict(_CATALOGUE.entries)


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
    k = check_count(n_classes, "n_classes", most=MOST_CLASSES, least=2)
    rounds = None if horizon is None else check_count(horizon, "horizon")
    phases = _CATALOGUE.phases(kind, values, (k,), rounds)
    return MulticlassAdversary(kind.spec_of(values), kind, k, phases, seed, rounds)
