"""Windows of keys: against the forecaster itself, shared by lanes, cut into batches, stored and loaded."""

from __future__ import annotations

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead, SimplexAlmostOneStepAhead, calibration_distance
from onlinecal.engine import Engine, EngineConfig, KeyConfig, Outcome, Query, check_ledger, read_report
from onlinecal.engine.keys.packing import pack_rounds, unpack_rounds
from onlinecal.engine.keys.state import KeyState
from onlinecal.engine.settings import Settings
from onlinecal.forecasters.simplex.input import over_known

TOLERANCE = 1e-6


def play(state, number, seed=0, most=0, every=1, shares=None):
    """Queries and labels, up to `most` others open; run after `every` steps. The settled rounds.

    From the query `shares` on every third outcome is one.
    """
    rng = np.random.default_rng(seed)
    settled = []
    for i in range(number):
        state.ask(f"{state.number}-{len(settled)}-{i}", 2 * i, round(rng.random(), 3), None)
        state.run()
        while len(state.open) > rng.integers(0, most + 1):
            issued = list(state.open.values())[rng.integers(len(state.open))]
            y = int(rng.random() < 0.3 + 0.4 * (i // 40 % 2))
            if shares is not None and i >= shares and i % 3 == 0:
                y = round(rng.random(), 3)
            state.close(issued, y, None)
            settled.append((issued.probability, y))
            if i % every == 0:
                state.run()
    state.run()
    return settled


def distance(rounds):
    return calibration_distance(*zip(*rounds, strict=True), method="exact").exact


CONFIGS = [
    {},
    {"lanes": 4},
    {"slack": 1.0, "report": "hint"},
    {"slack": 1.0, "report": "hint", "lanes": 3},
    {"n_cells": 7, "rule": "sign"},
    {"grid": "nested"},
]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize("most", [0, 5])
def test_the_window_of_a_key(config, most):
    state = KeyState("k", 1, Settings(KeyConfig(window=30, **config)))
    for number in (3, 20, 40, 100):
        settled = play(state, number, seed=number, most=most)
        found = state.summary()
        if len(settled) >= 30:
            assert distance(settled[-30:]) <= found.window_certificate + TOLERANCE
        if "grid" in config:
            assert found.window_guarantee is None
        else:
            assert found.window_certificate <= found.window_guarantee + TOLERANCE
        again = KeyState("k", 1, state.settings, state.dump())
        assert again.dump() == state.dump()
        assert again.summary() == found
        state = again


@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize("most", [0, 5])
def test_the_window_of_a_key_whose_outcomes_become_shares(config, most):
    state = KeyState("k", 1, Settings(KeyConfig(window=30, **config)))
    for number, shares in ((25, None), (20, 11), (40, 0), (50, None)):
        settled = play(state, number, seed=number, most=most, shares=shares)
        found = state.summary()
        if len(settled) >= 30:
            lower = calibration_distance(*zip(*settled[-30:], strict=True)).lower
            assert lower <= found.window_certificate + TOLERANCE
        if "grid" not in config:
            assert found.window_certificate <= found.window_guarantee + TOLERANCE
        again = KeyState("k", 1, state.settings, state.dump())
        assert again.dump() == state.dump()
        assert again.summary() == found
        state = again


def test_one_lane_is_the_forecaster_with_shares_too():
    state = KeyState("k", 1, Settings(KeyConfig(window=20, report="hint", slack=1.0, steering=False)))
    forecaster = AlmostOneStepAhead(window=20, report="hint", slack=1.0)
    rng = np.random.default_rng(4)
    waiting = []
    for i in range(90):
        hint = rng.random()
        waiting.append((forecaster.forecast(hint), state.ask(str(i), 2 * i, hint, None)))
        state.run()
        while len(waiting) > 3 * (i % 7 > 2):
            token, issued = waiting.pop(0)
            y = round(rng.random(), 2) if i > 30 and i % 2 else int(rng.random() < 0.2)
            assert issued.probability == token.probability
            state.close(issued, y, None)
            state.run()
            forecaster.observe(token, y)
            assert state.summary().window_certificate == forecaster.window_certificate
    assert state.summary().window_guarantee == forecaster.window_guarantee


@pytest.mark.parametrize("lanes", [1, 3])
def test_states_do_not_depend_on_batches_or_on_who_looked(lanes):
    states = [KeyState("k", 1, Settings(KeyConfig(window=25, lanes=lanes))) for _ in range(3)]
    for state, every in zip(states, (1, 7, 1000), strict=True):
        play(state, 90, most=4, every=every, shares=50)
    states[1].summary()
    assert len({state.dump() for state in states}) == 1


def test_one_lane_is_the_forecaster():
    state = KeyState("k", 1, Settings(KeyConfig(window=50)))
    forecaster = AlmostOneStepAhead(window=50)
    rng = np.random.default_rng(3)
    for i in range(200):
        y = int(rng.random() < 0.2)
        token, issued = forecaster.forecast(), state.ask(str(i), 2 * i, None, None)
        state.run()
        assert issued.probability == token.probability
        state.close(issued, y, None)
        forecaster.observe(token, y)
    state.run()
    assert state.summary().window_certificate == forecaster.window_certificate
    assert state.summary().window_guarantee == forecaster.window_guarantee


def test_keys_without_a_window_are_stored_and_shown_as_before():
    import msgspec

    state = KeyState("k", 1, Settings(KeyConfig()))
    play(state, 20)
    assert state.lanes[0].window is None
    assert "window_certificate" not in msgspec.to_builtins(state.summary())
    assert msgspec.json.encode(KeyConfig()) == b"{}"


def test_rounds_are_packed_and_unpacked():
    for number in (0, 1, 5, 300):
        rounds = np.random.default_rng(number).integers(-(1 << 37), 1 << 37, (number, 4))
        rounds[:, 2] >>= 30
        assert np.array_equal(unpack_rounds(pack_rounds(rounds)), rounds)
        with pytest.raises((ValueError, KeyError, IndexError)):
            unpack_rounds(pack_rounds(rounds)[:-1])


def test_a_ledger_with_windows_is_reported_checked_and_opened_again(tmp_path):
    path = tmp_path / "ledger.db"
    config = EngineConfig(KeyConfig(window=20, lanes=2))
    rng = np.random.default_rng(0)
    with Engine(path, config) as engine:
        for i in range(60):
            engine.handle([Query(f"q{i}", f"key{i % 2}")])
            engine.handle([Outcome(f"q{i}", int(rng.random() < 0.4))])
        before = engine.summary("key0")
    assert before.window_certificate is not None
    with Engine(path) as engine:
        assert engine.summary("key0") == before
    assert check_ledger(path).problems == []
    assert read_report(path).keys[0].summary == before


def test_what_does_not_go_is_refused():
    with pytest.raises(ValueError, match="window does not go"):
        KeyConfig(kind="lp", window=10)
    with pytest.raises(ValueError, match="window"):
        Settings(KeyConfig(window=0))


@pytest.mark.parametrize("hinted", [False, True])
@pytest.mark.parametrize("most", [0, 4])
def test_a_key_of_several_classes_is_the_forecaster_with_that_window(hinted, most):
    labels, rng, waiting = ["sun", "rain", "snow"], np.random.default_rng(6), []
    state = KeyState("k", 1, Settings(KeyConfig(kind="simplex", classes=labels, window=40, steering=False)))
    forecaster = SimplexAlmostOneStepAhead(labels=labels, window=40)
    for i in range(300):
        row = over_known(rng.dirichlet(np.ones(3))) if hinted and i > 60 else None
        hint = None if row is None else dict(zip(labels, row.tolist(), strict=True))
        # the engine divides by the sum once more
        guide = None if row is None else over_known(row)
        waiting.append((forecaster.forecast(guide), state.ask(str(i), 2 * i, hint, None)))
        state.run()
        while len(waiting) > (most if i % 5 else 0):
            token, issued = waiting.pop(0)
            assert list(issued.probability.values()) == list(token.vector)
            label = labels[int(rng.integers(3))]
            state.close(issued, label, None)
            state.run()
            forecaster.observe(token, label)
        if i % 50 == 49:
            again = KeyState("k", 1, state.settings, state.dump())
            assert again.dump() == state.dump()
            waiting = [(token, again.open[issued.id]) for token, issued in waiting]
            state = again
        found = state.summary()
        assert found.window_certificate == forecaster.window_certificate
        assert found.window_guarantee == forecaster.window_guarantee
        assert found.window_certificate <= found.window_guarantee + TOLERANCE


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        (
            {"classes": ["a", "b"], "window": 9, "lanes": 2},
            "lanes must be 1 with a window",
        ),
        ({"window": 9}, "window=9 needs n_classes or labels"),
    ],
)
def test_windows_that_classes_cannot_have_are_refused(settings, match):
    with pytest.raises(ValueError, match=match):
        Settings(KeyConfig(kind="simplex", **settings))
