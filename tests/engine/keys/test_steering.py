"""A key's hints are steered before its lanes follow them: by one state, the same however events are cut."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead
from onlinecal.engine import Engine, EngineConfig, Forecast, KeyConfig, Outcome, Query, Withdraw, check_ledger
from onlinecal.engine.keys.storing import SUM, StoredBinaryKey, read_state, with_checksum
from onlinecal.engine.turns import KeyTurns
from onlinecal.steering import binary as steering
from onlinecal.steering import trust
from tests.engine.key_events import in_turns
from tests.engine.one_key import OneKey

N = 3000


def stream(seed=0):
    """Overconfident probabilities and outcomes."""
    rng = np.random.default_rng(seed)
    truth = rng.beta(2, 3, N)
    logit = 1.8 * np.log(truth / (1 - truth)) + 0.4
    return 1 / (1 + np.exp(-logit)), (rng.random(N) < truth).astype(int)


HINTS, OUTCOMES = stream()


def events(hints=HINTS, outcomes=OUTCOMES, late=0, seed=None):
    """Queries and outcomes of one key, in time; or late, in another order, some withdrawn or without hint."""
    rng, waiting = random.Random(seed), []
    for t, (hint, y) in enumerate(zip(hints.tolist(), outcomes.tolist(), strict=True)):
        yield Query(f"q{t}", "k", None if late and rng.random() < 0.1 else hint)
        waiting.append((f"q{t}", y))
        while len(waiting) > late:
            id, value = waiting.pop(rng.randrange(len(waiting)))
            yield Withdraw(id) if late and rng.random() < 0.05 else Outcome(id, value)


def forecasts(answers):
    return [one.probability for one in answers if isinstance(one, Forecast)]


def answered(config, given, most=10**6, path=None, rng=None):
    """All answers, the events cut into batches; with a path, the engine is started anew after each."""
    given, answers = list(given), []
    engine = Engine(path, config)
    while given:
        size = most if rng is None else rng.randint(1, most)
        answers += engine.handle(given[:size])
        given = given[size:]
        if path is not None:
            engine.close()
            engine = Engine(path, config)
    engine.close()
    return answers


def brier(p, y=OUTCOMES):
    return float(((np.array(p) - y[: len(p)]) ** 2).mean())


def test_steered_hints_beat_the_hints_and_the_forecasts_follow_them():
    default = brier(forecasts(answered(EngineConfig(), events())))
    unsteered = brier(forecasts(answered(EngineConfig(KeyConfig(steering=False)), events())))
    assert default < brier(HINTS) - 0.006
    assert default < unsteered - 0.005
    assert unsteered < 1.01 * brier(HINTS)


def test_it_is_the_steering_of_hints_in_the_order_of_events_whatever_the_lanes():
    state, table = trust.new_steering(), AlmostOneStepAhead(hints=True)
    wanted, ticket = [], np.empty(steering.TICKET)
    for hint, y in zip(HINTS[:300], OUTCOMES[:300], strict=True):
        token = table.forecast(trust.ask(state, ticket, hint))
        wanted.append(token.probability)
        table.observe(token, int(y))
        trust.settle(state, ticket, int(y))
    assert forecasts(answered(EngineConfig(), events(HINTS[:300], OUTCOMES[:300]))) == wanted
    lanes = EngineConfig(KeyConfig(lanes=3))
    assert forecasts(answered(lanes, events(HINTS[:300], OUTCOMES[:300]))) == wanted


def test_without_steering_hints_are_followed_as_forecasters_do():
    wanted = AlmostOneStepAhead(hints=True).replay(OUTCOMES[:500], HINTS[:500])
    unsteered = EngineConfig(KeyConfig(steering=False))
    assert forecasts(answered(unsteered, events(HINTS[:500], OUTCOMES[:500]))) == wanted.tolist()


@pytest.mark.parametrize("lanes", [1, 4])
def test_the_answers_are_the_same_however_events_are_cut_and_after_restarts(lanes, tmp_path):
    given = list(events(HINTS[:150], np.where(OUTCOMES[:150], 0.9, 0), late=6, seed=1))
    config = EngineConfig(KeyConfig(lanes=lanes))
    wanted = answered(config, given)
    assert answered(config, given, most=9, rng=random.Random(2)) == wanted
    assert answered(config, given, 60, tmp_path / "ledger", random.Random(3)) == wanted
    check_ledger(tmp_path / "ledger")
    step = KeyTurns(config, remember=10)
    turns = [in_turns(step, "k", given, most) for most in (1, 7, 100, 10**6)]
    assert turns[0][1] == wanted
    assert len({state for state, _ in turns}) == 1


def test_keys_without_hints_keep_nothing_of_it_and_kind_lp_refuses_it():
    for config in (KeyConfig(), KeyConfig(steering=True), KeyConfig(steering=False)):
        state = played(OneKey(config), 10, hinted=False)
        stored = msgspec.msgpack.decode(state.dump()[SUM:], type=StoredBinaryKey)
        assert read_state(stored, betting=True).steering is None
    for value in (True, False):
        with pytest.raises(ValueError, match=f"steering does not go with kind 'lp', got {value}"):
            KeyConfig(kind="lp", steering=value)


def played(state, rounds, hinted=True):
    """A key's state with three forecasts open, one of which was asked for without a hint."""
    for t in range(rounds):
        state.ask(f"q{t}", t + 1, float(HINTS[t]) if hinted and t != rounds - 2 else None, None)
        if t >= 3:
            state.close(state.open[f"q{t - 3}"], int(OUTCOMES[t]), None)
    state.run()
    return state


def test_steering_that_does_not_belong_there_is_refused():
    state = played(OneKey(KeyConfig()), 40).dump()
    with pytest.raises(ValueError, match="its steering"):
        OneKey(KeyConfig(steering=False), state)
    stored = msgspec.msgpack.decode(state[SUM:])
    stored[4] -= 1
    with pytest.raises(ValueError, match="its length"):
        OneKey(KeyConfig(), with_checksum(msgspec.msgpack.encode(stored)))


def test_forecasts_that_were_given_up_leave_nothing_behind():
    state = OneKey(KeyConfig())
    for t in range(1000):
        state.close(state.ask(f"q{t}", t + 1, 0.3, None), None, None)
        state.run()
    assert len(state.book.ids) <= 64
    assert len(state.dump()) < 1_500
