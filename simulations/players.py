"""The catalogue of forecasters: from a spec string such as "balanced:slack=1,report=hint" to a player.

Specs are written like those of adversaries. Each player knows the bound that was proven for it, as a
formula for tables and plots; the exact numbers are those of the forecaster's own `guarantee`.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from adversaries.specs import join_spec
from onlinecal.forecasters import AlmostOneStepAhead
from onlinecal.forecasters.cells import REPORTS
from onlinecal.forecasters.grid import MOST_CELLS, MOST_SLACK, RULES

Value = float | int | str


@dataclass(frozen=True)
class Option:
    """One setting of a spec: a word out of `choices`, or a number between `low` and `high`."""

    name: str
    default: Value | None
    choices: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    whole: bool = False

    def read(self, text: str, owner: str) -> Value:
        """The value that `text` stands for; ValueError names the option, the text and what is allowed."""
        if self.choices:
            if text in self.choices:
                return text
            raise ValueError(f"{owner}: {self.name} must be one of {', '.join(self.choices)}, got {text!r}")
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if self.low <= value <= self.high and (value.is_integer() or not self.whole):
            return int(value) if self.whole else value
        noun = "a whole number" if self.whole else "a number"
        raise ValueError(
            f"{owner}: {self.name} must be {noun} from {self.low:g} to {self.high:g}, got {text!r}"
        )


SLACK = Option("slack", 0.5, low=0.5, high=MOST_SLACK)
RULE = Option("rule", "balanced", choices=RULES)
CELLS = Option("cells", None, low=1, high=MOST_CELLS, whole=True)
MIDPOINT = Option("report", "midpoint", choices=REPORTS)
LOWER = Option("report", "lower", choices=REPORTS)


@dataclass(frozen=True)
class Family:
    """One entry of the catalogue: a rule on a kind of grid, and the options that a spec may set."""

    name: str
    summary: str
    grid: Literal["uniform", "nested", "adaptive"]
    rule: str
    options: tuple[Option, ...]


FAMILIES = {
    family.name: family
    for family in (
        Family("sign", "the paper's rule on a grid for T rounds", "uniform", "sign", (LOWER, CELLS)),
        Family(
            "balanced", "balanced biases on a grid for T rounds", "uniform", "balanced",
            (SLACK, MIDPOINT, CELLS),
        ),
        Family(
            "nested", "no horizon: the grid doubles as rounds go by", "nested", "balanced",
            (SLACK, MIDPOINT, RULE),
        ),
        Family(
            "adaptive", "no horizon: the grid tunes itself", "adaptive", "balanced",
            (SLACK, MIDPOINT, RULE),
        ),
    )
}  # fmt: skip


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

    def build(self, rounds: int) -> AlmostOneStepAhead:
        """A fresh forecaster; those on a uniform grid are told that so many rounds will be played."""
        uniform = self.family.grid == "uniform"
        return AlmostOneStepAhead(
            horizon=rounds if uniform else None,
            n_cells=self.settings.get("cells"),
            grid=self.family.grid,
            rule=self.settings.get("rule", self.family.rule),
            slack=self.settings.get("slack", 0.5),
            report=self.settings["report"],
        )

    @property
    def bound_label(self) -> str | None:
        """The proven bound on the distance to calibration after T rounds as a formula, if it has one."""
        factor = self._square_of_factor
        if factor is None:
            return None
        root = math.isqrt(round(factor))
        if root * root == factor:
            return f"{root if root > 1 else ''}√T"
        return f"√({factor:g}T)"

    def bound(self, rounds: int) -> float:
        """The value of `bound_label`, a sum over rounds; without a formula the forecaster's own guarantee."""
        factor = self._square_of_factor
        return self.build(rounds).promise(rounds) if factor is None else math.sqrt(factor * rounds)

    @property
    def _square_of_factor(self) -> float | None:
        """f when the bound is sqrt(f T): 4 c d on a uniform grid, 12 c d without a horizon (if c = d)."""
        sign = self.settings.get("rule", self.family.rule) == "sign"
        bias = 1.0 if sign else float(self.settings["slack"])
        reach = 0.5 if self.settings["report"] == "midpoint" else 1.0
        if self.family.grid == "uniform":
            return None if self.settings["cells"] is not None else 4.0 * bias * reach
        return 12.0 * bias * reach if bias == reach else None


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
    options = {option.name: option for option in family.options}
    settings: dict[str, Any] = {option.name: option.default for option in family.options}
    given: dict[str, Value] = {}
    for part in rest.split(",") if colon else ():
        key, equals, text = (piece.strip() for piece in part.partition("="))
        if not (key and equals and text):
            raise ValueError(f"expected key=value after the colon in forecaster {spec!r}, got {part!r}")
        if key in given:
            raise ValueError(f"{key} is given twice in forecaster {spec!r}")
        if key not in options:
            raise ValueError(f"{family.name} has no option {key!r}; it takes {', '.join(options)}")
        given[key] = options[key].read(text, family.name)
    settings |= given
    if settings.get("rule") == "sign" and "slack" in given:
        raise ValueError(f"{family.name}: slack belongs to the balanced rule, not to rule=sign")
    changed = {key: settings[key] for key, option in options.items() if settings[key] != option.default}
    return Player(join_spec(family.name, changed), family, settings)


def _find(name: str) -> Family:
    if name in FAMILIES:
        return FAMILIES[name]
    close = difflib.get_close_matches(name, FAMILIES, n=1)
    suggestion = f"; did you mean {close[0]!r}?" if close else "."
    raise ValueError(f"unknown forecaster {name!r}{suggestion} Known: {', '.join(FAMILIES)}")
