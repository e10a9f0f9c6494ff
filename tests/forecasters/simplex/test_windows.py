"""Windows (Theorem 21), of labels and of distributions: every short sequence, and the bookkeeping."""

import copy
import pickle
from functools import cache
from itertools import product

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead, SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex.guarantees import window_cells, window_guarantee
from onlinecal.forecasters.simplex.machine.memory import ROUNDS
from onlinecal.forecasters.simplex.machine.windows import RING, held
from onlinecal.forecasters.simplex.run import SimplexRun
from tests.forecasters.simplex.play import lattice, outcomes_of, parts_of, worth
from tests.measures.distance.reference import distance_by_set_partitions
from tests.parts import part_of
from tests.properties import one_in

pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.remarks.GuaranteeWarning")
TOLERANCE = 1e-9


@cache
def distance(forecasts, outcomes):
    """The distance to calibration, by the cheapest of all groupings of the rounds."""
    return distance_by_set_partitions(forecasts, np.eye(len(forecasts[0]))[list(outcomes)])


def every_game(run, length, played=()):
    """All prefixes of all k^length games, each once: (forecast, outcome) of their rounds, just played."""
    state = run.memory, run.table
    p = tuple(run.current())
    for y in range(len(p)):
        run.memory, run.table = (part.copy() for part in state)
        run.advance(y)
        game = (*played, (p, y))
        yield game
        if len(game) < length:
            yield from every_game(run, length, game)


@pytest.mark.parametrize(("k", "length", "window"), [(3, 6, w) for w in (1, 2, 4)] + [(4, 4, 3), (2, 9, 5)])
def test_every_window_of_every_sequence_is_below_its_bounds(k, length, window):
    for cells in (None, 3):
        one = SimplexAlmostOneStepAhead(k, window=window, n_cells=cells)._new_run()
        promised = one.window_guarantee
        for game in every_game(one, length):
            forecasts, outcomes = zip(*game[-window:], strict=True)
            assert distance(forecasts, outcomes) <= one.window_certificate + TOLERANCE
            assert one.window_certificate <= promised + TOLERANCE


SETTINGS = [
    (3, {}, False),
    (3, {"slack": 1.0, "report": "barycentre"}, True),
    (4, {"slack": 2.0, "report": "hint", "n_cells": 3}, True),
    (5, {"horizon": 200}, False),
    (2, {"n_cells": 9}, True),
]


COMES = [(13, 0.0, 0), (90, 0.0, 5), (1, 0.5, 0), (60, 0.5, 0), (60, 0.5, 5)]


@pytest.mark.parametrize(("setting", "come"), one_in(5, SETTINGS, COMES))
def test_the_certificate_is_that_of_the_window(setting, come):
    """Of labels and of distributions, which come after a while, in time and late, in any order."""
    (k, config, hinted), (window, soft, late) = setting, come
    rng, waiting, settled, largest = np.random.default_rng(window), [], [], 0.0
    numbers = outcomes_of("drift", k, 200, window)
    labels = np.eye(k)[numbers]
    mixed = (rng.random(200) < soft) & (np.arange(200) > 30)
    labels[mixed] = rng.multinomial(64, np.full(k, 1 / k), mixed.sum()) / 64
    hints = rng.dirichlet(np.full(k, 0.6), 200)
    forecaster = SimplexAlmostOneStepAhead(k, window=window, hints=hinted, **config)
    whole, in_time = copy.deepcopy(forecaster), part_of(forecaster, SimplexRun).window_promise(0)
    for t, y in enumerate(labels):
        waiting.append((forecaster.forecast(hints[t] if hinted else None), y))
        while len(waiting) > rng.integers(0, late + 1):
            token, y = waiting.pop(rng.integers(len(waiting)))
            forecaster.observe(token, y if y.max() < 1.0 else int(y.argmax()))
            settled.append(parts_of(token, y))
            due, found = worth(settled[-window:]), forecaster.window_certificate
            assert due - TOLERANCE <= found <= due + window * 2.0**-26 + TOLERANCE
            assert found <= forecaster.window_guarantee + TOLERANCE
            largest = max(largest, found)
        if t % 40 == 0:
            forecaster = pickle.loads(pickle.dumps(forecaster))
    assert largest > 0.1 * forecaster.window_guarantee
    if late:
        assert part_of(forecaster, SimplexRun).window_promise(0) > in_time
        return
    plain = SimplexAlmostOneStepAhead(
        k, **{**config, "hints": hinted, "n_cells": whole._new_run().grid_at(1)[0]}
    )
    played = list(labels) if soft else numbers
    forecasts = [one.replay(played, hints if hinted else None) for one in (whole, plain)]
    assert np.array_equal(*forecasts)
    assert whole.certificate == plain.certificate
    assert whole.window_certificate == pytest.approx(forecaster.window_certificate, abs=window * 2.0**-26)
    # labels go on being played one point a round
    assert whole.replay(np.arange(50) % k, return_look_ahead=True)[1].shape == (50, k)


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


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *((0, 11), (1, 1 << 40), (1, 0), (2, 16), (3, 1 << 40), (3, 4), (4, 0), (-1, 1)),
        *((RING, 99), (RING + 1, 3), (RING + 2, 0), (RING + 3, -1), (RING + 7, -1)),
    ],
)
def test_a_window_from_outside_is_checked(place, value):
    forecaster = SimplexAlmostOneStepAhead(3, window=10)
    forecaster.replay([0, 1, 2, 2, 1])
    assert len(held(part_of(forecaster, SimplexRun).table)) == forecaster.memory[ROUNDS] == 5
    for broken in (place, None):
        other = copy.deepcopy(forecaster)
        run = part_of(other, SimplexRun)
        if broken is None:
            run.table = run.table.astype(float)
        else:
            run.table[place] = value
        with pytest.raises(ValueError, match="window"):
            pickle.loads(pickle.dumps(other))


@pytest.mark.parametrize(("k", "n", "length", "window"), [(2, 4, 3, 2), (3, 2, 3, 2)])
def test_every_window_of_short_sequences_of_soft_labels_is_below_the_guarantee(k, n, length, window):
    forecaster = SimplexAlmostOneStepAhead(k, window=window, n_cells=3)
    fresh = pickle.dumps(forecaster)
    for played in product(lattice(k, n), repeat=length):
        forecaster = pickle.loads(fresh)
        for y in played:
            forecaster.learn_one({}, y)
            assert forecaster.window_certificate <= forecaster.window_guarantee + TOLERANCE
