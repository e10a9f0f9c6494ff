"""The simplex machine: compiled, in the interpreter and against the plain reference, bit for bit."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import AlmostOneStepAhead, SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex.input import MIXED, weights_of
from onlinecal.forecasters.simplex.machine import cells
from onlinecal.forecasters.simplex.machine import memory as layout
from onlinecal.forecasters.simplex.machine import rules as machine
from onlinecal.forecasters.simplex.machine.memory import FEWEST_RECORDS, certificate, enlarged, new_memory
from onlinecal.forecasters.simplex.machine.windows import NO_WINDOW
from onlinecal.forecasters.simplex.run import SimplexRun
from tests.forecasters.simplex import play
from tests.forecasters.simplex.reference import Hinted
from tests.properties import examples

SIZES = [(1, 3), (2, 1), (2, 6), (2, 7), (3, 1), (3, 2), (3, 8), (4, 5), (5, 3), (6, 2), (8, 4), (10, 2)]
KINDS = ["coins", "drift", "turns", "constant"]

games = st.tuples(
    st.sampled_from(SIZES), st.sampled_from(KINDS), st.integers(1, 250), st.integers(0, 2**32 - 1)
)


def hints_of(k, rounds, seed):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(k, rng.choice([0.1, 1.0, 10.0])), rounds)


@settings(max_examples=examples(120), deadline=None)
@given(games, st.sampled_from([None, 1.0, 2.5]), st.sampled_from(["no", "near", "followed"]), st.booleans())
def test_compiled_code_and_the_interpreter_agree_bit_for_bit(game, slack, hinted, mixed):
    (k, m), kind, rounds, seed = game
    outcomes, soft, parts = play.outcomes_of(kind, k, rounds, seed), None, 1
    if mixed and k > 1:
        parts, labels = 1 << 12, play.soft_labels(k, rounds, seed)
        weights, rounded = weights_of(labels, parts)
        soft = weights, parts, rounded
        outcomes = np.where(labels.max(axis=1) == 1.0, labels.argmax(axis=1), MIXED)
    hints = None if hinted == "no" else hints_of(k, rounds, seed)
    plain = play.ready_list(k, m * parts, slack, step=parts, report=layout.FOLLOWS * (hinted == "followed"))
    compiled = np.array(plain)
    forecasts, charged = play.replay(compiled, outcomes, hints, soft)
    expected, _, points = play.interpret(plain, outcomes, hints, soft)
    assert compiled.tolist() == plain
    assert forecasts.tolist() == expected
    assert charged.tolist() == points


@settings(max_examples=examples(100), deadline=None)
@given(games, st.sampled_from([None, 1.0, 2.0]), st.booleans())
def test_the_machine_plays_like_the_plain_reference(game, slack, hinted):
    (k, m), kind, rounds, seed = game
    rounds, slack = min(rounds, 60 if hinted else 120), slack if hinted else None
    outcomes, hints = play.outcomes_of(kind, k, rounds, seed), [None] * rounds
    memory, reference = play.ready_list(k, m, slack), Hinted(k, m, slack)
    if hinted:
        rounded = np.round(hints_of(k, rounds, seed) * k * m)
        hints = [[Fraction(int(u), k * m) for u in row] for row in rounded]
    _, sums, points = play.interpret(memory, outcomes, rounded / (k * m) if hinted else None)
    for outcome, row, x, hint in zip(outcomes.tolist(), sums, points, hints, strict=True):
        forecast, charged = reference.play(outcome, hint)
        assert [Fraction(s, k * m) for s in row] == forecast
        assert x == [c / m for c in charged]
    assert Fraction(certificate(memory)).limit_denominator(10**9) == reference.certificate
    if not hinted:
        assert (memory[layout.CELL_CHANGES], memory[layout.RESTARTS]) == (
            reference.changes,
            reference.restarts,
        )
        assert {x for x, _ in play.vertices_of(memory, int(memory[layout.CURRENT_FRAME]))} == set(
            reference.cell
        )


@settings(max_examples=examples(40), deadline=None)
@given(
    st.integers(2, 10),
    st.integers(1, 12),
    st.sampled_from(["least", "flip", "any"]),
    st.integers(0, 2**32 - 1),
)
def test_no_adversary_biases_a_point_beyond_tijdemans_bound(k, m, kind, seed):
    memory = play.ready(k, m)
    play.chase(memory, 400, kind, seed)
    for x, biases in play.biases_of(memory).items():
        s = sum(1 for weight in x if weight)
        assert sum(biases) == 0
        assert (2 * s - 2) * max(map(abs, biases)) <= (2 * s - 3) * m if s > 1 else not any(biases)
    here = int(memory[layout.CURRENT_FRAME])
    cell = play.vertices_of(memory, here)
    assert sorted(label for _, label in cell) == list(range(k))
    assert all(x[label] > 0 for x, label in cell)
    assert play.sums_of(memory, here) == [sum(column) for column in zip(*(x for x, _ in cell), strict=True)]
    spread = sum(abs(b) for biases in play.biases_of(memory).values() for b in biases)
    assert memory[layout.SPREAD] == spread


@pytest.mark.parametrize("m", [1, 2, 3, 8, 101])
@pytest.mark.parametrize("kind", KINDS)
def test_with_two_classes_it_is_the_balanced_rule(m, kind):
    outcomes = play.outcomes_of(kind, 2, 3000, seed=m)
    binary = AlmostOneStepAhead(n_cells=m)
    forecasts, charged = binary.replay(outcomes, return_look_ahead=True)
    memory = play.ready(2, m)
    vectors, points = play.replay(memory, outcomes)
    assert vectors[:, 1].tolist() == forecasts.tolist()
    assert points[:, 1].tolist() == charged.tolist()
    assert certificate(memory) == pytest.approx(2 * binary.certificate, rel=1e-12)
    look_ahead = binary.look_ahead
    biases = dict(zip(look_ahead.points.tolist(), look_ahead.biases.tolist(), strict=True))
    for x, pair in play.biases_of(memory).items():
        assert biases[x[1] / m] == pair[1] / m == -pair[0] / m


@pytest.mark.parametrize(("k", "m"), [(3, 9), (5, 4)])
def test_a_table_that_grows_changes_nothing(k, m):
    outcomes = play.outcomes_of("drift", k, 3000, seed=1)
    roomy, tight = play.ready(k, m, records=play.MANY), play.ready(k, m, records=FEWEST_RECORDS)
    expected, _ = play.replay(roomy, outcomes)
    forecasts, done, none = np.empty((3000, k)), 0, np.empty((0, k))
    played = outcomes, np.empty((0, k), np.int64), 1, np.empty(0), none, forecasts, none
    while (done := machine.replay(tight, NO_WINDOW, *played, done)) < 3000:
        assert tight[layout.RECORDS_USED] == layout.capacity(tight)
        tight = enlarged(tight)
    assert forecasts.tolist() == expected.tolist()
    assert tight[layout.MASK] + 1 <= 4 * tight[layout.RECORDS_USED]
    assert certificate(tight) == certificate(roomy)
    assert play.biases_of(tight) == play.biases_of(roomy)


@pytest.mark.parametrize(("k", "m", "step"), [(2, 5, 2), (3, 6, 4), (5, 3, 8)])
def test_a_coarse_grid_in_fine_units_is_the_same_game(k, m, step):
    """What a grid that has become coarser is played on: coordinates are multiples of a step."""
    outcomes = play.outcomes_of("drift", k, 1500, seed=6)
    hints = hints_of(k, 1500, 6)
    for guide in (None, hints):
        fine = new_memory(k, m * step, step, 1.0, room=play.MANY)
        machine.make_ready(fine)
        coarse = play.ready(k, m, 1.0)
        guide = None if guide is None else np.round(guide * k * m) / (k * m)
        expected, _ = play.replay(coarse, outcomes, guide)
        assert play.replay(fine, outcomes, guide)[0].tolist() == expected.tolist()
        assert certificate(fine) == pytest.approx(certificate(coarse), rel=1e-12)


CHANGES = [
    (cells.CELL_SCALE, 0),
    (cells.CELL_STEP, 0),
    (cells.FIRST_VERTEX, -1),
    *((cells.FIRST_VERTEX + at, value) for at in range(3, 8) for value in (-1, 3)),
]
"""Places in the integers of a cell of three classes, and what cannot stand there."""


@pytest.mark.parametrize(("place", "value"), CHANGES)
def test_what_cannot_be_a_cell_is_not_settled(place, value):
    run = SimplexRun(("a", "b", "c"), SimplexAlmostOneStepAhead(3, horizon=60))
    cell, forecast = run.announce(np.array([0.2, 0.3, 0.5]))
    cells.check_cell(cell.data, forecast, run.memory)
    changed = cell.numbers.copy()
    changed[place] = value
    with pytest.raises(ValueError, match="the cell of a forecast"):
        cells.check_cell(changed.tobytes(), forecast, run.memory)
