"""Checks of users' values: every refusal names the argument, the value and its row.

Functions that check raise ValueError, and none changes its arguments; `known_outcome` and `as_whole` refuse
nothing.

Nothing here has a state. What is accepted is part of the interface: a check may become wider, and narrower
only where what it let pass was wrong. Words of errors may change, but name argument, value and remedy.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any, Literal

import numpy as np

from onlinecal.texts import shown

OUTCOMES: dict[Any, int] = {False: 0, True: 1}
"""Every label that means an outcome: False, True and whatever equals them (0, 1, numpy's scalars)."""


def known_outcome(label: Any) -> int | None:
    """0 or 1 if the label means that; None for anything else."""
    try:
        return OUTCOMES.get(label)
    except TypeError:
        return None


def outcome_of(label: Any, name: str = "outcome") -> int:
    """The outcome 0 or 1 that `label` stands for."""
    outcome = known_outcome(label)
    if outcome is None:
        raise ValueError(f"{name} must be 0, 1, False or True, got {shown(label)}")
    return outcome


def share_of(value: Any, name: str = "outcome") -> float:
    """The outcome in [0, 1] that `value` stands for: a label that means 0 or 1, or any number between."""
    # a value that equals 0 or 1 is accepted, whatever its type
    outcome = known_outcome(value)
    if outcome is not None:
        return float(outcome)
    is_number: bool = isinstance(value, Real)
    if not is_number or not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must be a number in [0, 1], False or True, got {shown(value)}")
    return float(value)


def check_choice(value: Any, choices: tuple[str, ...], name: str) -> None:
    """Refuse a word that is not one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {shown(value)}")


def check_flag(value: Any, name: str) -> bool:
    """True or False, Python's or numpy's; "no" and 0 are neither."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def check_path(value: Any, name: str) -> Path:
    """The path of a file; ValueError for what is none, as a number or a text that no file can be called."""
    if not isinstance(value, (str, os.PathLike)) or "\x00" in str(value):
        raise ValueError(f"{name} must be the path of a file, got {shown(value)}")
    return Path(value)


def as_whole(value: Any) -> Any:
    """A whole number that is a float as an int; anything else as it is."""
    return int(value) if isinstance(value, (float, np.floating)) and value.is_integer() else value


def check_count(value: Any, name: str, most: int | None = None, least: int = 1) -> int:
    """A whole number from `least` to `most`, as an int; 1e6 is accepted, and True is not."""
    count = as_whole(value)
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {shown(value)}")
    if most is not None and count > most:
        raise ValueError(f"{name} must be at most {most}, got {shown(value)}")
    return int(count)


def check_number(
    value: Any, name: str, low: float, high: float, ends: str = "[]", allowed: str = ""
) -> float:
    """A number from `low` to `high`, as a float; an end with a round bracket in `ends` is not allowed itself.

    `allowed` describes the allowed numbers in the error.
    """
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    # a whole number may be larger than all floats
    number = number and not (isinstance(value, int) and abs(value) > sys.float_info.max)
    above = number and (value > low if ends[0] == "(" else value >= low)
    if not above or not (value < high if ends[1] == ")" else value <= high):
        raise ValueError(
            f"{name} must be {allowed or f'a number from {low:g} to {high:g}'}, got {shown(value)}"
        )
    return float(value)


def check_finite(value: Any, name: str) -> float:
    """A number that is not infinite, as a float."""
    return check_number(value, name, -math.inf, math.inf, "()", "a finite number")


def check_positive(value: Any, name: str) -> float:
    """A finite number above 0, as a float."""
    return check_number(value, name, 0.0, math.inf, "()", "a positive number")


def check_share(value: Any, name: str) -> float:
    """A number in (0, 1], as a float."""
    return check_number(value, name, 0.0, 1.0, "(]", "a number above 0 and at most 1")


def check_open_unit(value: Any, name: str) -> float:
    """A number above 0 and below 1, as a float."""
    return check_number(value, name, 0.0, 1.0, "()", "a number between 0 and 1")


def check_order(p: Any, above_one: bool = False) -> float:
    """The order of an l_p norm, from 1 to inf; with `above_one` larger than 1."""
    allowed = f"a number {'above' if above_one else 'from'} 1, or inf"
    return check_number(p, "p", 1.0, math.inf, "(]" if above_one else "[]", allowed)


def check_numbers(values: Any, name: str) -> list[float]:
    """The numbers of a sequence of any kind, at least one and all finite, read once in their order."""
    no_order = isinstance(values, (str, bytes, Mapping, set, frozenset))
    if no_order or not isinstance(values, Iterable) or getattr(values, "ndim", 1) != 1:
        raise ValueError(f"{name} must be a sequence of numbers, as a list, got {shown(values)}")
    numbers = [value.item() if isinstance(value, np.generic) else value for value in values]
    if not numbers:
        raise ValueError(f"{name} must be a sequence of numbers, at least one, got {shown(values)}")
    for place, value in enumerate(numbers):
        check_finite(value, f"{name} at place {place}")
    return numbers


def check_increasing(values: Any, name: str) -> list[float]:
    """The numbers of a sequence as of `check_numbers`, each of which must be above the one before."""
    numbers = check_numbers(values, name)
    for place in range(1, len(numbers)):
        if not numbers[place - 1] < numbers[place]:
            raise ValueError(
                f"{name} must increase, got {numbers[place]!r} at place {place} after {numbers[place - 1]!r}"
            )
    return numbers


def seed_sequence(
    seed: Any,
    spawn_key: tuple[int, ...] = (),
    name: str = "seed",
    wanted: str = "a non-negative integer or a sequence of them",
) -> np.random.SeedSequence:
    """The seed sequence of a seed, which is an integer or a sequence of integers, none negative.

    ValueError for others; it says what is `wanted`.
    """
    try:
        if seed is None:
            raise TypeError
        return np.random.SeedSequence(seed, spawn_key=spawn_key)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be {wanted}, got {shown(seed)}") from error


PLAIN_ARRAY: tuple[Literal["C", "A", "W"], ...] = ("C", "A", "W")
"""The memory layout of checked arrays. Kernels are compiled for each kind of array, and arrays that are
strided, or that cannot be written to, as those of pandas, would be other kinds."""


def check_probability(value: Any, name: str) -> float:
    """One finite number in [0, 1], as a float."""
    if isinstance(value, (int, float, np.number)) and 0.0 <= value <= 1.0:
        return float(value)
    raise ValueError(f"{name} must be a number in [0, 1], got {shown(value)}")
