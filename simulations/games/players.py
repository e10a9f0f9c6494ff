"""The catalogue of forecasters: from a spec string such as "balanced:slack=1,report=hint" to a player.

Specs are written like those of adversaries. Each player knows the bound that was proven for it, as a
formula for tables and plots.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from adversaries.specs import join_spec
from onlinecal.forecasters.rules import Playable
from simulations.games import families
from simulations.games.families import Family
from simulations.games.options import read_settings

_CATALOGUE: dict[str, Family] = {family.name: family for family in families.FAMILIES}


@dataclass(frozen=True)
class Player:
    """A forecaster to be built for any number of rounds.

    Attributes
    ----------
    spec
        In canonical form: the settings that differ from the defaults, in the catalogue's order.
    family
        Its entry of the catalogue.
    settings
        Every option's value.
    """

    spec: str
    family: Family
    settings: Mapping[str, Any]

    def build(self, rounds: int, seed: int = 0) -> Playable:
        """A fresh forecaster for so many rounds; a randomised one draws from this seed."""
        return self.family.build(self.settings, rounds, seed)

    @property
    def draw(self) -> str:
        """Whether its adversaries are shown what it draws: "hidden" or "seen"."""
        return str(self.settings.get("draw", "hidden"))

    @property
    def bound_label(self) -> str | None:
        """The proven bound on the distance to calibration after T rounds as a formula, if it has one."""
        factor = self.family.square_of_factor(self.settings)
        if factor is None:
            return None
        root = math.isqrt(round(factor))
        if root * root == factor:
            return f"{root if root > 1 else ''}√T"
        return f"√({factor:g}T)"

    def bound(self, rounds: int) -> float | None:
        """The value of `bound_label`, a sum over rounds; without a formula the forecaster's own guarantee.

        None for a forecaster of which nothing is proven that holds for every game.
        """
        factor = self.family.square_of_factor(self.settings)
        return finite(self.build(rounds).promise(rounds)) if factor is None else math.sqrt(factor * rounds)


def finite(bound: float) -> float | None:
    """A bound as tables keep it: None where there is none."""
    return None if math.isnan(bound) else bound


def catalogue() -> dict[str, Family]:
    """Every family of forecasters by its name."""
    return dict(_CATALOGUE)


def register(family: Family) -> None:
    """Add a family to the catalogue; ValueError if its name is taken by another."""
    if _CATALOGUE.get(family.name, family) != family:
        raise ValueError(f"there is a forecaster {family.name!r} already")
    _CATALOGUE[family.name] = family


def create(spec: str) -> Player:
    """The player that a spec describes.

    Raises
    ------
    ValueError
        For an unknown name, an unknown or repeated option, or a value that is not allowed; the message lists
        what is known.

    Examples
    --------
    >>> player = create("balanced:slack=0.50,cells=50")
    >>> player.spec
    'balanced:cells=50'
    >>> create("nested").bound_label
    '√(3T)'
    """
    if not isinstance(spec, str):
        raise ValueError(f"a forecaster's spec must be a string, got {spec!r}")
    name, colon, rest = spec.partition(":")
    family = _find(name.strip())
    given = read_settings(rest, family.options, family.name, spec) if colon else {}
    settings = {option.name: option.default for option in family.options} | dict(given)
    if settings.get("rule") == "sign" and "slack" in given:
        raise ValueError(f"{family.name}: slack belongs to the balanced rule, not to rule=sign")
    changed = {
        option.name: value
        for option in family.options
        if (value := settings[option.name]) is not None and value != option.default
    }
    return Player(join_spec(family.name, changed), family, settings)


def _find(name: str) -> Family:
    if name in _CATALOGUE:
        return _CATALOGUE[name]
    close = difflib.get_close_matches(name, _CATALOGUE, n=1)
    suggestion = f"; did you mean {close[0]!r}?" if close else "."
    raise ValueError(f"unknown forecaster {name!r}{suggestion} Known: {', '.join(_CATALOGUE)}")
