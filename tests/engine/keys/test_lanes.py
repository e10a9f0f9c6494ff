"""What a key says of all its lanes is the same under every Python: ledgers compare answers bit for bit."""

from onlinecal.engine.keys.lanes import in_turn


def test_certificates_of_lanes_are_rounded_after_each():
    assert in_turn([0.1, 0.2, 0.3]) == 0.1 + 0.2 + 0.3 == 0.6000000000000001
    assert repr(in_turn([])) == "0"
