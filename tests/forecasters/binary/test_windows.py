"""Windows (Theorem 25), of outcomes and of shares: every short sequence, and the bookkeeping."""

import copy
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import AlmostOneStepAhead, calibration_distance, expected_calibration_error
from onlinecal.forecasters.binary.cells import MOVED
from onlinecal.forecasters.binary.windows import (
    CHANGE_SUM,
    DISTANCE_SUM,
    MEMORY_FINE,
    MEMORY_SCALE,
    SLOT_BITS,
    SLOTS_USED,
    Window,
    book,
    new_table,
)
from tests.forecasters.configurations import (
    ANYTIME,
    RULES,
    UNIFORM,
    every_game,
    exact_distance,
    fresh,
    hinted_sequences,
)
from tests.parts import part_of
from tests.properties import examples, inside

TOLERANCE = 1e-9
LENGTH, LONGER = 8, 12


def distance(forecasts, outcomes):
    return calibration_distance(forecasts, outcomes, method="exact").exact


def promised(config, window):
    length = 1.0 if config.get("rule") == "sign" else 2 * config.get("slack", 0.5)
    reach = 0.5 if config.get("report", "midpoint") == "midpoint" else 1.0
    return 2 * math.sqrt(length * reach * window) * (1 + 1e-9)


OTHERS = [RULES[0], RULES[3], RULES[6], RULES[7], {"grid": "adaptive"}, {"grid": "nested", "report": "lower"}]
SHORT = [*(({}, window) for window in range(1, LENGTH + 1)), *zip(OTHERS, (2, 4, 5, 6, 7, 8), strict=True)]
LONG = [
    pytest.param(one, w, LONGER, marks=pytest.mark.slow)
    for one in [{}, *RULES, *ANYTIME]
    for w in range(1, LONGER + 1)
]


@pytest.mark.parametrize(("config", "window", "length"), [*((*one, LENGTH) for one in SHORT), *LONG])
def test_every_window_of_every_sequence_is_below_its_bounds(config, window, length):
    """The last rounds of every prefix: so every window of all sequences of that length."""
    forecaster = fresh({**config, "window": window})
    for game in every_game(forecaster, length):
        assert exact_distance(game[-window:]) <= forecaster.window_certificate + TOLERANCE
        if "grid" not in config:
            assert forecaster.window_certificate <= forecaster.window_guarantee + TOLERANCE
            assert forecaster.window_guarantee <= promised(config, window)


def test_the_guarantee_is_the_square_root_of_twice_the_window():
    for window in [*range(1, 200), 10**4, 10**6, 1 << 24]:
        forecaster = AlmostOneStepAhead(window=window, grid="uniform")
        assert forecaster.window_guarantee <= math.sqrt(2 * window) * (1 + 1e-12)
        cells, before = math.ceil(math.sqrt(window / 2)), forecaster.window_guarantee
        assert len(forecaster.look_ahead.points) == 1 + cells
        # Lemma 24: with three others open every inner point's bias has that much more room
        for _ in range(4):
            forecaster.forecast()
        assert forecaster.window_guarantee == pytest.approx(before + 3 * (cells - 1))


windows = st.integers(1, 60)
settings_of = st.sampled_from(RULES + UNIFORM[2::4] + ANYTIME)


def play_late(forecaster, outcomes, hints, most, rng):
    """Settle in random order, with up to `most` others open: then what was announced, charged and came."""
    open_, settled = [], []
    for y, hint in zip(outcomes, hints, strict=True):
        open_.append((forecaster.forecast(hint), y))
        while len(open_) > rng.integers(0, most + 1):
            token, late = open_.pop(rng.integers(len(open_)))
            forecaster.observe(token, late)
            settled.append((token.probability, float(np.clip(late, token.lower, token.upper)), late))
            yield settled


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(RULES), windows, hinted_sequences(longest=250), st.sampled_from([0, 3]))
def test_points_that_are_free_may_add_what_the_guarantee_says(config, window, played, most):
    """The guarantee holds for points without bias that accept both outcomes, covered or not."""
    forecaster = fresh({**config, "window": window}, hints=True)
    for _ in play_late(forecaster, *played, most, np.random.default_rng(0)):
        forecaster.memory[MOVED] = 0  # as if the reports had saved all distance: free for ever
        assert forecaster.window_certificate <= forecaster.window_guarantee + TOLERANCE


def test_rounds_that_were_played_without_the_window_count_fully():
    """A compiled loop may have played on the memory alone: a distance of 1 each, while in the window."""
    forecaster = AlmostOneStepAhead(window=10)
    forecaster.replay([0, 1] * 20)
    other = copy.deepcopy(forecaster)
    other.replay([1, 1, 0, 1])
    forecaster.memory = other.memory.copy()
    forecaster._resume()
    assert 4.0 <= forecaster.window_certificate <= 10.0
    forecaster.replay([1] * 10)
    other.replay([1] * 10)
    assert forecaster.window_certificate == other.window_certificate


@pytest.mark.parametrize(
    ("part", "place", "value"),
    [
        *(("head", place, value) for place, value in ((3, 7), (0, 9))),
        *(("rounds", place, value) for place, value in (((2, 1), -1), ((2, 1), 1 << 40), ((2, 0), 0))),
        *((part, None, None) for part in ("type", "units of before")),
    ],
)
def test_a_window_from_outside_is_checked(part, place, value):
    forecaster = AlmostOneStepAhead(window=10)
    forecaster.replay([0, 1, 1, 0, 1])
    state = forecaster.__getstate__()
    (name,) = (name for name, kept in state.items() if isinstance(kept, Window))
    inner, window = copy.deepcopy(state[name].__getstate__()), Window.__new__(Window)
    if part == "units of before":
        state["memory"] = forecaster.machine.rules.refined(forecaster.memory, 0.5)
    elif part == "type":
        inner["rounds"] = inner["rounds"].astype(float)
    else:
        inner[part][place] = value

    def load():
        window.__setstate__(inner)
        forecaster.__setstate__({**state, name: window})

    with pytest.raises(ValueError, match="window"):
        load()


ROUNDED = 2.0**-26
"""What rounding an outcome to 2^-28 may change, in its distance and its bias."""


def wins_then_shares(wins, number, seed):
    """Outcomes 0 and 1, then shares among which such outcomes are, and hints."""
    rng = np.random.default_rng(seed)
    kinds = rng.beta(0.5, 0.5, number), rng.integers(0, 9, number) / 8, rng.integers(0, 2, number)
    shares = np.choose(rng.integers(0, 3, number), kinds)
    return np.concatenate([rng.integers(0, 2, wins), shares]), rng.random(wins + number)


outcomes_and_hints = st.one_of(
    hinted_sequences(longest=150),
    st.builds(wins_then_shares, st.integers(0, 70), st.integers(1, 70), st.integers(0, 2**32 - 1)),
)


def brute_force(settled, window):
    """The certificate of the last rounds, from what was announced and charged; and their number."""
    p, q, y = (np.array(part) for part in zip(*settled[-window:], strict=True))
    return np.abs(p - q).sum() + expected_calibration_error(inside(q), y, normalize=False), len(p)


def check(forecaster, settled, window, exact=False):
    due, number = brute_force(settled, window)
    found = forecaster.window_certificate
    whole = all(y in (0, 1) for _, _, y in settled)
    slip = TOLERANCE + (0.0 if whole else number * ROUNDED)
    assert due - slip <= found <= due + slip + window * 2.0**-31
    if forecaster.window_guarantee is not None:
        assert found <= forecaster.window_guarantee + TOLERANCE
    if exact:
        p, _, y = zip(*settled[-window:], strict=True)
        lower = distance(p, np.array(y, int)) if whole else calibration_distance(inside(p), y).lower
        assert lower <= found + slip


@settings(max_examples=examples(100), deadline=None)
@given(
    settings_of,
    windows,
    outcomes_and_hints,
    st.booleans(),
    st.sampled_from([0, 0, 1, 8]),
    st.integers(0, 2**32 - 1),
)
def test_the_certificate_is_that_of_the_window(config, window, played, hinted, most, seed):
    """In time or late, in any order, also of forecasts in units of before; in events and in replays.

    The window is of settled rounds; the guarantee takes one more a point for each other open forecast.
    """
    outcomes, hints = played
    forecaster = fresh({**config, "window": window}, hinted)
    guides = hints if hinted else [None] * len(outcomes)
    for t, settled in enumerate(play_late(forecaster, outcomes, guides, most, np.random.default_rng(seed))):
        check(forecaster, settled, window, exact=t % 16 == 0)
    if most:
        return
    whole = fresh({**config, "window": window}, hinted)
    wins = int(np.argmin(np.isin(outcomes, (0, 1)))) if (outcomes % 1).any() else len(outcomes)
    m = len(whole.look_ahead.points) - 1
    plain = fresh({**config, "n_cells": m} if "grid" not in config else config, hinted)
    for part in slice(wins), slice(wins, None):
        for one in (whole, plain):
            if len(outcomes[part]):
                one.replay(outcomes[part], hints[part] if hinted else None)
    assert plain.certificate == whole.certificate
    assert whole.window_certificate == forecaster.window_certificate
    assert part_of(whole, Window).rounds.tolist() == part_of(forecaster, Window).rounds.tolist()
    if not hinted:
        river = fresh({**config, "window": window})
        for y in outcomes:
            river.learn_one({}, y)
        assert river.window_certificate == forecaster.window_certificate


def test_distances_are_rounded_up_where_units_become_finer():
    forecaster = AlmostOneStepAhead(n_cells=7, window=40, hints=True, report="hint")
    rng = np.random.default_rng(0)
    for _ in range(40):
        forecaster.observe(forecaster.forecast(rng.random()), int(rng.random() < 0.5))

    def distances():
        window = part_of(forecaster, Window)
        unit, grain = (int(window.table[place]) for place in (MEMORY_SCALE, MEMORY_FINE))
        return [Fraction(int(moved), 2 * unit * grain) for moved in window.rounds[:, 3]]

    before = distances()
    forecaster.observe(forecaster.forecast(rng.random()), 0.3)
    after = distances()
    assert all(new >= old for new, old in zip(after[:-1], before[1:], strict=True))


def test_points_that_share_a_slot_of_the_table_keep_sums_of_their_own():
    rounds = [(point, 1 + point) for point in range(200)] + [(point, -1) for point in range(0, 200, 3)]
    table, biases = new_table(len(rounds), unit=1 << 20, grain=1, room=len(rounds)), {}
    # in so small a table many points have the same first slot
    table[SLOT_BITS] = 8
    for point, change in rounds:
        book(table, point, change, 2)
        biases[point] = biases.get(point, 0) + change
    assert table[SLOTS_USED] == len(biases)
    assert table[CHANGE_SUM] == sum(map(abs, biases.values()))
    assert table[DISTANCE_SUM] == 2 * len(rounds)
