"""Windows of keys: against the exact distance, shared by lanes, stored and loaded."""

import numpy as np
import pytest

from onlinecal import SimplexAlmostOneStepAhead, calibration_distance
from onlinecal.engine import KeyConfig
from onlinecal.measures import multiclass_calibration_distance
from tests.engine.one_key import OneKey

TOLERANCE = 1e-6


def play(state, number, most, shares):
    """Queries and labels, up to `most` others open; from `shares` on a third are shares. The rounds."""
    rng, settled = np.random.default_rng(number), []
    for i in range(number):
        state.ask(f"{number}-{i}", 2 * i, round(rng.random(), 3))
        state.run()
        while len(state.open) > rng.integers(0, most + 1):
            issued = list(state.open.values())[rng.integers(len(state.open))]
            y = int(rng.random() < 0.3 + 0.4 * (i // 40 % 2))
            if shares is not None and i >= shares and i % 3 == 0:
                y = round(rng.random(), 3)
            state.close(issued, y)
            settled.append((issued.probability, y))
            state.run()
    return settled


@pytest.mark.parametrize(
    "config", [{"lanes": 4}, {"slack": 1.0, "report": "hint", "lanes": 3}], ids=["four", "three"]
)
@pytest.mark.parametrize(
    ("most", "shares"),
    [(0, (None,) * 5), (5, (None,) * 5), (5, (None, None, 11, 0, None))],
    ids=["none open", "5 open", "5 open, shares"],
)
def test_the_window_of_a_key_with_lanes(config, most, shares):
    state = OneKey(KeyConfig(window=30, **config))
    for number, first_share in zip((3, 25, 20, 40, 100), shares, strict=True):
        settled = play(state, number, most, first_share)
        found = state.summary()
        if len(settled) >= 30:
            distance = calibration_distance(*zip(*settled[-30:], strict=True))
            assert distance.lower <= found.window_certificate + TOLERANCE
            assert first_share is not None or distance.exact is not None
        assert found.window_certificate <= found.window_guarantee + TOLERANCE
        again = state.again()
        assert again.dump() == state.dump()
        assert again.summary() == found
        state = again


class Twin:
    """A lane's forecaster; after each round its moment, the distance moved, each point's biases."""

    def __init__(self, settings):
        self.forecaster = SimplexAlmostOneStepAhead(labels=LABELS, window=WINDOW, hints=True, **settings)
        self.history = [(0, 0.0, {})]

    def settled(self, moment):
        points, biases = self.forecaster.look_ahead
        known = {tuple(point): bias for point, bias in zip(points.tolist(), biases, strict=True)}
        moved = self.forecaster.certificate - np.abs(biases).sum()
        self.history.append((moment, moved, known))

    def certificate(self, now):
        """Theorem 21 by its definition: of the rounds of the last moments, which are consecutive here."""
        before = max(
            one for one in range(len(self.history)) if self.history[one][0] <= now - WINDOW or not one
        )
        (_, moved, old), (_, then, new) = self.history[before], self.history[-1]
        return then - moved + sum(np.abs(bias - old.get(point, 0.0)).sum() for point, bias in new.items())


LABELS, WINDOW = ("a", "b", "c"), 25


@pytest.mark.parametrize("settings", [{}, {"n_cells": 7, "slack": 1.0, "report": "hint"}], ids=str)
@pytest.mark.parametrize("soft", [False, True])
def test_lanes_of_several_classes_share_a_window(settings, soft):
    rng, waiting, told = np.random.default_rng(len(settings) + soft), [], []
    config = KeyConfig(kind="simplex", classes=LABELS, window=WINDOW, lanes=3, steering=False, **settings)
    state, twins = OneKey(config), [Twin(settings) for _ in range(3)]
    for i in range(160):
        issued = state.ask(str(i), 2 * i, None, None)
        lane = state.key.open[issued.entry].lane
        waiting.append((issued, lane, twins[lane].forecaster.forecast()))
        state.run()
        while len(waiting) > (4 if i % 7 else 0):
            issued, lane, token = waiting.pop(int(rng.integers(len(waiting))))
            assert issued.probability == token.probabilities
            value = LABELS[int(rng.integers(3)) if i < 80 else 0]
            if soft and i > 60 and i % 3 == 0:
                value = dict(zip(LABELS, (0.25, 0.5, 0.25), strict=True))
            state.close(issued, value, None)
            told.append((list(issued.probability.values()), value))
            twins[lane].forecaster.observe(token, value)
            twins[lane].settled(len(told))
            if i % 2:
                state.run()
        state.run()
        if i % 40 == 39:
            again = state.again()
            assert again.dump() == state.dump()
            waiting = [(again.open[issued.id], *rest) for issued, *rest in waiting]
            state = again
        found = state.summary()
        wanted = sum(twin.certificate(len(told)) for twin in twins[: len(state.key.lanes)])
        assert found.window_certificate == pytest.approx(wanted)
        assert found.window_certificate <= found.window_guarantee
    assert len(state.key.lanes) == 3
    assert len(state.key.lanes[2].moments) < min(WINDOW, state.key.lanes[2].rounds)
    rows = [[1.0 * (c == y) if isinstance(y, str) else y[c] for c in LABELS] for _, y in told[-WINDOW:]]
    p = np.array([one for one, _ in told[-WINDOW:]])
    assert multiclass_calibration_distance(p, np.array(rows)).lower <= found.window_certificate + TOLERANCE
