"""The catalogue: every adversary by its name, and the way from a spec string to a player."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, TypedDict

from . import adaptive, bisection, internal, oblivious, recorded
from .adversary import Adversary, Seed, check_rounds
from .mixed import TWO_PHASE
from .mixture import MIXTURE
from .protocol import POWERS, Kind, Parameter, Phase
from .specs import join_spec, split_spec

_KINDS = (*oblivious.KINDS, *recorded.KINDS, *bisection.KINDS, *adaptive.KINDS, *internal.KINDS)
_CATALOGUE = {
    kind.name: kind
    for kind in sorted(
        (*_KINDS, TWO_PHASE, MIXTURE),
        key=lambda kind: POWERS.index(kind.power),
    )
}


class Row(TypedDict):
    """What `describe` says about one adversary."""

    name: str
    power: str
    parameters: str
    needs_horizon: bool
    summary: str
    source: str


def catalogue() -> dict[str, Kind]:
    """Every adversary's card by name: the oblivious ones first, then those that see more."""
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
