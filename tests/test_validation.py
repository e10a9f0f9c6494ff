"""Checks of single numbers: what is let through, and in which words the rest is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onlinecal.validation import (
    check_count,
    check_finite,
    check_number,
    check_open_unit,
    check_order,
    check_positive,
    check_share,
    seed_sequence,
)

NO_NUMBERS = [None, "1", True, np.bool_(True), [1], math.nan, 1j]


@pytest.mark.parametrize("given", [1, 7, np.int64(7), np.uint8(2)])
def test_whole_numbers_become_int(given):
    assert type(check_count(given, "n")) is int
    assert check_count(given, "n") == given


@pytest.mark.parametrize(
    "given, limits, message",
    [
        *[(given, {}, "n must be a whole number of at least 1, got") for given in (*NO_NUMBERS, 0, -1, 1.0)],
        (1, {"least": 2}, "n must be a whole number of at least 2, got 1"),
        (4, {"most": 3}, "n must be at most 3, got 4"),
    ],
)
def test_other_counts_are_refused(given, limits, message):
    with pytest.raises(ValueError, match=message):
        check_count(given, "n", **limits)


@pytest.mark.parametrize(
    "check, good, bad, allowed",
    [
        (check_finite, [0, -1e300, np.float32(2)], [math.inf, -math.inf], "a finite number"),
        (check_positive, [1e-300, 5], [0, -1, math.inf], "a positive number"),
        (check_share, [1e-300, 1], [0, 1.5], "a number above 0 and at most 1"),
        (check_open_unit, [1e-300, 0.5], [0, 1], "a number between 0 and 1"),
        (lambda x, name: check_number(x, name, 0.5, 2), [0.5, 2], [0.4, 2.1], "a number from 0.5 to 2"),
        (lambda x, name: check_order(x), [1, math.inf], [0.5], "a number from 1, or inf"),
        (lambda x, name: check_order(x, True), [1.5, math.inf], [1], "a number above 1, or inf"),
    ],
)
def test_numbers_within_their_limits_become_floats(check, good, bad, allowed):
    for given in good:
        assert type(check(given, "p")) is float
        assert check(given, "p") == given
    for given in (*NO_NUMBERS, *bad):
        with pytest.raises(ValueError) as refusal:
            check(given, "p")
        assert str(refusal.value) == f"p must be {allowed}, got {given!r}"


def test_seeds_are_integers_or_sequences_of_them():
    for seed in (0, 3, (1, 2), [3]):
        assert np.random.default_rng(seed_sequence(seed)).random() == np.random.default_rng(seed).random()
    for seed in (None, -1, 1.5, "x", np.random.default_rng(1)):
        with pytest.raises(
            ValueError, match="seed must be a non-negative integer or a sequence of them, got"
        ):
            seed_sequence(seed)
