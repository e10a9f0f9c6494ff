"""Answers in notebooks: small tables that inherit the page's colours, light or dark.

Nothing here has a state, and nothing reads this HTML again, so its looks may change freely. One thing must
stay: every text is escaped, since names come from whoever sends data.
"""

from __future__ import annotations

import html
import numbers
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

LONGEST_TEXT = 60
"""A text is cut to so many characters. Of a mapping each value is, and its keys stand in full length."""
MOST_ROWS_SHOWN = 12
"""So many rows of a table and entries of a mapping are shown, and the others are counted."""

FRAME_STYLE = (
    "display:inline-block;max-width:100%;overflow-x:auto;padding:.6em 1em;border-radius:6px;color:inherit;"
    "border:1px solid rgba(128,128,128,.45);font:13px/1.5 system-ui,sans-serif"
)
CELL_STYLE = (
    "padding:.15em .9em .15em 0;border:0;border-top:1px solid rgba(128,128,128,.25);color:inherit;"
    "background:transparent;font-variant-numeric:tabular-nums;white-space:nowrap;text-align:"
)
LEFT_TO_RIGHT = frozenset(("L", "EN", "ES", "ET", "CS", "NSM", "BN", "B", "S", "WS", "ON"))
"""The kinds of characters that are read from left to right, or in the direction of their neighbours."""

TABLE_STYLE = "border-collapse:collapse;margin:.3em 0;font:inherit"
NOTE_STYLE = "max-width:46em;opacity:.8"
EMPTY_BAR_STYLE = (
    "display:inline-block;width:7em;height:.65em;border-radius:2px;background:rgba(128,128,128,.3)"
)
FULL_BAR_STYLE = "display:block;height:100%;border-radius:2px;background:#2f8fcf"


class Bar(NamedTuple):
    """A cell that shows a part of a whole, from `begin` to `end`, both in [0, 1], as a bar."""

    begin: float
    end: float


class Table(NamedTuple):
    """A table for a notebook: a title, names of columns (or none), rows, and notes below."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()


class Shown:
    """Answers that notebooks show as a table: that of `_shown`, which has all fields unless overridden."""

    # without this, answers with __slots__ would have a dict, too
    __slots__ = ()

    def _repr_html_(self) -> str:
        return render(self._shown())

    def _shown(self) -> Table:
        return fields_of(self)


def fields_of(answer: Any) -> Table:
    """The public fields of a dataclass, a NamedTuple or a Struct, a row each."""
    kind = type(answer)
    names = getattr(kind, "_fields", None) or getattr(kind, "__struct_fields__", None)
    names = names or tuple(kind.__dataclass_fields__)
    rows = [(name.replace("_", " "), getattr(answer, name)) for name in names if not name.startswith("_")]
    return Table(kind.__name__, (), rows)


UNIT = ", a sum over rounds, or an average with normalize=True"
"""What a distance is, which does not know how it was asked for."""


def bracket_of(answer: Any, of: str) -> Table:
    """A proven bracket, `lower` and `upper`, with bars relative to the upper end, and all other fields."""
    title, _, rows, _ = fields_of(answer)
    ends = Bar(0.0, 1.0), Bar(0.0, answer.lower / answer.upper if answer.upper > 0.0 else 1.0)
    bars = {"upper": ends[0], "lower": ends[1]}
    exact = getattr(answer, "exact", None)
    known = "known exactly" if exact is not None else "both ends are proven"
    return Table(title, (), [(*row, bars.get(row[0], "")) for row in rows], (f"{of}: {known}",))


def aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    """Rows as lines of plain text, not HTML: the first column is flush left, the others are flush right."""
    first, *others = zip(*rows, strict=True)
    columns = [[text.ljust(max(map(len, first))) for text in first]]
    columns += [[text.rjust(max(map(len, column))) for text in column] for column in others]
    return ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]


def render(table: Table) -> str:
    """The HTML of a table; every text in it is escaped."""
    title, header, rows, notes = table
    shown = [_row(header, "th", header)] if header else []
    shown += [_row(row, "td", header) for row in rows[:MOST_ROWS_SHOWN]]
    if len(rows) > MOST_ROWS_SHOWN:
        notes = (f"and {len(rows) - MOST_ROWS_SHOWN:,} more rows", *notes)
    body = f"<table style='{TABLE_STYLE}'><tbody>{''.join(shown)}</tbody></table>"
    below = "".join(f"<div style='{NOTE_STYLE}'>{html.escape(note)}</div>" for note in notes)
    return f"<div style='{FRAME_STYLE}'><strong>{html.escape(title)}</strong>{body}{below}</div>"


def _row(cells: Sequence[Any], tag: str, header: Sequence[str]) -> str:
    """A row in HTML. Numbers under a header are flush right; in tables of fields everything is flush left."""
    shown = []
    for place, cell in enumerate(cells):
        right = place > 0 and header and (tag == "th" or _is_number(cell))
        shown.append(f"<{tag} style='{CELL_STYLE}{'right' if right else 'left'}'>{_cell(cell)}</{tag}>")
    return f"<tr>{''.join(shown)}</tr>"


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _cell(value: Any) -> str:
    if isinstance(value, Bar):
        begin, end = (100.0 * min(max(part, 0.0), 1.0) for part in value)
        place = f"margin-left:{begin:.4g}%;width:{max(end - begin, 0.0):.4g}%"
        full = f"<span style='{FULL_BAR_STYLE};{place}'></span>"
        return f"<span style='{EMPTY_BAR_STYLE}'>{full}</span>"
    # a name may have characters that change the direction of text, which <bdi> confines to the cell
    shown = html.escape(_text(value))
    return shown if _is_number(value) or value is None else f"<bdi>{shown}</bdi>"


def isolated(text: str) -> str:
    """A name within other text, isolated if it would change the direction of that text."""
    turns = any(unicodedata.bidirectional(character) not in LEFT_TO_RIGHT for character in text)
    return f"\u2068{text}\u2069" if turns else text


def _text(value: Any) -> str:
    """A value in a few words."""
    if value is None:
        return "–"
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return f"{int(value):,}"
    if _is_number(value):
        return f"{float(value):.4g}"
    if isinstance(value, np.ndarray) and value.size > 1 and value.dtype.kind in "fiu":
        shape = " × ".join(f"{side:,}" for side in value.shape)
        return f"{shape} values, {value.min():.4g} … {value.max():.4g}"
    if isinstance(value, Mapping):
        entries = [
            f"{isolated(str(key))}: {_text(entry)}" for key, entry in list(value.items())[:MOST_ROWS_SHOWN]
        ]
        return ", ".join(entries) + (
            f" and {len(value) - MOST_ROWS_SHOWN:,} more" if len(value) > MOST_ROWS_SHOWN else ""
        )
    if isinstance(value, tuple) and 0 < len(value) <= MOST_ROWS_SHOWN and all(map(_is_number, value)):
        return ", ".join(map(_text, value))
    text = str(value)
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"
