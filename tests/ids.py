"""Names of tests: short, and a failure still says its case."""

from __future__ import annotations

from typing import Any

LONGEST = 26
"""Characters that a value has in the name of a test."""


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
    return value if len(value) <= LONGEST else f"{value[: LONGEST - 2]}.."


def pytest_make_parametrize_id(val: Any) -> str | None:
    """For all that says nothing of its names."""
    return short(val)
