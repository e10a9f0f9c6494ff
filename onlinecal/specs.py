"""Spec strings, ``name`` or ``name:key=value,key=value``, and the parameters whose values they give.

A value that contains commas itself (the spec of another adversary, the path of a file) is put in square
brackets: ``two-phase:first=[linear-drift:start=0.2,end=0.8],second=threshold``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Value = float | int | str


@dataclass(frozen=True)
class Parameter:
    """One number, word, text or other adversary that a spec string may set.

    Parameters
    ----------
    name
        As written in spec strings.
    default
        The value when the spec does not mention it; None means "not given".
    about
        One phrase for tables and help texts.
    low, high
        Smallest and largest allowed value, both included.
    form
        "real" for any number, "whole" for whole numbers, "text" for any text but the empty one, "adversary"
        for the spec of another adversary; or the words that are allowed, if they are few.
    required
        Whether every spec has to set it, because no default makes sense.
    canonical
        Gives a text as it is to be written back; ValueError for one that is not allowed.
    """

    name: str
    default: Value | None
    about: str
    low: float = -math.inf
    high: float = math.inf
    form: Literal["real", "whole", "text", "adversary"] | tuple[str, ...] = "real"
    required: bool = False
    canonical: Callable[[str], str] | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The words that are allowed; none if it is something else than one of a few words."""
        return self.form if isinstance(self.form, tuple) else ()

    @property
    def allowed(self) -> str:
        """The allowed values in words, as error messages and tables show them."""
        if self.words:
            return f"one of {', '.join(self.words)}"
        if self.form == "adversary":
            return "the spec of an adversary"
        if self.form == "text":
            return "a text"
        noun = "a whole number" if self.form == "whole" else "a number"
        if math.isinf(self.high):
            return noun if math.isinf(self.low) else f"{noun} of at least {self.low:g}"
        return f"{noun} in [{self.low:g}, {self.high:g}]"

    @property
    def with_default(self) -> str:
        """As tables show it: with its default; of words all that are allowed, the default first."""
        if self.default is None:
            return f"{self.name}=({'required' if self.required else 'not set'})"
        others = [word for word in self.words if word != self.default]
        default = f"{self.default:.4g}" if isinstance(self.default, float) else str(self.default)
        return f"{self.name}={'|'.join([default, *others])}"

    def read(self, text: str, owner: str) -> Value:
        """The value that `text` stands for; ValueError names `owner`, parameter, text and what is allowed."""
        if self.form == "text" and text:
            try:
                return text if self.canonical is None else self.canonical(text)
            except ValueError as error:
                raise ValueError(f"{owner}: {self.name}: {error}") from error
        if text in self.words:
            return text
        try:
            value = math.nan if self.words else float(text)
        except ValueError:
            value = math.nan
        fits = self.low <= value <= self.high and math.isfinite(value)
        if not fits or (self.form == "whole" and not value.is_integer()):
            raise ValueError(f"{owner}: {self.name} must be {self.allowed}, got {text!r}")
        return int(value) if self.form == "whole" else value


def split_spec(spec: str, noun: str) -> tuple[str, dict[str, str]]:
    """The name and the raw settings of a spec; ValueError for anything that is not written like one."""
    if not isinstance(spec, str):
        raise ValueError(f"the {noun}'s spec must be a string, got {spec!r}")
    name, colon, rest = spec.partition(":")
    settings: dict[str, str] = {}
    for part in _split_at_commas(rest, f"{noun} {spec!r}") if colon else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise ValueError(f"expected key=value after the colon in {noun} {spec!r}, got {part!r}")
        if key in settings:
            raise ValueError(f"{key} is given twice in {noun} {spec!r}")
        settings[key] = _unwrapped(value)
    return name.strip(), settings


def join_spec(name: str, settings: Mapping[str, Value]) -> str:
    """The spec with this name and these settings, in their order; `split_spec` reads it back."""
    if not settings:
        return name
    return f"{name}:{','.join(f'{key}={_written(value)}' for key, value in settings.items())}"


def _written(value: Value) -> str:
    if isinstance(value, str):
        return f"[{value}]" if "," in value or _unwrapped(value) != value else value
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _unwrapped(text: str) -> str:
    """Without its square brackets, if the first one is closed by the very last character."""
    depth = 0
    for i, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if depth == 0:
            return text[1:-1].strip() if i > 0 and i == len(text) - 1 else text
    return text


def _split_at_commas(text: str, place: str) -> list[str]:
    parts, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if depth < 0:
            break
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    if depth != 0:
        raise ValueError(f"the square brackets in {place} do not match")
    return parts
