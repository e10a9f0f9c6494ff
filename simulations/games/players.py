"""The catalogue of forecasters: from a spec string such as "balanced:slack=1,report=hint" to a player.

Specs are written like those of adversaries. Each player knows the bound that was proven for it, as a
formula for tables and plots.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Self

from onlinecal.catalogue import Catalogue, E, split_spec
from onlinecal.forecasters.rules import Playable
from simulations.games import families
from simulations.games.families import Family

_CATALOGUE: Catalogue[Family] = Catalogue("forecaster", families.FAMILIES)


@dataclass(frozen=True)
class Chosen(Generic[E]):
    """A forecaster that was chosen from a catalogue.

    Attributes
    ----------
    spec
        In canonical form: the settings that differ from the defaults, in its order.
    family
        Its entry of the catalogue.
    settings
        Every parameter's value.
    """

    spec: str
    family: E
    settings: Mapping[str, Any]

    @classmethod
    def read(cls, catalogue: Catalogue[E], spec: str) -> Self:
        """What a spec describes; ValueError for anything unknown, with a list of what is known."""
        family, settings = catalogue.read(spec)
        return cls(family.spec_of(settings), family, settings)

    def made_for(self, hinted: bool) -> Mapping[str, Any]:
        """The settings for games with hints, or without; ValueError if hints=false does not go with them."""
        if "hints" not in self.settings:
            return self.settings
        said = self.settings["hints"]
        if hinted and said == "false":
            raise ValueError(f"{self.spec}: hints=false does not go with an adversary that gives hints")
        hints = hinted or said == "true" or (said is None and self.settings.get("report") == "hint")
        return {**self.settings, "hints": hints}


class Player(Chosen[Family]):
    """A forecaster to be built for any number of rounds."""

    def build(self, rounds: int, seed: int = 0, hinted: bool = False) -> Playable:
        """A fresh forecaster for so many rounds, with hints or not; a randomised one draws from this seed."""
        return self.family.build(self.made_for(hinted), rounds, seed)

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
        root = f"{math.sqrt(factor):g}"
        if float(root) ** 2 == factor:
            return f"{root if root != '1' else ''}√T"
        return f"√({factor:g}T)"

    def bound(self, rounds: int, hinted: bool = False) -> float | None:
        """The value of `bound_label`, a sum over rounds; without a formula the forecaster's own guarantee.

        That of games with hints also where it is above the formula: on uniform grids hints cost up to 1
        (Theorem 7a). None for a forecaster of which nothing is proven that holds for every game.
        """
        factor = self.family.square_of_factor(self.settings)
        formula = None if factor is None else math.sqrt(factor * rounds)
        if formula is not None and not self.made_for(hinted).get("hints"):
            return formula
        forecaster = self.build(rounds, hinted=hinted)
        promise = finite(forecaster.promise(rounds))
        return promise if formula is None or promise is None else max(formula, promise)


def finite(bound: float) -> float | None:
    """A bound as tables keep it: None where there is none."""
    return None if math.isnan(bound) else bound


def catalogue() -> dict[str, Family]:
    """Every family of forecasters by its name."""
    return dict(_CATALOGUE.entries)


def register(family: Family) -> None:
    """Add a family to the catalogue, or replace one whose `build` has the same module and name.

    Raises
    ------
    ValueError
        If the name is not in kebab-case, or belongs to the library or to somebody else.
    """
    _CATALOGUE.add(family)


def create(spec: str) -> Player:
    """The player that a spec describes.

    Raises
    ------
    ValueError
        For an unknown name, an unknown or repeated parameter, or a value that is not allowed; the message
        lists what is known.

    Examples
    --------
    >>> player = create("balanced:slack=0.50,cells=50")
    >>> player.spec
    'balanced:cells=50'
    >>> create("nested").bound_label
    '√(3T)'
    """
    player = Player.read(_CATALOGUE, spec)
    if player.settings.get("rule") == "sign" and "slack" in split_spec(spec, _CATALOGUE.noun)[1]:
        raise ValueError(f"{player.family.name}: slack belongs to the balanced rule, not to rule=sign")
    return player
