"""Windows with outcomes in [0, 1]: the units change at the first one, and the window with them."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import AlmostOneStepAhead, calibration_distance, expected_calibration_error
from onlinecal.forecasters.binary.cells import AT_HINT, REPORT
from tests.forecasters.configurations import ANYTIME, RULES, UNIFORM, fresh, label
from tests.properties import examples

TOLERANCE = 1e-9
ROUNDED = 2.0**-26
"""What rounding an outcome to 2^-28 may change, in its distance and its bias."""

windows = st.integers(1, 60)
settings_of = st.sampled_from(RULES + UNIFORM[2::4] + ANYTIME)


def wins_then_shares(wins, number, seed):
    """Outcomes 0 and 1, then shares among which such outcomes are, and hints."""
    rng = np.random.default_rng(seed)
    kinds = rng.beta(0.5, 0.5, number), rng.integers(0, 9, number) / 8, rng.integers(0, 2, number)
    shares = np.choose(rng.integers(0, 3, number), kinds)
    return np.concatenate([rng.integers(0, 2, wins), shares]), rng.random(wins + number)


outcomes_and_hints = st.builds(
    wins_then_shares, st.integers(0, 70), st.integers(1, 70), st.integers(0, 2**32 - 1)
)


def brute_force(settled, window):
    """The certificate of the last rounds, from what was announced and charged; and their number."""
    p, q, y = (np.array(part) for part in zip(*settled[-window:], strict=True))
    return np.abs(p - q).sum() + expected_calibration_error(q, y), len(p)


def check(forecaster, settled, window, exact=False):
    due, number = brute_force(settled, window)
    found = forecaster.window_certificate
    assert abs(found - due) <= number * ROUNDED + TOLERANCE
    if forecaster.window_guarantee is not None:
        assert found <= forecaster.window_guarantee + TOLERANCE
    if exact:
        p, _, y = zip(*settled[-window:], strict=True)
        assert calibration_distance(p, y).lower <= found + number * ROUNDED + TOLERANCE


@settings(max_examples=examples(60), deadline=None)
@given(settings_of, windows, outcomes_and_hints, st.booleans())
def test_the_certificate_is_that_of_the_look_ahead_in_the_window(config, window, played, hinted):
    outcomes, hints = played
    forecaster, settled = fresh({**config, "window": window}, hinted), []
    for t, (y, hint) in enumerate(zip(outcomes, hints, strict=True)):
        token = forecaster.forecast(hint if hinted else None)
        forecaster.observe(token, y)
        settled.append((token.probability, float(np.clip(y, token.lower, token.upper)), y))
        check(forecaster, settled, window, exact=t % 16 == 0)
    whole = fresh({**config, "window": window}, hinted)
    wins = int(np.argmin(np.isin(outcomes, (0, 1)))) if (outcomes % 1).any() else len(outcomes)
    for part in slice(wins), slice(wins, None):
        if len(outcomes[part]):
            whole.replay(outcomes[part], hints[part] if hinted else None)
    assert whole.window_certificate == forecaster.window_certificate
    assert whole._window.rounds.tolist() == forecaster._window.rounds.tolist()
    river = fresh({**config, "window": window}, hinted)
    if not hinted:
        for y in outcomes:
            river.learn_one({}, y)
        assert river.window_certificate == forecaster.window_certificate


@settings(max_examples=examples(60), deadline=None)
@given(settings_of, windows, outcomes_and_hints, st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_late_labels_of_forecasts_in_units_of_before(config, window, played, most, seed):
    rng = np.random.default_rng(seed)
    forecaster, open_, settled = fresh({**config, "window": window}, hints=True), [], []
    for y, hint in zip(*played, strict=True):
        open_.append((forecaster.forecast(hint), y))
        while len(open_) > rng.integers(0, most + 1):
            token, late = open_.pop(rng.integers(len(open_)))
            forecaster.observe(token, late)
            settled.append((token.probability, float(np.clip(late, token.lower, token.upper)), late))
            check(forecaster, settled, window)


@pytest.mark.parametrize("config", RULES + UNIFORM + ANYTIME, ids=label)
def test_units_change_exactly(config):
    """Points, changes, and distances on the grid to the bit; those of hints are rounded up by 2^-31 each."""
    outcomes, hints = wins_then_shares(90, 1, 5)
    forecaster = fresh({**config, "window": 50}, hints=True)
    forecaster.replay(outcomes[:90], hints[:90])
    before, certificate = forecaster._window.rounds, forecaster.window_certificate
    unit, grain = int(forecaster.memory[1]), int(forecaster.memory[6])
    forecaster._expect_shares()
    after, finer = forecaster._window.rounds, int(forecaster.memory[1]) // unit
    assert np.array_equal(after[:, :3], before[:, :3] * [1, finer, finer])
    old, new = unit * grain, finer * unit * int(forecaster.memory[6])
    over = [int(b) * old - int(a) * new for a, b in zip(before[:, 3], after[:, 3], strict=True)]
    assert all(0 <= one < old for one in over)
    if forecaster.memory[REPORT] != AT_HINT:
        assert not any(over)
        assert forecaster.window_certificate == pytest.approx(certificate, rel=1e-15)
    assert certificate * (1 - 1e-15) <= forecaster.window_certificate <= certificate + 50 * 2.0**-31
    again = pickle.loads(pickle.dumps(forecaster))
    assert again.window_certificate == forecaster.window_certificate


def test_a_surprise_is_one_in_all_units():
    forecaster = AlmostOneStepAhead(window=10, n_cells=3)
    forecaster._window.note_surprise(1)
    forecaster._expect_shares()
    assert forecaster._window.certificate(forecaster.memory, 1) == 1.0


@pytest.mark.parametrize("n_cells", [1, 2, 3, 1000, 1 << 20])
@pytest.mark.parametrize("report", ["midpoint", "hint"])
def test_the_dearest_rounds_are_kept_and_loaded(n_cells, report):
    """Outcomes just below 1 for hints of 0, at every width of the cells: whatever is noted can be loaded."""
    forecaster = AlmostOneStepAhead(window=5, n_cells=n_cells, report=report, hints=True)
    dearest = [(1, 0.0), (0, 1.0), (1 - 2.0**-53, 0.0), (2.0**-60, 1.0), (1 - 2.0**-29.5, 0.0)]
    for _ in range(2):
        for y, hint in dearest:
            forecaster.observe(forecaster.forecast(hint), y)
        again = pickle.loads(pickle.dumps(forecaster))
        assert again.window_certificate == forecaster.window_certificate


def test_a_window_in_units_of_before_is_no_window_of_the_memory():
    forecaster = AlmostOneStepAhead(window=10)
    forecaster.replay([0, 1, 1])
    window = copy.deepcopy(forecaster._window)
    forecaster._expect_shares()
    with pytest.raises(ValueError, match="window"):
        AlmostOneStepAhead.__new__(AlmostOneStepAhead).__setstate__(
            {**forecaster.__getstate__(), "_window": window}
        )
