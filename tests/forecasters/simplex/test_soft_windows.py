"""Windows of rounds whose outcomes are distributions over the classes."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest

from onlinecal import SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex.soft_labels import certain
from tests.forecasters.simplex.play import lattice

TOLERANCE = 1e-9
pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.remarks.GuaranteeWarning")


def window_of(settled, window):
    """The certificate of the last rounds, from (token, soft label) and where they were charged."""
    moved, spread = 0.0, {}
    for token, y in settled[-window:]:
        p, scale, k = np.array(token.vector), token.cell.scale, len(y)
        vertices = np.array(token.cell.vertices) / scale
        weights = np.linalg.solve(vertices.T, y)
        if certain(y) is None and weights.min() >= -1e-12:
            moved += np.abs(p - y).sum()
            continue
        for j in np.flatnonzero(y):
            point = tuple(vertices[j])
            moved += y[j] * np.abs(p - vertices[j]).sum()
            spread[point] = spread.get(point, np.zeros(k)) + y[j] * (vertices[j] - np.eye(k)[j])
    return moved + sum(np.abs(bias).sum() for bias in spread.values())


@pytest.mark.parametrize(
    ("k", "config", "hinted"), [(3, {}, False), (3, {"n_cells": 4}, True), (4, {}, False)]
)
@pytest.mark.parametrize("window", [1, 7, 60])
@pytest.mark.parametrize("begin", [0, 30])
def test_windows_of_soft_labels(k, config, hinted, window, begin):
    """The window's certificate is what it stands for, also where labels were played before."""
    rng = np.random.default_rng(window)
    labels = rng.multinomial(64, np.full(k, 1 / k), 200) / 64
    labels[:begin] = np.eye(k)[rng.integers(k, size=begin)]
    labels[::7] = np.eye(k)[rng.integers(k, size=len(labels[::7]))]
    hints = rng.dirichlet(np.ones(k), 200)
    forecaster, settled = SimplexAlmostOneStepAhead(k, window=window, hints=hinted, **config), []
    whole = SimplexAlmostOneStepAhead(k, window=window, hints=hinted, **config)
    for t, y in enumerate(labels):
        settled.append((forecaster.forecast(hints[t] if hinted else None), y))
        forecaster.observe(settled[-1][0], y if y.max() < 1 else int(y.argmax()))
        due = window_of(settled, window)
        assert due - TOLERANCE <= forecaster.window_certificate <= due + window * 2.0**-26
        assert forecaster.window_certificate <= forecaster.window_guarantee + TOLERANCE
        forecaster._run.check()
    whole.replay(labels, hints if hinted else None)
    assert whole.window_certificate == pytest.approx(forecaster.window_certificate, abs=window * 2.0**-26)
    again = pickle.loads(pickle.dumps(forecaster))
    for one in (again, forecaster):
        one.replay(labels[:40])
    assert again.window_certificate == forecaster.window_certificate
    plain = SimplexAlmostOneStepAhead(k, window=window, **config)
    plain.replay(np.arange(50) % k)
    with pytest.raises(ValueError, match="return_look_ahead"):
        forecaster.replay([0, 1], return_look_ahead=True)


@pytest.mark.parametrize(
    ("k", "n", "length", "window"),
    [
        (2, 4, 3, 2),
        (3, 2, 3, 2),
        *(
            pytest.param(*longer, marks=pytest.mark.slow)
            for longer in [(2, 4, 4, 2), (3, 2, 4, 2), (3, 2, 4, 3)]
        ),
    ],
)
def test_every_window_of_every_short_sequence_is_below_the_guarantee(k, n, length, window):
    forecaster = SimplexAlmostOneStepAhead(k, window=window, n_cells=3)
    fresh = pickle.dumps(forecaster)
    for played in product(lattice(k, n), repeat=length):
        forecaster = pickle.loads(fresh)
        for y in played:
            forecaster.learn_one({}, y)
            assert forecaster.window_certificate <= forecaster.window_guarantee + TOLERANCE
