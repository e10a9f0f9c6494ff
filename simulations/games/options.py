"""The settings that a forecaster's spec may have, and how they are read from text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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


def read_settings(text: str, options: Sequence[Option], owner: str, spec: str) -> Mapping[str, Value]:
    """The settings that the part of a spec behind its colon gives, in its order.

    Raises ValueError for anything that is not key=value, an unknown or repeated key, or a value that is not
    allowed; the message lists what is known.
    """
    known = {option.name: option for option in options}
    given: dict[str, Value] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise ValueError(f"expected key=value after the colon in forecaster {spec!r}, got {part!r}")
        if key in given:
            raise ValueError(f"{key} is given twice in forecaster {spec!r}")
        if key not in known:
            raise ValueError(f"{owner} has no option {key!r}; it takes {', '.join(known) or 'none'}")
        given[key] = known[key].read(value, owner)
    return given
