"""Layouts of flat states: where each number of a state stands, what it is and of which kind.

A state is one flat array. So it is its own snapshot, and passing it to compiled code costs less than passing
several arrays. Kernels find their numbers by plain integers. A layout makes these integers, one field after
the other, in the order in which fields are declared:

    TICKET = Layout()
    FORECAST = TICKET.field("the forecast", "probability")
    ANSWERS = TICKET.field("what is mixed", "probability", width=7)
    TICKET.end   # 8

`describe` shows a state in these words: for people who debug.

Layouts are made while modules are imported, and read from then on. A field gets the next free place, so to
move, to widen or to insert one moves all that are declared after it. Most states are kept in pickles, some in
ledgers and in Spark's states. The module that declares a layout says who keeps its states, and so what must
not move; or it names the module whose state its fields are a part of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Field(NamedTuple):
    """Numbers of one kind that stand together; `start` is the index of the first."""

    start: int
    width: int
    what: str
    kind: str


class Layout:
    """The fields of a state, or of the part of a state that begins at `start`."""

    def __init__(self, start: int = 0) -> None:
        self.fields: list[Field] = []
        self.end = start
        """The index behind the last field."""

    def field(self, what: str, kind: str, width: int = 1) -> int:
        """Add a field of so many numbers: the index of its first one."""
        start = self.end
        self.fields.append(Field(start, width, what, kind))
        self.end = start + width
        return start

    def describe(self, state: Sequence[Any], at: int = 0) -> str:
        """The fields of a state with what they hold, a line each; `at` is where the part of it begins."""
        lines = []
        for start, width, what, kind in self.fields:
            numbers = [state[at + start + i] for i in range(width)]
            shown = ", ".join(f"{number:.6g}" for number in numbers)
            lines.append(f"{start:5}  {what} ({kind}): {shown}")
        return "\n".join(lines)
