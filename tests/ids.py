"""Names of tests: at most 100 characters, and a failure still says its case."""

from __future__ import annotations

import re
from typing import Any

from tests import ROOT

LONGEST_WORD, LONGEST_TEXT, LONGEST_NUMBER = 24, 20, 12
"""Characters that a value has in the name of a test: a text without a space in it, or with some; a number."""


def short(value: Any) -> str | None:
    """What a value is called in the name of a test; None if pytest is to say.

    Settings are told by values, a long text by its beginning and its end, a long number to six digits.
    """
    if isinstance(value, dict):
        if not all(isinstance(one, str | int | float | None) for one in value.values()):
            return None
        value = " ".join(f"{name}={one}" for name, one in value.items()) or "default"
    elif isinstance(value, type):
        value = value.__name__
    elif isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    elif isinstance(value, float) and len(repr(value)) > LONGEST_NUMBER:
        return f"{value:.6g}"
    if not isinstance(value, str):
        return None
    most = LONGEST_TEXT if " " in value else LONGEST_WORD
    if len(value) <= most:
        return value
    words = " ".join(re.sub(r"[^ -~]|\\[nr]", " ", value.replace(str(ROOT), "")).split())
    return words if len(words) <= most else f"{words[: most - 10]}..{words[-8:]}"


def pytest_make_parametrize_id(val: Any) -> str | None:
    """For all that says nothing of its names."""
    return short(val)
