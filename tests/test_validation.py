"""Checks of single numbers: what is let through, and in which words the rest is refused."""

import math
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from onlinecal.tables.columns import (
    check_history,
    check_labelled_rows,
    check_share_history,
    check_shares,
)
from onlinecal.validation import (
    check_count,
    check_finite,
    check_number,
    check_open_unit,
    check_order,
    check_positive,
    check_share,
    seed_sequence,
    share_of,
)


def refusal(check, given):
    with pytest.raises(ValueError) as refused:
        check(given)
    return str(refused.value)


@pytest.mark.parametrize(
    "check, good, bad, allowed",
    [
        (
            check_count,
            [1, np.int64(7), np.uint8(2), 1e6, np.float32(3)],
            [0, -1, 1.5, math.nan, math.inf, True, "2"],
            "a whole number of at least 1",
        ),
        (partial(check_count, least=2), [2], [1], "a whole number of at least 2"),
        (check_finite, [0, -1e300, np.float32(2)], [math.inf, -math.inf], "a finite number"),
        (check_positive, [1e-300, 5], [0, -1, math.inf], "a positive number"),
        (check_share, [1e-300, 1], [0, 1.5], "a number above 0 and at most 1"),
        (check_open_unit, [1e-300, 0.5], [0, 1], "a number between 0 and 1"),
        (partial(check_number, low=0.5, high=2), [0.5, 2], [0.4, 2.1], "a number from 0.5 to 2"),
        (lambda x, name: check_order(x), [1, math.inf], [0.5], "a number from 1, or inf"),
        (lambda x, name: check_order(x, True), [1.5, math.inf], [1], "a number above 1, or inf"),
        (
            share_of,
            [
                -0.0,
                5e-324,
                np.float32(0.5),
                Fraction(1, 2),
                np.array(0.25)[()],
                True,
                np.bool_(True),
                Decimal(1),
            ],
            [[0.5], np.array([0.5]), 1.2, -5e-324, math.inf, 0.5j, Decimal("0.5")],
            "a number in [0, 1], False or True",
        ),
    ],
)
def test_numbers_within_limits_become_int_or_float(check, good, bad, allowed):
    for given in good:
        found = check(given, name="p")
        assert type(found) is (int if "whole" in allowed else float)
        assert found == given
        assert str(found) != "-0.0"
    for given in (None, "1", [1], math.nan, 1j, *bad, *([] if check is share_of else [True, np.bool_(True)])):
        assert refusal(partial(check, name="p"), given) == f"p must be {allowed}, got {given!r}"


def test_seeds_are_integers_or_sequences_of_them():
    for seed in (0, 3, (1, 2), [3]):
        assert np.random.default_rng(seed_sequence(seed)).random() == np.random.default_rng(seed).random()
    for seed in (None, -1, 1.5, "x", np.random.default_rng(1)):
        words = "seed must be a non-negative integer or a sequence of them, got"
        assert refusal(seed_sequence, seed).startswith(words)


def test_the_type_of_checked_shares_tells_whether_all_are_zero_or_one():
    for whole in ([0, 1], [False, True], [-0.0, 1], [False, 1], np.array([0, 1], dtype=object)):
        assert check_shares(whole).dtype == np.uint8
        assert check_shares(whole).tolist() == [0, 1]
    for split in (np.array([0, 1, 0.5], np.float32), [False, True, Fraction(1, 2)], (-0.0, 1, 0.5)):
        assert check_shares(split).dtype == np.float64
        assert [str(y) for y in check_shares(split)] == ["0.0", "1.0", "0.5"]


@pytest.mark.parametrize(
    "given, message",
    [
        ([0, 0.5, 1.2], "y must be numbers in [0, 1] or boolean, got 1.2 at row 2"),
        ([0, math.nan], "y must be numbers in [0, 1] or boolean, got nan at row 1"),
        ([0.5, None], "y must be numbers in [0, 1] or boolean, got None at row 1: leave the row out"),
        (
            ["a", "b"],
            "y must be numbers in [0, 1] or boolean, got 'a' at row 0: compare texts first, as in y == 'yes'",
        ),
        (
            [b"0", b"1"],
            "y must be numbers in [0, 1] or boolean, got b'0' at row 0: "
            "compare texts first, as in y == 'yes'",
        ),
        (
            [0.5, "x"],
            "y must be numbers in [0, 1] or boolean, got 'x' at row 1: compare texts first, as in y == 'yes'",
        ),
        ([-1, 1], "y must be numbers in [0, 1] or boolean, got -1 at row 0: for -1 and 1 give (y + 1) // 2"),
        ([], "y is empty: give at least one value"),
        ([[0.5]], "y must be one-dimensional, got shape (1, 1): give its one row, as y[0]"),
        ([[0, 1], [1, 0]], "y must be one-dimensional, got shape (2, 2): give one column of it"),
        (0.5, "y must be one-dimensional, got shape (): give a list of values"),
        ({0, 1}, "y must be a column, got a set, which has no order: give a list in order"),
    ],
)
def test_refused_shares_are_named_with_their_row(given, message):
    assert refusal(partial(check_shares, name="y"), given) == message


def test_the_keys_of_a_dict_have_an_order():
    assert check_shares({0.5: "a", 0: "b"}.keys(), "y").tolist() == [0.5, 0.0]


@pytest.mark.parametrize("check", [check_history, check_share_history, check_labelled_rows])
def test_columns_of_pandas_with_other_indices_are_refused(check):
    pd = pytest.importorskip("pandas")
    p, y = pd.Series([0.2, 0.7], index=[5, 3]), pd.Series([0, 1], index=[3, 5])
    told = pd.DataFrame({0: 1 - p, 1: p}) if check is check_labelled_rows else p
    with pytest.raises(ValueError, match="must have the same index, since rows are matched by position"):
        check(told, y)
    assert check(told, y.to_numpy())[1].tolist() == [0, 1]


def test_counts_may_have_a_limit():
    assert refusal(partial(check_count, name="n", most=3), 4) == "n must be at most 3, got 4"
