"""Replays with hints by their guide: the same as round by round; the nearest marked cell is that of all."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onlinecal import AlmostOneStepAhead
from onlinecal.compiling.instructions import highest_bit, lowest_bit
from onlinecal.forecasters.binary.cells import in_use
from onlinecal.forecasters.binary.marks import mark, mark_run, marks_length, nearest_marked
from tests.properties import examples

CONFIGS = [
    {"n_cells": 51},
    {"n_cells": 300, "slack": 0.75},
    {"n_cells": 5000},
    {"n_cells": 33, "rule": "sign"},
    {},
    {"grid": "nested", "report": "upper"},
    {"slack": 1.0, "report": "hint"},
    {"rule": "sign"},
    {"slack": 1.5},
]
ROUNDS = 1000


def fresh(config, hints=True):
    return AlmostOneStepAhead(**config, hints=hints)


def streams(seed):
    """Hints of several kinds, and outcomes that follow or defy them."""
    rng = np.random.default_rng(seed)
    switching = np.where(np.arange(ROUNDS) // 100 % 2, 0.97, 0.02)
    for hints in (rng.random(ROUNDS), np.round(rng.random(ROUNDS), 1), rng.beta(0.1, 0.1, ROUNDS), switching):
        honest = rng.random(ROUNDS) < hints
        yield hints, honest.astype(np.uint8)
        yield hints, (~honest).astype(np.uint8)


def check_replay(config, hints, outcomes):
    replayed, asked = fresh(config), fresh(config)
    forecasts = replayed.replay(outcomes, hints)
    for y, hint, p in zip(outcomes.tolist(), hints.tolist(), forecasts.tolist(), strict=True):
        token = asked.forecast(hint)
        assert token.probability == p
        asked.observe(token, y)
    assert in_use(replayed.memory).tolist() == in_use(asked.memory).tolist()


@pytest.mark.parametrize("config", CONFIGS)
def test_a_hinted_replay_is_what_happens_round_by_round(config):
    for hints, outcomes in streams(0):
        check_replay(config, hints, outcomes)


def test_a_grid_finer_than_the_guide():
    # few distinct hints for long: the finer grid is soon beyond what a guide has room for
    rng = np.random.default_rng(2)
    hints = np.concatenate([np.full(60_000, 0.5), rng.random(8192)])
    check_replay({}, hints, (rng.random(len(hints)) < 0.5).astype(np.uint8))


def far_in_odds(cell, target, n_cells):
    """By how many times its nearer end misses a target's odds; beyond that, of 0 and 1, how far it is."""
    near, target = min(max(Fraction(target), cell), cell + 1), Fraction(target)
    if near == target:
        return 0, 1
    below, above = min(near, target), max(near, target)
    if below == 0 or above == n_cells:
        return 1, above - below
    return 0, above * (n_cells - below) / below / (n_cells - above)


@settings(max_examples=examples(100), deadline=None)
@example(2, 1, 1, 0.5)
@example(4096, 1, 3, 0.003)
@given(
    st.integers(1, 9000) | st.sampled_from([64, 4096]),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 3, 40]),
    st.floats(0, 1),
)
def test_the_nearest_marked_cell_is_the_nearest_of_all(n_cells, seed, number, hint):
    rng = np.random.default_rng(seed)
    guide = [0] * (5 + marks_length(n_cells))
    first, last = sorted(rng.integers(-3, n_cells + 3, 2).tolist())
    mark_run(guide, 5, n_cells, first, last)
    marked = set(range(max(first, 0), min(last, n_cells - 1) + 1))
    for cell in rng.integers(0, n_cells, number).tolist():
        on = int(rng.random() < 0.5)
        mark(guide, 5, cell, on)
        marked = marked | {cell} if on else marked - {cell}
    if not marked:
        return
    target = hint * n_cells
    home = min(int(target), n_cells - 1)
    # a hint on the border of two cells is in the upper one
    nearest = min(marked, key=lambda x: (max(x - target, target - x - 1, 0.0), x != home, x))
    assert nearest_marked(guide, 5, n_cells, target, False) == nearest
    if n_cells & (n_cells - 1) == 0:
        nearest = min(marked, key=lambda x: (far_in_odds(x, target, n_cells), x != home, x))
        assert nearest_marked(guide, 5, n_cells, target, True) == nearest


@given(st.integers(1, 2**64 - 1))
def test_lowest_and_highest_bit(word):
    places = [place for place in range(64) if word >> place & 1]
    for same in (word, word - (1 << 64) * (word >> 63)):
        assert (lowest_bit(same), highest_bit(same)) == (places[0], places[-1])


@pytest.mark.parametrize("hinted", [True, False])
@pytest.mark.parametrize(
    "config", [{"n_cells": 51}, {"n_cells": 40, "slack": 0.75}, {}, {"window": 9}], ids=str
)
def test_an_interrupted_replay_leaves_a_forecaster_as_it_was(monkeypatch, config, hinted):
    hints, outcomes = next(streams(4))
    forecaster, whole = fresh(config, hinted), fresh(config, hinted)
    given = (hints,) if hinted else ()
    for one in (forecaster, whole):
        one.replay(outcomes, *given)
    name = "replay_shares" if "window" in config else "replay_hinted" if hinted else "replay"
    machine, replay = forecaster.machine, getattr(forecaster.machine, name)

    def interrupted(*arguments):
        replay(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(machine, name, staticmethod(interrupted))
        with pytest.raises(KeyboardInterrupt):
            forecaster.replay(outcomes, *given)
    assert forecaster.memory.tolist() == whole.memory.tolist()
    assert forecaster.window_certificate == whole.window_certificate
    assert forecaster.predict_proba_one({}) == whole.predict_proba_one({})
    assert forecaster.replay(outcomes, *given).tolist() == whole.replay(outcomes, *given).tolist()
