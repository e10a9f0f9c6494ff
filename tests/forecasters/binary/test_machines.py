"""The machines against their readable twins: the interpreter on lists, and brute force over all cells."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import AlmostOneStepAhead, OneStepAhead
from onlinecal.forecasters.binary import cells as layout
from onlinecal.forecasters.binary import dyadic, uniform
from onlinecal.forecasters.binary.dyadic import sum_from
from tests.forecasters.configurations import ANYTIME, UNIFORM, configs, fresh, hinted_sequences
from tests.properties import examples


def play_in_the_interpreter(forecaster, outcomes, hints):
    rules = forecaster.machine.rules
    memory = forecaster.memory.tolist() + [0] * (3 * len(outcomes) + 200)
    forecasts = []
    for y, hint in zip(outcomes.tolist(), hints.tolist(), strict=True):
        lower, step = rules.propose(memory, hint)
        forecasts.append(layout.report(memory, lower, step, hint))
        rules.charge(memory, lower, step, y, y * memory[layout.SCALE], forecasts[-1])
    return forecasts, layout.in_use(memory)


@settings(max_examples=examples(120), deadline=None)
@given(configs, hinted_sequences())
def test_compiled_code_and_the_interpreter_agree_bit_for_bit(config, played):
    outcomes, hints = played
    for hinted, guide in ((True, hints), (True, none := np.full(len(hints), layout.NO_HINT)), (False, none)):
        forecaster = fresh(config, hinted)
        forecasts, memory = play_in_the_interpreter(forecaster, outcomes, guide)
        compiled = forecaster.replay(outcomes, None if guide[0] == layout.NO_HINT else guide)
        assert compiled.tolist() == forecasts
        assert layout.in_use(forecaster.memory).tolist() == layout.in_use(memory)


def all_valid_cells(forecaster, step):
    """Lower ends of the valid cells of that width, by looking at every one."""
    memory = forecaster.memory
    scale = int(memory[layout.SCALE])
    points = np.arange(0, scale + 1, step)
    if forecaster.machine.rules is uniform:
        sums, free = memory[layout.TABLE + 1 :: 2], uniform.covered(memory)
    else:
        sums = np.array([sum_from(memory, layout.find(memory, x), x) for x in points.tolist()])
        free = dyadic.unbiased_are_free(memory)
    unbiased = free & (sums == memory[layout.TILT] * points)
    zero, one = (sums <= memory[layout.HIGH]) | unbiased, (sums >= memory[layout.LOW]) | unbiased
    return points[:-1][zero[:-1] & one[1:]].tolist()


@settings(max_examples=examples(150), deadline=None)
@given(configs, hinted_sequences(longest=150))
def test_the_reported_cell_is_the_valid_one_nearest_to_the_hint(config, played):
    outcomes, hints = played
    forecaster = fresh(config, hints=True)
    forecaster.replay(outcomes, hints)
    memory, rules = forecaster.memory, forecaster.machine.rules
    scale, step = int(memory[layout.SCALE]), int(memory[layout.STEP])
    if scale // step > 5000:
        return
    assert memory[layout.LOWER] in all_valid_cells(forecaster, step)
    for hint in [0.0, 1.0, 0.5, *hints[:20]]:
        target = hint * scale
        lower, width = rules.propose(memory.tolist(), hint)
        # on a finer grid than the base only if the accounts cover what may come
        assert width == step or (rules is dyadic and width == memory[dyadic.BASE])
        assert lower == nearest_of(all_valid_cells(forecaster, width), width, target, forecaster)


@pytest.mark.parametrize("rounds", [5, 20, 60])
@pytest.mark.parametrize("config", [config for config in ANYTIME if "rule" not in config])
def test_from_everywhere_the_nearest_valid_cell_is_found(config, rounds):
    rng, forecaster = np.random.default_rng(rounds), fresh(config, hints=True)
    forecaster.replay(rng.integers(0, 2, rounds).astype(np.uint8), rng.random(rounds))
    memory = forecaster.memory.tolist()
    free, in_odds = dyadic.unbiased_are_free(memory), bool(memory[dyadic.TUNED] & dyadic.EAGER_BIT)
    for width in {memory[layout.STEP], memory[dyadic.BASE]}:
        valid = all_valid_cells(forecaster, width)
        for target in np.linspace(0.0, memory[layout.SCALE], 41).tolist():
            found = dyadic.nearest_cell(memory, target, width, free, in_odds)
            assert found == nearest_of(valid, width, target, forecaster)


def nearest_of(cells, width, target, forecaster):
    """The cell that holds the target, or the nearer of its neighbours: by odds if the slack follows hints."""
    memory = forecaster.memory
    scale = int(memory[layout.SCALE])
    home = min(int(target), scale - width) // width * width
    if home in cells:
        return home
    below = max((cell for cell in cells if cell < home), default=None)
    above = min((cell for cell in cells if cell > home), default=None)
    if below is None or above is None:
        return above if below is None else below
    lower_end, upper_end = below + width, above
    if forecaster.machine.rules is dyadic and memory[dyadic.TUNED] & dyadic.EAGER_BIT:
        missed_below = target / lower_end * (scale - lower_end) / (scale - target)
        missed_above = upper_end / target * (scale - target) / (scale - upper_end)
        return below if missed_below <= missed_above else above
    return below if target - lower_end <= upper_end - target else above


def test_the_current_cell_is_valid_or_free_also_after_a_late_round_of_the_next_cell():
    """It may charge a free end of the current cell with the other outcome; then that is free no longer."""
    forecaster = AlmostOneStepAhead()
    forecaster.replay([1] * 25)
    memory, lower, step = (
        forecaster.memory,
        int(forecaster.memory[layout.LOWER]),
        int(forecaster.memory[layout.STEP]),
    )
    assert dyadic.unbiased_are_free(memory)
    assert sum_from(memory, layout.find(memory, lower), lower) == lower
    forecaster._settle(lower - step, step, 1, (lower - step / 2) / memory[layout.SCALE])
    assert dyadic.unbiased_are_free(forecaster.memory)
    assert forecaster.memory[layout.LOWER] in all_valid_cells(forecaster, int(forecaster.memory[layout.STEP]))
    check_ends(forecaster)


@pytest.mark.parametrize("config", UNIFORM)
def test_without_hints_points_left_accept_zero_and_right_accept_one(config):
    forecaster = AlmostOneStepAhead(**{**config, "report": "midpoint", "hints": False})
    for y in np.random.default_rng(0).random(300) < 0.7:
        forecaster.learn_one({}, bool(y))
        memory = forecaster.memory
        sums, cell = memory[layout.TABLE + 1 :: 2], int(memory[layout.LOWER])
        assert np.all(sums[: cell + 1] <= memory[layout.HIGH])
        assert np.all(sums[cell + 1 :] >= memory[layout.LOW])


@pytest.mark.parametrize("rule", ["balanced", "sign"])
@pytest.mark.parametrize("grid", [{"horizon": 1000}, {"grid": "nested"}, {"grid": "adaptive"}])
def test_one_step_ahead_answers_with_the_look_ahead_of_the_midpoints(grid, rule):
    outcomes, shared = np.random.default_rng(6).integers(0, 2, 1000), {**grid, "rule": rule, "slack": 0.5}
    for hinted in (False, True):
        shadow = AlmostOneStepAhead(**shared, hints=hinted, report="midpoint")
        reference, again = (OneStepAhead(**shared, hints=hinted) for _ in range(2))
        answers = reference.replay(outcomes).tolist()
        assert answers == shadow.replay(outcomes, return_look_ahead=True)[1].tolist()
        assert answers == [again.answer(y) for y in outcomes]


def check_ends(forecaster):
    memory = forecaster.memory.tolist()
    positions = memory[layout.TABLE : memory[layout.END] : 2]
    assert all(left < right for left, right in pairwise(positions))
    assert memory[layout.BELOW] == layout.find(memory, memory[layout.LOWER])
    assert memory[layout.ABOVE] == layout.find(memory, memory[layout.LOWER] + memory[layout.STEP])


@pytest.mark.parametrize("config", ANYTIME)
@settings(max_examples=examples(15), deadline=None)
@given(played=hinted_sequences(longest=120), most_open=st.integers(0, 5), seed=st.integers(0, 2**32 - 1))
def test_the_header_knows_the_ends_of_the_current_cell(config, played, most_open, seed):
    """Whatever is charged, here with hints, late labels and cells of a level that is no longer in use."""
    rng = np.random.default_rng(seed)
    forecaster, waiting = fresh(config, hints=True), []
    check_ends(forecaster)
    for y, hint in zip(*played, strict=True):
        waiting.append((forecaster.forecast(hint if rng.random() < 0.5 else None), y))
        if len(waiting) > most_open:
            forecaster.observe(*waiting.pop(rng.integers(len(waiting))))
            check_ends(forecaster)
