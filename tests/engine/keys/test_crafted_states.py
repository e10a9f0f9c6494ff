"""States with a right checksum that no engine wrote: refused, or played on without a crash or a hang."""

from __future__ import annotations

import copy
import random
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from onlinecal import AlmostOneStepAhead, OneStepAhead, SimplexAlmostOneStepAhead
from onlinecal.engine import EngineConfig, KeyConfig, Outcome, Query, Settled
from onlinecal.engine.keys.packing import SUM, with_sum
from onlinecal.engine.keys.state import KeyState
from onlinecal.engine.keys.step import KeyStep
from onlinecal.engine.settings import Settings
from onlinecal.forecasters.baselines import FosterForecaster
from onlinecal.forecasters.binary.cells import LOWER
from tests.engine.keys.crafted_states import play

PROGRAM = Path(__file__).with_name("crafted_states.py")


def crafted(seed, count, patience):
    found = subprocess.run(
        [sys.executable, str(PROGRAM), str(seed), str(count)],
        capture_output=True,
        text=True,
        timeout=patience,
    )
    lines = found.stdout.splitlines()
    assert found.returncode == 0, (lines[-1:], found.stderr[-2000:])
    _, refused, _, played = lines[-1].split()
    return int(refused), int(played)


def test_crafted_states_neither_crash_nor_hang():
    refused, played = crafted(0, 80, 300)
    assert refused > 1000
    assert played > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_many_crafted_states_neither_crash_nor_hang(seed):
    refused, played = crafted(seed, 2000, 1800)
    assert refused > 5000
    assert played > 300


@pytest.mark.parametrize(
    "forecaster",
    [AlmostOneStepAhead(horizon=50), AlmostOneStepAhead(), OneStepAhead(), FosterForecaster()],
    ids=["uniform", "dyadic", "one step ahead", "mixing"],
)
def test_a_pickle_with_another_memory_is_refused(forecaster):
    for y in (0, 1, 1, 0, 1):
        forecaster.learn_one({}, y)
    again = copy.deepcopy(forecaster)
    assert again.predict_proba_one({}) == forecaster.predict_proba_one({})
    again.memory[LOWER if again.memory.dtype == int else 8] = 1 << 40
    with pytest.raises(ValueError, match="cannot be that of any run"):
        copy.deepcopy(again)


def test_a_pickle_of_a_simplex_with_another_memory_is_refused():
    forecaster = SimplexAlmostOneStepAhead(labels=["a", "b", "c"])
    for y in "abcab":
        forecaster.learn_one({}, y)
    again = copy.deepcopy(forecaster)
    assert again.predict_proba_one({}) == forecaster.predict_proba_one({})
    again.memory[-1] += 1
    with pytest.raises(ValueError, match="cannot be that of any run"):
        copy.deepcopy(again)


def test_a_turn_on_a_state_that_cannot_be_leaves_nothing_behind():
    step = KeyStep(EngineConfig(KeyConfig(horizon=50)), 10)
    data, _ = step("k", None, [Query("a", "k"), Query("b", "k"), Outcome("a", 1)])
    kept = msgspec.msgpack.decode(data[1:])
    books = msgspec.msgpack.decode(kept[2][SUM:])
    books[5][0][7][0] = 1 << 40
    kept[2] = with_sum(msgspec.msgpack.encode(books))
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


def test_a_state_goes_on_with_the_cells_that_it_was_begun_with(monkeypatch):
    settings = Settings(KeyConfig(horizon=100))
    state = play(KeyState("k", 1, settings), random.Random(0), 40)
    monkeypatch.setattr("onlinecal.forecasters.binary.guarantees.cells_for", lambda *_: 17)
    later = Settings(settings.config)
    assert len(later.kind.new().memory) != len(state.lanes[0].memory)
    again = KeyState("k", 1, later, state.dump())
    assert play(again, random.Random(1), 40).dump() == play(state, random.Random(1), 40).dump()
