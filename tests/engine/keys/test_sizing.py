"""The sizes of states in docs/scale.md: its formulas against bytes of real keys."""

import math
import random

import msgspec
import pytest

from onlinecal.engine import EngineConfig, KeyConfig, Outcome, Query
from onlinecal.engine.keys.storing import SUM
from onlinecal.engine.turns import KeyTurns, _decoder
from onlinecal.forecasters.binary.cells import END, TABLE
from onlinecal.forecasters.simplex.machine.table import USED
from tests.engine.one_key import OneKey


def kept(config, rounds, classes=0, waiting=0, remember=1):
    """A key's bytes after so many settled rounds of a drifting coin or a biased die, and its lane."""
    rng, step, events = random.Random(0), KeyTurns(EngineConfig(config), remember), []
    for i in range(rounds):
        if classes:
            [outcome] = rng.choices([f"class{j}" for j in range(classes)], range(1, classes + 1))
        else:
            outcome = int(rng.random() < 0.5 + 0.4 * math.sin(2 * math.pi * i / rounds))
        events += [Query(f"{i:08d}", "k", None, float(i)), Outcome(f"{i:08d}", outcome, "k", float(i))]
    events += [Query(f"{rounds + j:08d}", "k") for j in range(waiting)]
    return step("k", None, events)[0]


def lane_of(data, config):
    """A key with these bytes."""
    return OneKey(config, _decoder.decode(data[1:]).state)


def watch_of(data):
    """How many of a key's bytes are its account of losses and alarms."""
    state = _decoder.decode(data[1:]).state
    return len(msgspec.msgpack.decode(state[SUM:])[7]) + 4


ROUNDS = [10, 100, 1000, 10_000, pytest.param(40_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize(
    ("grid", "most", "start", "each"), [("graded", 0.5, 430, 9.1), ("uniform", 1.0, 380, 3.3)]
)
@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_key_with_a_horizon_has_so_many_bytes_for_each_grid_point(rounds, grid, most, start, each):
    config = KeyConfig(horizon=rounds, hints=False, grid=grid)
    data = kept(config, rounds)
    m = (int(lane_of(data, config).memory[END]) - TABLE) // 2 - 1
    assert len(data) == pytest.approx(start + each * m, abs=40)
    assert m == pytest.approx(math.sqrt(most * rounds), abs=4)


@pytest.mark.parametrize("grid", ["adaptive", "nested"])
@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_key_without_one_has_nine_bytes_for_each_visited_point(grid, rounds):
    config = KeyConfig(grid=grid, hints=False)
    data = kept(config, rounds)
    points = (int(lane_of(data, config).memory[END]) - TABLE) // 2
    assert len(data) == pytest.approx(410 + 9.1 * points, abs=40)
    # on a drifting coin
    few, many = {"adaptive": (2.0, 3.0), "nested": (0.6, 1.35)}[grid]
    assert few * math.sqrt(rounds) - 3 <= points <= many * math.sqrt(rounds) + 3


@pytest.mark.parametrize("classes", [2, 3, 5, 10])
@pytest.mark.parametrize("rounds", [100, 1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_key_with_classes_grows_with_its_vertices(classes, rounds):
    config = KeyConfig(kind="simplex", hints=False)
    data = kept(config, rounds, classes)
    vertices = int(lane_of(data, config).lanes[0].simplex_run.memory[USED])
    assert len(data) - watch_of(data) == pytest.approx(
        380 + 20 * classes + (20 + classes) * vertices, rel=0.1
    )


def test_forecasts_that_are_open_or_remembered_cost_their_ids_and_numbers():
    config, rounds = KeyConfig(), 1000
    alone = len(kept(config, rounds))
    waiting = (len(kept(config, rounds, waiting=100)) - alone) / 100
    remembered = (len(kept(config, rounds, remember=1000)) - alone) / 500
    assert 105 + len("00000000") < waiting < 150 + len("00000000")
    assert 40 + len("00000000") < remembered < 50 + len("00000000")
