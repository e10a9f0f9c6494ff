"""Numbers and values as texts, for tables and errors.

These texts are for people, and no program reads them again, so their words may change freely; tests compare
many of them.
"""

from __future__ import annotations

from typing import Any

FEW_SHOWN = 12
"""An error shows so many items of a list."""
LONGEST_SHOWN = 300
"""An error shows so many characters of a value."""


def number(value: float | None) -> str:
    """A number for a table, with its thousands separated; "–" for None, "?" for NaN.

    Whole numbers have all their digits. Others have no decimals from 1,000 on, one from 100 on and two from
    0.1 on in size; smaller ones have three significant digits.
    """
    if value is None:
        return "–"
    if value != value:
        return "?"
    size = abs(value)
    if float(value).is_integer():
        return f"{int(value):,}"
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if size >= 100 else f"{value:.2f}" if size >= 0.1 else f"{value:.3g}"


def counted(count: int, what: str) -> str:
    """A count with its noun, whose plural ends in -s: "1 event", "2 events"."""
    return f"{number(count)} {what}{'s' * (count != 1)}"


def shown(value: Any) -> str:
    """A value as errors show it; a long one is cut."""
    try:
        text = repr(value) if not isinstance(value, (list, tuple)) else repr(value[:FEW_SHOWN])
    except ValueError:  # Python writes out no whole number of more than 4,300 digits
        text = "a number of too many digits"
    if isinstance(value, (list, tuple)) and len(value) > FEW_SHOWN:
        text = f"{text[:-1]}, ... {len(value):,} in all{text[-1]}"
    return cut(" ".join(text.split()) if "\n" in text else text)


def cut(text: str, longest: int = LONGEST_SHOWN) -> str:
    """A text, cut if it is longer than `longest`."""
    return text if len(text) <= longest else f"{text[:longest]}..."
