"""The sizes of states in docs/scale.md: its formulas against bytes of real keys."""

import math
import random

import msgspec
import pytest

from onlinecal.alarms.escrow import N_BETS, N_QUARTERS, PER_QUARTER, QUARTERS
from onlinecal.engine import EngineConfig, KeyConfig, Outcome, Query
from onlinecal.engine.keys.storing import SUM
from onlinecal.engine.turns import KeyTurns, _decoder
from onlinecal.engine.watch.account import MONEY
from onlinecal.forecasters.binary.cells import END, TABLE
from onlinecal.forecasters.simplex.machine.memory import RECORDS_USED
from tests.engine.one_key import OneKey


def kept(config, rounds, classes=0, waiting=0, remember=1):
    """A key's bytes after so many settled rounds of a drifting coin or a biased die."""
    rng, step, events = random.Random(0), KeyTurns(EngineConfig(config), remember), []
    for i in range(rounds):
        if classes:
            [outcome] = rng.choices([f"class{j}" for j in range(classes)], range(1, classes + 1))
        else:
            outcome = int(rng.random() < 0.5 + 0.4 * math.sin(2 * math.pi * i / rounds))
        events += [Query(f"{i:08d}", "k", None, float(i)), Outcome(f"{i:08d}", outcome, "k", float(i))]
    events += [Query(f"{rounds + j:08d}", "k") for j in range(waiting)]
    return step("k", None, events)[0]


ROUNDS = [10, 100, 1000, 10_000, pytest.param(40_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize(
    ("grid", "has_horizon", "start", "each", "few", "many"),
    [
        ("graded", True, 421, 9.1, math.sqrt(0.5), math.sqrt(0.5)),
        # in units of a cell a point's place and sum take a byte and a half each, and one more from 128 on
        ("uniform", True, 390, 3.0, 1.0, 1.0),
        ("adaptive", False, 410, 9.1, 2.0, 3.0),
        ("nested", False, 410, 9.1, 0.6, 1.35),
    ],
)
@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_key_has_so_many_bytes_for_each_grid_point(rounds, grid, has_horizon, start, each, few, many):
    config = KeyConfig(horizon=rounds if has_horizon else None, hints=False, grid=grid)
    data = kept(config, rounds)
    one = OneKey(config, _decoder.decode(data[1:]).state)
    points = (int(one.book.arrays.memory(one.key.first_lane)[END]) - TABLE) // 2
    account = one.book.arrays.state.accounts[one.key.first_lane]
    on_quarters = account[MONEY + QUARTERS : MONEY + N_BETS].reshape(N_QUARTERS, PER_QUARTER)
    empty = int((~on_quarters.any(axis=1)).sum())
    large = max(0, points - 128) if grid == "uniform" else 0
    assert len(data) == pytest.approx(start + each * points + 2 * large - 30 * empty, abs=40)
    near = 6 if has_horizon else 3
    assert few * math.sqrt(rounds) - near <= points <= many * math.sqrt(rounds) + near


@pytest.mark.parametrize("classes", [2, 3, 5, 10])
@pytest.mark.parametrize("rounds", [100, 1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_key_with_classes_grows_with_its_vertices(classes, rounds):
    config = KeyConfig(kind="simplex", hints=False)
    data = kept(config, rounds, classes)
    state = _decoder.decode(data[1:]).state
    vertices = int(OneKey(config, state).key.lanes[0].memory[RECORDS_USED])
    watched = len(msgspec.msgpack.decode(state[SUM:])[7]) + 4
    formula = 380 + 20 * classes + (20 + classes) * vertices
    assert len(data) - watched == pytest.approx(formula, rel=0.1)


def test_forecasts_that_are_open_or_remembered_cost_their_ids_and_numbers():
    config, rounds, id = KeyConfig(), 1000, len("00000000")
    alone = len(kept(config, rounds))
    waiting = (len(kept(config, rounds, waiting=100)) - alone) / 100
    remembered = (len(kept(config, rounds, remember=1000)) - alone) / 500
    assert 105 + id < waiting < 150 + id
    assert 40 + id < remembered < 50 + id
