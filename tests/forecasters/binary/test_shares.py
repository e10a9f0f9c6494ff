"""Outcomes in [0, 1]: the theorems hold word for word; labels of every kind; clear refusals."""

import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onlinecal import AlmostOneStepAhead, OneStepAhead
from tests.forecasters.configurations import ANYTIME, UNIFORM, configs, fresh, sequences
from tests.properties import examples

QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
TOLERANCE = 300 * 2.0**-28
"""What rounding outcomes to 2^-28 may cost in 300 rounds."""

shares = st.one_of(
    st.lists(st.sampled_from(QUARTERS), min_size=1, max_size=200),
    st.lists(st.floats(0, 1), min_size=1, max_size=60),
    st.builds(
        lambda seed, a, b: np.random.default_rng(seed).beta(a, b, 300).tolist(),
        st.integers(0, 2**32 - 1),
        st.floats(0.1, 4),
        st.floats(0.1, 4),
    ),
)


def distance_bound(forecasts, charged, outcomes):
    """Sum |p - p~| plus the biases of the charged sequence, from their definition."""
    points, place = np.unique(charged, return_inverse=True)
    biases = np.bincount(place, charged - outcomes, len(points))
    return np.abs(forecasts - charged).sum() + np.abs(biases).sum()


@settings(max_examples=examples(200), deadline=None)
@given(configs, shares, st.booleans(), st.integers(0, 99))
def test_the_certificate_is_what_it_says_and_below_the_guarantee(config, outcomes, hinted, seed):
    outcomes = np.array(outcomes)
    hints = np.random.default_rng(seed).random(len(outcomes)) if hinted else None
    forecaster = fresh(config, hinted)
    forecasts, charged = forecaster.replay(outcomes, hints, return_look_ahead=True)
    assert abs(forecaster.certificate - distance_bound(forecasts, charged, outcomes)) <= TOLERANCE
    assert forecaster.certificate <= forecaster.guarantee + TOLERANCE
    assert ((charged >= 0) & (charged <= 1)).all()


@pytest.mark.parametrize("shares", [QUARTERS[::2], pytest.param(QUARTERS, marks=pytest.mark.slow)], ids=len)
@pytest.mark.parametrize("config", [*UNIFORM[::3], *ANYTIME[6::4]])
def test_on_all_short_sequences_of_shares_bounds_hold(config, shares):
    for outcomes in product(shares, repeat=4):
        forecaster = fresh(config)
        forecaster.replay(outcomes)
        assert forecaster.certificate <= forecaster.guarantee + TOLERANCE


@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from(UNIFORM), st.one_of(sequences(), shares))
def test_without_hints_no_point_of_a_uniform_grid_is_ever_biased_beyond_the_slack(config, outcomes):
    forecaster = AlmostOneStepAhead(**{**config, "report": "midpoint", "hints": False})
    bound = 1.0 if config.get("rule") == "sign" else config.get("slack", 0.5)
    for y in outcomes:
        forecaster.learn_one({}, y)
        points, biases = forecaster.look_ahead
        assert np.abs(biases).max() <= bound
        if config.get("rule") == "sign":
            assert ((points - 1.0 - TOLERANCE <= biases) & (biases <= points + TOLERANCE)).all()


@settings(max_examples=examples(120), deadline=None)
@example({"grid": "nested"}, [0.25], 0)
@example({"horizon": 200}, [0, 1, 1, 0.25, 1], 0)
@given(configs, st.one_of(sequences(longest=200), shares), st.integers(0, 99))
def test_replay_tokens_and_river_are_the_same_game(config, outcomes, seed):
    outcomes = np.array(outcomes).tolist()
    hints = np.random.default_rng(seed).random(len(outcomes))
    slip = 0.0 if set(outcomes) <= {0, 1} else TOLERANCE
    replayed, river, plain = fresh(config), fresh(config), fresh(config)
    for y, p in zip(outcomes, replayed.replay(outcomes), strict=True):
        assert river.predict_proba_one({})[True] == p
        river.learn_one({}, y)
        token = plain.forecast()
        assert token.probability == p
        plain.observe(token, y)
    assert plain.certificate == river.certificate
    assert abs(river.certificate - replayed.certificate) <= slip
    hinted, tokens = fresh(config, hints=True), fresh(config, hints=True)
    for y, hint, p in zip(outcomes, hints, hinted.replay(outcomes, hints), strict=True):
        tokens = pickle.loads(pickle.dumps(tokens))
        token = tokens.forecast(hint)
        assert token.probability == p
        tokens.observe(token, y)
    assert abs(tokens.certificate - hinted.certificate) <= slip


@pytest.mark.parametrize(
    "config", [{"n_cells": 7}, {"n_cells": 7, "rule": "sign"}, {"horizon": 200}, {}], ids=str
)
def test_the_first_share_changes_the_units_and_nothing_else(config):
    """A share of 0 in all but name, as it rounds to 0: the run goes on as with the outcome 0."""
    bits = np.random.default_rng(1).integers(0, 2, 100)
    shared, plain = fresh(config, hints=True), fresh(config, hints=True)
    for forecaster, zero in ((shared, 1e-12), (plain, 0)):
        forecaster.replay(bits)
        waiting = forecaster.forecast(0.4)
        forecaster.observe(forecaster.forecast(0.4), zero)
        forecaster.observe(waiting, 1)
    assert shared.replay(bits, bits / 2).tolist() == plain.replay(bits, bits / 2).tolist()
    assert (shared.look_ahead.points == plain.look_ahead.points).all()
    assert (shared.look_ahead.biases == plain.look_ahead.biases).all()
    assert plain.certificate <= shared.certificate <= plain.certificate + TOLERANCE


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
        ({"n_cells": 0}, "n_cells"),
        ({"grid": "square"}, "grid must be one of auto, uniform, graded, nested, adaptive, got 'square'"),
        ({"rule": "fair"}, "rule must be one of"),
        ({"report": "middle"}, "report must be one of"),
        ({"slack": 0.4}, "slack must be a number from 0.5"),
        ({"grid": "uniform"}, "needs a horizon, n_cells or a window, got none"),
        ({"grid": "adaptive", "n_cells": 5}, "fixes a uniform grid"),
        ({"grid": "graded", "horizon": 9, "n_cells": 5}, "n_cells=5 fixes a uniform grid"),
        *(
            ({"horizon": 100, "grid": "graded", **other}, "grid 'graded'")
            for other in ({"report": "midpoint"}, {"hints": True}, {"rule": "sign"}, {"horizon": None})
        ),
        *(({"window": window}, "window") for window in (0, 2.5, True, "10", (1 << 24) + 1)),
    ],
)
def test_bad_parameters_are_refused_by_name(parameters, message):
    with pytest.raises(ValueError, match=message):
        AlmostOneStepAhead(**parameters)


def test_a_reference_of_midpoints_refuses_the_grid_whose_cells_report_their_ends():
    with pytest.raises(ValueError, match="uniform, nested, adaptive, got 'graded', whose cells report"):
        OneStepAhead(100, grid="graded")
