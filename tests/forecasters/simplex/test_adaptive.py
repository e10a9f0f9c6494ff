"""The simplex grid that tunes itself: its account, its guarantee, and what it gains."""

import copy
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from onlinecal import SimplexAlmostOneStepAhead
from onlinecal.forecasters.simplex.guarantees import nested_distance
from onlinecal.forecasters.simplex.machine import memory as layout
from onlinecal.forecasters.simplex.machine import memory as memories
from onlinecal.forecasters.simplex.machine import rules as machine
from onlinecal.forecasters.simplex.machine.memory import records_of
from onlinecal.forecasters.simplex.machine.rules import settle
from onlinecal.forecasters.simplex.machine.windows import NO_WINDOW
from onlinecal.forecasters.simplex.run import allowance
from tests.forecasters.simplex.play import outcomes_of
from tests.properties import one_in

TOLERANCE = 1e-9
SETTINGS = [{}, {"slack": 1.0, "report": "hint", "hints": True}]


def adaptive(k, **settings):
    return SimplexAlmostOneStepAhead(k, grid="adaptive", **settings)


def owed(memory):
    """The biases of all points off the base grid."""
    k, table = int(memory[layout.CLASSES]), records_of(memory)
    off = (table[:, layout.POINT : layout.POINT + k] % memory[layout.BASE] != 0).any(axis=1)
    return Fraction(int(np.abs(table[off, layout.POINT + k :]).sum()), int(memory[layout.SCALE]))


def check_account(forecaster):
    """The balance is what nested grids may spend, less what was spent and is owed, with the allowance."""
    memory, k = forecaster.memory, int(forecaster.memory[layout.CLASSES])
    follows = forecaster.report == "hint"
    base = nested_distance(1, int(memory[layout.ROUNDS]), k, forecaster.slack, follows)
    spent = Fraction(int(memory[layout.MOVED]), int(layout.units(memory)))
    balance = Fraction(int(memory[layout.BALANCE]), int(layout.units(memory)))
    # units change with the grid, and then are rounded
    slip = Fraction(int(memory[layout.ROUNDS]) + 100, 1 << 28) if memory[layout.FINE] > 1 else 0
    assert abs(base + allowance(k) - spent - owed(memory) - balance) <= slip
    assert balance >= -slip
    assert memory[layout.STEP] == memory[layout.BASE] or balance >= 4
    assert forecaster.certificate <= forecaster.guarantee + TOLERANCE


@pytest.mark.parametrize(
    ("k", "kind", "settings"), one_in(2, [2, 3, 5], ["coins", "drift", "turns"], SETTINGS)
)
def test_the_account_is_what_it_says_and_never_overdrawn(k, kind, settings):
    outcomes = outcomes_of(kind, k, 3000, k)
    hints = np.random.default_rng(k).dirichlet(np.full(k, 0.5), 3000) if settings else None
    forecaster, steps = adaptive(k, **settings), set()
    for start in range(0, 3000, 150):
        part = slice(start, start + 150)
        forecaster.replay(outcomes[part], None if hints is None else hints[part])
        check_account(forecaster)
        steps.add(int(forecaster.memory[layout.BASE] // forecaster.memory[layout.STEP]))
    assert max(steps) > 1


def costliest(memory, k, rng):
    """The class after which the balance is least."""
    balances = []
    for y in range(k):
        trial = memory.copy()
        machine.advance(trial, NO_WINDOW, y, 1)
        balances.append(trial[layout.BALANCE] + rng.random())
    return int(np.argmin(balances))


@pytest.mark.parametrize("k", [2, 3, 4])
def test_no_adversary_breaks_the_guarantee(k):
    forecaster, rng = adaptive(k), np.random.default_rng(k)
    for t in range(600):
        forecaster.learn_one({}, costliest(forecaster.memory, k, rng))
        if t % 20 == 0:
            check_account(forecaster)
        assert forecaster.certificate <= forecaster.guarantee


@pytest.mark.parametrize("k", [2, 3, 4])
def test_an_account_that_has_run_low_sends_it_back_to_the_base_grid(k):
    """No stream that was tried empties the account, so it is emptied here; compiled and interpreted."""
    forecaster, rng = adaptive(k), np.random.default_rng(k)
    forecaster.replay(outcomes_of("coins", k, 600, 0))
    memory = memories.enlarged(forecaster.memory)
    assert memory[layout.STEP] < memory[layout.BASE]
    memory[layout.LIMIT] = 1 << 40
    plain, lowest, back = memory.tolist(), 4.0, 0
    for _ in range(400):
        was_fine = memory[layout.STEP] < memory[layout.BASE]
        if was_fine:
            memory[layout.BALANCE] = plain[layout.BALANCE] = 4 * layout.units(memory)
        y = int(rng.integers(k))
        machine.advance(memory, NO_WINDOW, y, 1)
        settle(plain, plain[layout.CURRENT_FRAME], [], y)
        assert memory.tolist() == plain
        balance = memory[layout.BALANCE] / layout.units(memory)
        assert memory[layout.STEP] == memory[layout.BASE] or balance >= 4
        lowest, back = (
            min(lowest, balance),
            back + int(was_fine and memory[layout.STEP] == memory[layout.BASE]),
        )
    assert 2 <= lowest < 4
    assert back == 1


def test_it_costs_a_constant_and_gains_a_power():
    outcomes = np.random.default_rng(0).choice(4, size=50_000, p=[0.4, 0.3, 0.2, 0.1])
    nested, tuned = SimplexAlmostOneStepAhead(4), adaptive(4)
    for forecaster in (nested, tuned):
        forecaster.replay(outcomes)
    assert tuned.guarantee == pytest.approx(nested.guarantee + 2 * 4 + 4)
    assert tuned.certificate < 0.6 * nested.certificate


@pytest.mark.parametrize("late", [1, 7])
def test_once_a_label_is_late_the_base_grid_is_played(late):
    forecaster, rng = adaptive(3), np.random.default_rng(late)
    forecaster.replay(rng.integers(0, 3, 300))
    assert forecaster.memory[layout.STEP] < forecaster.memory[layout.BASE]
    tokens = []
    for _ in range(500):
        tokens.append(forecaster.forecast())
        if len(tokens) > late:
            assert forecaster.memory[layout.STEP] == forecaster.memory[layout.BASE]
            token = tokens.pop(int(rng.integers(len(tokens))))
            forecaster.observe(token, min(range(3), key=token.vector.__getitem__))
            assert forecaster.certificate <= forecaster.guarantee + TOLERANCE


def off(memory, cells, k):
    """The biases of all points off that grid, counted with the classes that there were."""
    table, unit = records_of(memory), int(memory[layout.SCALE]) // cells
    away = (table[:, layout.POINT : layout.POINT + k] % unit != 0).any(axis=1)
    return away, np.abs(table[:, layout.POINT + k :]).sum(axis=1)


def play_and_count(forecaster, outcomes, hints, count):
    """Play round by round; `count` gets the memory before and after, and whether the class was new."""
    for y, hint in zip(outcomes, hints, strict=True):
        memory, known = forecaster.memory, forecaster.classes
        guide = None if not known else {c: hint[c] / hint[known].sum() for c in known}
        token = forecaster.forecast(guide)
        forecaster.observe(token, int(y))
        count(memory, forecaster.memory, int(y) not in known)
        assert forecaster.certificate <= forecaster.guarantee + TOLERANCE


@pytest.mark.parametrize("seed", [0, *(pytest.param(one, marks=pytest.mark.slow) for one in (1, 2))])
def test_the_account_goes_on_when_classes_join(seed):
    """What points have when they leave the base grid is not owed, what they get from then on is."""
    rng, steps = np.random.default_rng(seed), set()
    forecaster = SimplexAlmostOneStepAhead(grid="adaptive", slack=1.0, hints=True)
    joins = np.sort(rng.choice(1500, 3, replace=False))
    outcomes = [int(rng.integers(1 + (t > joins).sum())) for t in range(2000)]
    sums = {"spent on the base grid": Fraction(0), "left": Fraction(0)}

    def count(before, memory, is_new):
        k, base = int(memory[layout.CLASSES]), int(memory[layout.SCALE] // memory[layout.BASE])
        sums["spent on the base grid"] += (
            2 if is_new else Fraction(int(layout.price(memory)), int(layout.units(memory)))
        )
        biases = Fraction(1, int(memory[layout.SCALE]))
        if is_new and len(before):
            was = int(before[layout.SCALE] // before[layout.BASE])
            now, each = off(before, min(base, was), k - 1)
            then, _ = off(before, was, k - 1)
            sums["left"] += Fraction(int(each[now & ~then].sum()), int(before[layout.SCALE]))
        away, each = off(memory, base, k)
        debt = int(each[away].sum()) * biases - sums["left"]
        moved = Fraction(int(memory[layout.MOVED]), int(layout.units(memory)))
        balance = Fraction(int(memory[layout.BALANCE]), int(layout.units(memory)))
        assert abs(allowance(k) + sums["spent on the base grid"] - moved - debt - balance) <= 1e-5
        assert memory[layout.STEP] == memory[layout.BASE] or balance >= 4
        assert balance >= -1e-6
        steps.add(int(memory[layout.BASE] // memory[layout.STEP]))

    play_and_count(forecaster, outcomes, rng.dirichlet(np.ones(4), 2000), count)
    assert max(steps) > 1
    assert sums["left"] > 0


@pytest.mark.parametrize("rounds", [5, pytest.param(6, marks=pytest.mark.slow)])
def test_all_short_sequences_of_classes_that_are_known_or_discovered(rounds):
    hints = np.random.default_rng(0).dirichlet(np.ones(3), rounds)
    for played in product(range(3), repeat=rounds):
        known = adaptive(3)
        known.replay(list(played))
        check_account(known)
        for slack in (1.0, None):
            forecaster = SimplexAlmostOneStepAhead(slack=slack, grid="adaptive", hints=True)
            play_and_count(forecaster, played, hints, lambda *_: None)
            assert forecaster.memory[layout.BASE] > 0


def test_damaged_accounts_are_refused():
    forecaster = adaptive(3)
    forecaster.replay(outcomes_of("drift", 3, 700, 3))
    for field, value in [(layout.BASE, 0), (layout.BASE, 3), (layout.BALANCE, 1 << 62)]:
        damaged = copy.deepcopy(forecaster)
        damaged.memory[field] = value
        with pytest.raises(ValueError, match="account"):
            copy.deepcopy(damaged)
    plain = SimplexAlmostOneStepAhead(3)
    plain.memory[layout.BASE] = 1
    with pytest.raises(ValueError, match="account"):
        copy.deepcopy(plain)
    assert forecaster.memory[layout.LIMIT] > forecaster.n_rounds
