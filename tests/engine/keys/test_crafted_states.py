"""States with a right checksum that no engine wrote: refused, or played on without a crash or a hang."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from onlinecal.engine import EngineConfig, KeyConfig, Outcome, Query, Settled
from onlinecal.engine.keys.storing import SUM, with_checksum
from onlinecal.engine.turns import KeyTurns

PROGRAM = Path(__file__).with_name("crafted_states.py")


@pytest.mark.parametrize("seed, count", [(0, 100), pytest.param(1, 5_000, marks=pytest.mark.slow)])
def test_crafted_states_neither_crash_nor_hang(seed, count):
    command = [sys.executable, str(PROGRAM), str(seed), str(count)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=20 * count)
    lines = found.stdout.splitlines()
    assert found.returncode == 0, (lines[-1:], found.stderr[-2000:])
    _, refused, _, played = lines[-1].split()
    assert min(int(refused), int(played)) > count


def test_a_turn_on_a_state_that_cannot_be_leaves_nothing_behind():
    step = KeyTurns(EngineConfig(KeyConfig(horizon=50)), 10)
    data, _ = step("k", None, [Query("a", "k"), Query("b", "k"), Outcome("a", 1)])
    kept = msgspec.msgpack.decode(data[1:])
    stored = msgspec.msgpack.decode(kept[2][SUM:])
    # an open forecast less than the words tell of
    stored[3] = []
    kept[2] = with_checksum(msgspec.msgpack.encode(stored))
    for bad in (data[:1] + msgspec.msgpack.encode(kept), b""):
        with pytest.raises(ValueError, match="the state of key 'k'"):
            step("k", bad, [Outcome("b", 1)])
        assert step("k", data, [Outcome("b", 1)])[1] == [Settled("b")]

    def failing():
        yield Query("c", "k")
        raise OSError("the input broke off")

    for before in (data, None):
        with pytest.raises(OSError, match="broke off"):
            step("k", before, failing())
        assert step("k", before, []) == (before, [])
        assert step("k", data, [Outcome("b", 1)])[1] == [Settled("b")]
