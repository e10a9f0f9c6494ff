"""What a model keeps, found by its type: tests that damage it do not need to know its name."""

from __future__ import annotations

from typing import Any


def part_of(model: Any, kind: type) -> Any:
    """The part of this type that a model keeps; None if it keeps none."""
    return next((part for part in vars(model).values() if isinstance(part, kind)), None)
