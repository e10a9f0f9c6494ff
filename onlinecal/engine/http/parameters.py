"""The parameters behind the question mark of a request: each is known, is given once, and can be.

Parameters are declared while `app.py` is imported, and never change. They are part of the contract in
docs/over-http.md; the words of refusals are not. Every route calls `parameters_of`, also one that takes none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.types import Scope

from onlinecal.engine.fields import LONGEST_NAME, is_name

SHOWN_LETTERS = 40
"""Characters of a value that an error shows."""


@dataclass(frozen=True)
class Name:
    """The name of a key; None if it is not given."""

    default = None
    meaning = f"a name of 1 to {LONGEST_NAME} characters, no NUL"

    def read(self, text: str) -> str | None:
        """The value; None if it is none."""
        return text if is_name(text) else None


@dataclass(frozen=True)
class Whole:
    """A whole number from `least` to `most`."""

    least: int
    most: int
    default: int

    @property
    def meaning(self) -> str:
        """What it may be, in words."""
        return f"a whole number from {self.least} to {self.most}"

    def read(self, text: str) -> int | None:
        """The value; None if it is none."""
        number = int(text) if re.fullmatch("[0-9]{1,20}", text) else -1
        return number if self.least <= number <= self.most else None


class Choice:
    """One of some words, of which the first is meant if none is given."""

    def __init__(self, *words: str) -> None:
        self.default, self._words = words[0], words
        self.meaning = " or ".join(words)

    def read(self, text: str) -> str | None:
        """The value; None if it is none."""
        return text if text in self._words else None


def parameters_of(scope: Scope, known: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The parameters of a request by name, each a `Name`, a `Whole` or a `Choice`; others are refused."""
    known, query = known or {}, scope["query_string"]
    values: dict[str, Any] = {name: parameter.default for name, parameter in known.items()}
    if not query:
        return values
    try:
        pairs = parse_qsl(query.decode(), keep_blank_values=True, errors="strict")
    except ValueError:
        shown = query.decode("latin-1")[:SHOWN_LETTERS]
        raise HTTPException(400, f"parameters must be UTF-8, and percent-encoded, got {shown!r}") from None
    for place, (name, text) in enumerate(pairs):
        where = f"{scope['method']} {scope['path']}"
        if name not in known:
            takes = " and ".join(known) if known else "no parameters"
            raise HTTPException(400, f"unknown parameter {name[:SHOWN_LETTERS]!r}: {where} takes {takes}")
        if name in dict(pairs[:place]):
            raise HTTPException(400, f"{name} may be given once, it is given several times: give it once")
        values[name] = known[name].read(text)
        if values[name] is None:
            raise HTTPException(400, f"{name} must be {known[name].meaning}, got {text[:SHOWN_LETTERS]!r}")
    return values
