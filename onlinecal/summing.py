"""Sums of floats that are the same under every Python."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import add


def in_turn(numbers: Iterable[float]) -> float:
    """Their sum, rounded after each: what `sum` gave before Python 3.12, which rounds otherwise."""
    return reduce(add, numbers, 0)
