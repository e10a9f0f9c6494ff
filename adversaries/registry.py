"""The catalogue: every adversary by its name, and the way from a spec string to a player."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adversaries.adversary import Adversary
from adversaries.cards import Catalogue, Row, canonical
from adversaries.kinds import adaptive, bisection, internal, oblivious
from adversaries.kinds.genome import GENOME
from adversaries.kinds.mixed import TWO_PHASE
from adversaries.kinds.mixture import MIXTURE
from adversaries.phased import Seed, check_rounds
from adversaries.protocol import Kind, Phase
from adversaries.replayed import recorded
from adversaries.replayed.champions import CHAMPION

_CATALOGUE: Catalogue[Kind] = Catalogue(
    "adversary",
    (
        *oblivious.KINDS,
        *bisection.KINDS,
        GENOME,
        CHAMPION,
        *recorded.KINDS,
        *adaptive.KINDS,
        *internal.KINDS,
        TWO_PHASE,
        MIXTURE,
    ),
)


def catalogue() -> dict[str, Kind]:
    """Every adversary's card by name: the library's, the oblivious ones first, then those registered."""
    return dict(_CATALOGUE.cards)


def describe() -> list[Row]:
    """One row per adversary for a table: name, power, parameters with defaults, summary and source."""
    return _CATALOGUE.rows()


def register(kind: Kind) -> None:
    """Enter an adversary of one's own in the catalogue: `create`, `describe` and `catalogue` then know it.

    Registering again what has the same name and a step (or `compose`) of the same module and name replaces
    the earlier card, so that a module may be reloaded and a notebook cell run twice. The names of the
    library's own adversaries cannot be taken.

    Parameters
    ----------
    kind
        The card. Its step has to be decorated with `numba.extending.register_jitable` to be played by
        compiled loops, and to stand at the top level of a module to be pickled.

    Raises
    ------
    ValueError
        If the name is not in kebab-case or belongs to somebody else, if the power is none of the four, if
        there is neither a step with an `initial` nor a `compose` that can be called, or if `depth_parameter`
        or `horizon_unless` names no parameter.
    """
    if not isinstance(kind, Kind):
        raise ValueError(f"only a Kind can be registered, got {kind!r}")
    for part in ("step", "initial") if kind.compose is None else ("compose",):
        if not callable(getattr(kind, part)):
            raise ValueError(f"{kind.name}: {part} must be callable, got {getattr(kind, part)!r}")
    if kind.depth_parameter is not None:
        kind.parameter(kind.depth_parameter)
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
    checked = None if horizon is None else check_rounds(horizon, "horizon")
    return Adversary(canonical(kind, values), kind, _phases(kind, values, checked), seed, checked)


def _phases(kind: Kind, values: Mapping[str, Any], horizon: int | None) -> tuple[Phase, ...]:
    kind.check_horizon(values, horizon)
    if kind.compose is not None:
        return kind.compose(values, horizon, _phases_of_spec)
    assert kind.step is not None
    assert kind.initial is not None
    depth = 1 if kind.depth_parameter is None else values[kind.depth_parameter]
    return (Phase(kind.step, kind.initial(values, horizon), power=kind.power, depth=depth),)


def _phases_of_spec(spec: str, horizon: int | None) -> tuple[Phase, ...]:
    return _phases(*_CATALOGUE.read(spec), horizon)
