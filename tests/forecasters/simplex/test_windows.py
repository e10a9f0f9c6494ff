"""Windows (Theorem 21), of labels and of distributions: every short sequence, and the bookkeeping."""

import copy
import pickle
from functools import cache
from itertools import product

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead, SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex.guarantees import window_cells, window_guarantee
from onlinecal.forecasters.simplex.machine.table import ROUNDS
from onlinecal.forecasters.simplex.machine.windows import RING, held
from onlinecal.forecasters.simplex.soft_labels import certain
from tests.forecasters.simplex.play import lattice, outcomes_of
from tests.measures.distance.reference import distance_by_set_partitions

pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.remarks.GuaranteeWarning")
TOLERANCE = 1e-9


@cache
def distance(forecasts, outcomes):
    """The distance to calibration, by the cheapest of all groupings of the rounds."""
    return distance_by_set_partitions(forecasts, np.eye(len(forecasts[0]))[list(outcomes)])


def every_game(forecaster, length, played=()):
    """All prefixes of all k^length games, each once: (forecast, outcome) of their rounds, just played."""
    run = forecaster._run
    state = run.memory, run.table
    p = tuple(run.current())
    for y in range(len(p)):
        run.memory, run.table = (part.copy() for part in state)
        forecaster.learn_one({}, y)
        game = (*played, (p, y))
        yield game
        if len(game) < length:
            yield from every_game(forecaster, length, game)


@pytest.mark.parametrize(
    ("k", "length", "window"), [(3, 6, w) for w in (1, 2, 3, 4, 5)] + [(4, 5, 3), (2, 9, 5)]
)
def test_every_window_of_every_sequence_is_below_its_certificate_below_the_guarantee(k, length, window):
    forecaster = SimplexAlmostOneStepAhead(k, window=window)
    finer = SimplexAlmostOneStepAhead(k, window=window, n_cells=3)
    for one in (forecaster, finer):
        promised = one.window_guarantee
        for game in every_game(one, length):
            forecasts, outcomes = zip(*game[-window:], strict=True)
            assert distance(forecasts, outcomes) <= one.window_certificate + TOLERANCE
            assert one.window_certificate <= promised + TOLERANCE


def brute_force(p, q, y, window):
    """The certificate of the last rounds, from what was announced and what was charged."""
    p, q, y = p[-window:], q[-window:], np.eye(p.shape[1])[y[-window:]]
    spread = 0.0
    for point in np.unique(q, axis=0):
        spread += np.abs((q - y)[(q == point).all(axis=1)].sum(axis=0)).sum()
    return np.abs(p - q).sum() + spread


SETTINGS = [
    (3, {}, False),
    (3, {"n_cells": 7}, True),
    (3, {"slack": 1.0, "report": "barycentre", "hints": True}, True),
    (4, {"slack": 2.0, "report": "hint", "hints": True, "n_cells": 3}, True),
    (5, {"horizon": 200}, False),
    (2, {"n_cells": 9}, True),
]


@pytest.mark.parametrize(("k", "config", "hinted"), SETTINGS, ids=str)
@pytest.mark.parametrize("window", [1, 13, 90])
def test_the_certificate_is_that_of_the_look_ahead_in_the_window(k, config, hinted, window):
    rng = np.random.default_rng(window)
    outcomes = outcomes_of("drift", k, 250, window)
    hints = rng.dirichlet(np.full(k, 0.6), 250) if hinted else None
    config = {**config, "hints": hinted}
    whole = SimplexAlmostOneStepAhead(k, window=window, **config)
    p, q = whole.replay(outcomes, hints, return_look_ahead=True)
    step, largest = SimplexAlmostOneStepAhead(k, window=window, **config), 0.0
    for t, y in enumerate(outcomes.tolist()):
        if hinted:
            step.observe(step.forecast(hints[t]), y)
        else:
            step.learn_one({}, y)
        due = brute_force(p[: t + 1], q[: t + 1], outcomes[: t + 1], window)
        assert due - TOLERANCE <= step.window_certificate <= due + window * 2.0**-28 + TOLERANCE
        largest = max(largest, step.window_certificate)
    assert largest <= step.window_guarantee + TOLERANCE
    assert whole.window_certificate == step.window_certificate
    plain = SimplexAlmostOneStepAhead(k, **{**config, "n_cells": whole._run.grid_at(1)[0]})
    assert np.array_equal(plain.replay(outcomes, hints), p)
    assert plain.certificate == whole.certificate


@pytest.mark.parametrize(("slack", "hinted"), [(None, False), (1.0, True)])
def test_late_labels_in_any_order(slack, hinted):
    """The window is of settled rounds; the guarantee includes how far late labels may drive biases."""
    k, rng, open_, settled = 3, np.random.default_rng(3), [], []
    config = {"n_cells": 3, "slack": slack, "report": "barycentre", "hints": hinted}
    forecaster = SimplexAlmostOneStepAhead(k, window=40, **config)
    in_time = forecaster.window_guarantee
    for hint in rng.dirichlet(np.ones(k), 900):
        token = forecaster.forecast(hint if hinted else None)
        # each block of rounds pushes into another corner, and settles together
        open_.append((token, len(settled) // 90 % k))
        while len(open_) > rng.integers(0, 6):
            token, y = open_.pop(rng.integers(len(open_)))
            forecaster.observe(token, y)
            charged = np.array(token.cell.vertices[y]) / token.cell.scale
            settled.append((token.vector, charged, y))
            p, q, y = (np.array(part) for part in zip(*settled[-40:], strict=True))
            assert forecaster.window_certificate == pytest.approx(brute_force(p, q, y, 40), abs=1e-6)
            assert forecaster.window_certificate <= forecaster.window_guarantee + TOLERANCE
    assert forecaster.window_guarantee > in_time


@pytest.mark.parametrize("k", [2, 3, 4, 5, 8])
def test_the_grid_is_the_one_that_is_best_for_windows(k):
    for window in (1, 10, 300, 2000):
        for slack, follows in ((None, False), (1.0, False), (0.25, True)):
            m = window_cells(window, k, slack, follows)
            worths = [window_guarantee(window, k, n, slack, follows) for n in range(1, 90)]
            assert worths[m - 1] == min(worths)


def test_two_classes_have_twice_the_window_of_the_binary_forecaster():
    outcomes = outcomes_of("drift", 2, 1500, 5)
    simplex, binary = SimplexAlmostOneStepAhead(2, n_cells=6, window=60), AlmostOneStepAhead(window=60)
    assert simplex.window_guarantee == 2 * binary.window_guarantee
    for start in range(0, 1500, 50):
        for one in (simplex, binary):
            one.replay(outcomes[start : start + 50])
        assert simplex.window_certificate == pytest.approx(2 * binary.window_certificate, abs=1e-12)


def test_hints_make_the_grid_of_a_window_finer():
    plain, hinted = (SimplexAlmostOneStepAhead(3, window=5000, hints=hints) for hints in (False, True))
    assert hinted._run.grid_at(1)[0] > plain._run.grid_at(1)[0]
    rng = np.random.default_rng(2)
    hinted.replay(rng.integers(0, 3, 500), rng.dirichlet(np.ones(3), 500))
    hinted.replay(rng.integers(0, 3, 200))
    assert 0 < hinted.window_certificate <= hinted.window_guarantee


@pytest.mark.parametrize(
    ("place", "value"), [(0, 11), (1, 1 << 40), (2, 0), (RING, 99), (RING + 1, 3), (-1, 1)]
)
def test_a_window_from_outside_is_checked(place, value):
    forecaster = SimplexAlmostOneStepAhead(3, window=10)
    forecaster.replay([0, 1, 2, 2, 1])
    assert len(held(forecaster.memory, forecaster._run.table, 1)) == forecaster.memory[ROUNDS] == 5
    for broken in (place, None):
        other = copy.deepcopy(forecaster)
        table = other._run.table
        if broken is None:
            other._run.table = table.astype(float)
        else:
            table[place] = value
        with pytest.raises(ValueError, match="window"):
            pickle.loads(pickle.dumps(other))


def test_what_does_not_go_is_refused():
    for window in (0, -1, 2.5, True, "10", (1 << 24) + 1):
        with pytest.raises(ValueError, match="window"):
            SimplexAlmostOneStepAhead(3, window=window)
    with pytest.raises(ValueError, match="window=9 needs n_classes or labels"):
        SimplexAlmostOneStepAhead(window=9)
    with pytest.raises(ValueError, match="window=9 fixes a grid"):
        SimplexAlmostOneStepAhead(3, window=9, grid="adaptive")
    forecaster = SimplexAlmostOneStepAhead(3, window=9)
    forecaster.replay([0, 1, 2])
    before = forecaster.window_certificate
    for bad in (3, -1, None):
        with pytest.raises(ValueError, match="y"):
            forecaster.learn_one({}, bad)
    assert forecaster.window_certificate == before
    assert SimplexAlmostOneStepAhead(3).window_certificate is None
    assert SimplexAlmostOneStepAhead(3).window_guarantee is None


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
def test_every_window_of_short_sequences_of_soft_labels_is_below_the_guarantee(k, n, length, window):
    forecaster = SimplexAlmostOneStepAhead(k, window=window, n_cells=3)
    fresh = pickle.dumps(forecaster)
    for played in product(lattice(k, n), repeat=length):
        forecaster = pickle.loads(fresh)
        for y in played:
            forecaster.learn_one({}, y)
            assert forecaster.window_certificate <= forecaster.window_guarantee + TOLERANCE
