"""The catalogue: every adversary by its name, and the way from a spec string to a player."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, TypedDict

from . import adaptive, bisection, internal, oblivious, recorded
from .adversary import Adversary, Seed, check_rounds
from .champions import CHAMPION
from .genome import GENOME
from .mixed import TWO_PHASE
from .mixture import MIXTURE
from .protocol import POWERS, Kind, Parameter, Phase
from .specs import join_spec, split_spec

_KINDS = (
    *oblivious.KINDS,
    *bisection.KINDS,
    GENOME,
    CHAMPION,
    *recorded.KINDS,
    *adaptive.KINDS,
    *internal.KINDS,
    TWO_PHASE,
    MIXTURE,
)
_CATALOGUE = {kind.name: kind for kind in sorted(_KINDS, key=lambda kind: POWERS.index(kind.power))}
_OWN_NAMES = frozenset(_CATALOGUE)
_KEBAB_CASE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class Row(TypedDict):
    """What `describe` says about one adversary."""

    name: str
    power: str
    parameters: str
    needs_horizon: bool
    summary: str
    source: str


def catalogue() -> dict[str, Kind]:
    """Every adversary's card by name: the library's, the oblivious ones first, then those registered."""
    return dict(_CATALOGUE)


def describe() -> list[Row]:
    """One row per adversary for a table: name, power, parameters with defaults, summary and source."""
    return [
        Row(
            name=kind.name,
            power=kind.power,
            parameters=", ".join(_with_default(parameter) for parameter in kind.parameters),
            needs_horizon=kind.needs_horizon,
            summary=kind.summary,
            source=kind.source,
        )
        for kind in _CATALOGUE.values()
    ]


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
    if not isinstance(kind.name, str) or not _KEBAB_CASE.fullmatch(kind.name):
        raise ValueError(
            f"an adversary's name must be in kebab-case, like early-stopped-coin, got {kind.name!r}"
        )
    if kind.power not in POWERS:
        raise ValueError(f"{kind.name}: power must be one of {', '.join(POWERS)}, got {kind.power!r}")
    for part in ("step", "initial") if kind.compose is None else ("compose",):
        if not callable(getattr(kind, part)):
            raise ValueError(f"{kind.name}: {part} must be callable, got {getattr(kind, part)!r}")
    for name in (kind.depth_parameter, kind.horizon_unless):
        if name is not None:
            kind.parameter(name)
    present = _CATALOGUE.get(kind.name, kind)
    if present != kind and (kind.name in _OWN_NAMES or _origin(present) != _origin(kind)):
        raise ValueError(f"the name {kind.name!r} is taken by another adversary: {present.summary}")
    _CATALOGUE[kind.name] = kind


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
    kind, values = _read(spec)
    checked = None if horizon is None else check_rounds(horizon, "horizon")
    return Adversary(_canonical(kind, values), kind, _phases(kind, values, checked), seed, checked)


def _read(spec: str) -> tuple[Kind, dict[str, Any]]:
    name, settings = split_spec(spec)
    kind = _find(name)
    values: dict[str, Any] = {parameter.name: parameter.default for parameter in kind.parameters}
    for key, text in settings.items():
        parameter = kind.parameter(key)
        if parameter.form == "adversary":
            values[key] = _canonical(*_read(text))
        else:
            values[key] = parameter.read(text, kind.name)
    for parameter in kind.parameters:
        if parameter.required and parameter.name not in settings:
            raise ValueError(f"{kind.name} needs {parameter.name}: {kind.name}:{parameter.name}=...")
    return kind, values


def _origin(kind: Kind) -> tuple[object, object]:
    played = kind.step if kind.compose is None else kind.compose
    return getattr(played, "__module__", None), getattr(played, "__qualname__", None)


def _find(name: str) -> Kind:
    if name in _CATALOGUE:
        return _CATALOGUE[name]
    close = difflib.get_close_matches(name, _CATALOGUE, n=1)
    suggestion = f"; did you mean {close[0]!r}?" if close else "."
    raise ValueError(f"unknown adversary {name!r}{suggestion} Known: {', '.join(sorted(_CATALOGUE))}")


def _canonical(kind: Kind, values: Mapping[str, Any]) -> str:
    changed = {
        parameter.name: values[parameter.name]
        for parameter in kind.parameters
        if values[parameter.name] != parameter.default
    }
    return join_spec(kind.name, changed)


def _phases(kind: Kind, values: Mapping[str, Any], horizon: int | None) -> tuple[Phase, ...]:
    kind.check_horizon(values, horizon)
    if kind.compose is not None:
        return kind.compose(values, horizon, _phases_of_spec)
    assert kind.step is not None
    assert kind.initial is not None
    depth = 1 if kind.depth_parameter is None else values[kind.depth_parameter]
    return (Phase(kind.step, kind.initial(values, horizon), power=kind.power, depth=depth),)


def _phases_of_spec(spec: str, horizon: int | None) -> tuple[Phase, ...]:
    return _phases(*_read(spec), horizon)


def _with_default(parameter: Parameter) -> str:
    if parameter.default is None:
        return f"{parameter.name}=({'required' if parameter.required else 'not set'})"
    default = parameter.default
    return f"{parameter.name}={default:.4g}" if isinstance(default, float) else f"{parameter.name}={default}"
