"""A key's hints are steered before its lanes follow them: what that gains, and what is kept of it."""

import msgspec
import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead
from onlinecal.engine import Engine, EngineConfig, Forecast, KeyConfig, Outcome, Query
from onlinecal.engine.keys.storing import SUM, StoredBinaryKey, read_state, with_checksum
from tests.engine.one_key import OneKey

N = 3000


def stream(seed=0):
    """Overconfident probabilities and outcomes."""
    rng = np.random.default_rng(seed)
    truth = rng.beta(2, 3, N)
    logit = 1.8 * np.log(truth / (1 - truth)) + 0.4
    return 1 / (1 + np.exp(-logit)), (rng.random(N) < truth).astype(int)


HINTS, OUTCOMES = stream()


def events(hints=HINTS, outcomes=OUTCOMES):
    """Queries and outcomes of one key, in time."""
    for t, (hint, y) in enumerate(zip(hints.tolist(), outcomes.tolist(), strict=True)):
        yield from (Query(f"q{t}", "k", hint), Outcome(f"q{t}", y))


def forecasts(config, given):
    """Those among the answers to a key's events."""
    with Engine(None, config) as engine:
        return [one.probability for one in engine.handle(given) if isinstance(one, Forecast)]


def brier(p, y=OUTCOMES):
    return float(((np.array(p) - y[: len(p)]) ** 2).mean())


def test_steered_hints_beat_the_hints_and_the_forecasts_follow_them():
    default = brier(forecasts(EngineConfig(), events()))
    unsteered = brier(forecasts(EngineConfig(KeyConfig(steering=False)), events()))
    assert default < brier(HINTS) - 0.006
    assert default < unsteered - 0.005
    assert unsteered < 1.01 * brier(HINTS)


def test_without_steering_hints_are_followed_as_forecasters_do():
    wanted = AlmostOneStepAhead(hints=True).replay(OUTCOMES[:500], HINTS[:500])
    unsteered = EngineConfig(KeyConfig(steering=False))
    assert forecasts(unsteered, events(HINTS[:500], OUTCOMES[:500])) == wanted.tolist()


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
