"""From the first hint on the default follows hints; without one, or told otherwise, it is what it was."""

import copy
import pickle

import numpy as np
import pytest

from onlinecal import SimplexAlmostOneStepAhead

CONFIGS = [
    {"n_classes": 3},
    {"n_classes": 4, "horizon": 400},
    {"n_classes": 3, "n_cells": 9},
    {"n_classes": 3, "slack": 1.5},
    {},
    {"horizon": 400},
]


def honest(k, rounds, seed=0):
    """A good model's probabilities, and labels drawn from them."""
    rng = np.random.default_rng(seed)
    hints = rng.dirichlet(np.full(k, 0.5), rounds)
    return hints, np.minimum((hints.cumsum(1) < rng.random(rounds)[:, None]).sum(1), k - 1)


def brier(q, labels):
    return ((q - np.eye(q.shape[1])[labels]) ** 2).sum(1).mean()


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_without_hints_it_is_what_it_was(config):
    _, labels = honest(3, 300)
    silent, named = (
        SimplexAlmostOneStepAhead(**config),
        SimplexAlmostOneStepAhead(**config, report="barycentre"),
    )
    assert np.array_equal(silent.replay(labels), named.replay(labels))
    assert np.array_equal(silent.memory, named.memory)
    assert silent.guarantee == named.guarantee


@pytest.mark.parametrize("before", [0, 1, 150])
@pytest.mark.parametrize("n_open", [0, 3])
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_the_first_hint_may_come_at_any_time(config, before, n_open):
    hints, labels = honest(config.get("n_classes", 3), 600)
    forecaster = SimplexAlmostOneStepAhead(**config)
    for y in labels[:before].tolist():
        forecaster.learn_one({}, y)
    early = [(forecaster.forecast(), int(y)) for y in labels[before : before + n_open]]
    for t in range(before + n_open, 600):
        known = forecaster.classes
        masses = hints[t][known] if known else None
        token = forecaster.forecast(None if masses is None else masses / masses.sum())
        forecaster.observe(token, int(labels[t]))
        if early and t % 7 == 0:
            forecaster.observe(*early.pop())
        assert forecaster.certificate <= forecaster.guarantee + 1e-9
        if t == 300:
            forecaster = copy.deepcopy(pickle.loads(pickle.dumps(forecaster)))
            early = []
    assert forecaster._run.follows


@pytest.mark.parametrize("k", [3, 4])
def test_hints_of_a_good_model_are_not_ruined(k):
    """Within 2 % of their Brier score; barycentres without slack, the default before, lose a quarter."""
    hints, labels = honest(k, 4000)
    now = SimplexAlmostOneStepAhead(k).replay(labels, hints)
    before = SimplexAlmostOneStepAhead(k, report="barycentre").replay(labels, hints)
    assert brier(now, labels) <= 1.02 * brier(hints, labels)
    assert brier(before, labels) >= 1.25 * brier(hints, labels)


def test_a_named_report_and_a_slack_are_kept():
    hints, labels = honest(3, 200)
    barycentres = SimplexAlmostOneStepAhead(3, n_cells=6, report="barycentre")
    barycentres.replay(labels, hints)
    assert not barycentres._run.follows
    narrow = SimplexAlmostOneStepAhead(3, slack=1.0)
    wide = SimplexAlmostOneStepAhead(3, slack=1.0, report="hint")
    assert np.array_equal(narrow.replay(labels, hints), wide.replay(labels, hints))
    assert narrow.guarantee == wide.guarantee


def test_a_bad_hint_is_no_first_hint():
    forecaster = SimplexAlmostOneStepAhead(3)
    with pytest.raises(ValueError, match="hint must be numbers"):
        forecaster.forecast([0.5, 0.4, 0.4])
    assert not forecaster._run.follows
    assert forecaster.guarantee == SimplexAlmostOneStepAhead(3).guarantee
