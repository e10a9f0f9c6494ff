"""Names of tests: short, and a failure still says its case."""

from __future__ import annotations

from typing import Any

LONGEST_WORD, LONGEST_TEXT = 32, 20
"""Characters that a value has in the name of a test: without a space in it, or with some."""


def short(value: Any) -> str | None:
    """What a value is called in the name of a test: settings by values, texts by their beginning."""
    if isinstance(value, dict):
        if not all(isinstance(one, str | int | float | None) for one in value.values()):
            return None
        value = " ".join(f"{name}={one}" for name, one in value.items()) or "default"
    elif isinstance(value, type):
        value = value.__name__
    if not isinstance(value, str):
        return None
    most = LONGEST_TEXT if " " in value else LONGEST_WORD
    return value if len(value) <= most else f"{value[: most - 2]}.."


def pytest_make_parametrize_id(val: Any) -> str | None:
    """For all that says nothing of its names."""
    return short(val)
