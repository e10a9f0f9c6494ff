"""Sums of floats are the same under every Python: ledgers compare answers bit for bit."""

from onlinecal.elementary import in_turn


def test_sums_are_rounded_after_each_number():
    assert in_turn([0.1, 0.2, 0.3]) == 0.1 + 0.2 + 0.3 == 0.6000000000000001
    assert repr(in_turn([])) == "0"
