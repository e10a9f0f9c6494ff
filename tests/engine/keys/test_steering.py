"""A key's hints are steered before its lanes follow them: what that gains, and what is kept of it."""

import msgspec
import numpy as np
import pytest

from onlinecal.engine import Engine, EngineConfig, Forecast, KeyConfig, Outcome, Query
from onlinecal.engine.keys.lanes import deflated, inflated
from onlinecal.engine.keys.storing import SUM, StoredBinaryKey, WordReader, read_lanes, with_checksum
from onlinecal.steering import trust, vector
from tests.engine.one_key import OneKey

LABELS = ("rain", "snow", "sun", "fog")
K = len(LABELS)


def binary_stream(rounds=3000):
    """Overconfident probabilities, and outcomes; both also as vectors, (rounds, 2)."""
    rng = np.random.default_rng(0)
    truth = rng.beta(2, 3, rounds)
    hints = 1 / (1 + np.exp(-1.8 * np.log(truth / (1 - truth)) - 0.4))
    outcomes = (rng.random(rounds) < truth).astype(int)
    return hints.tolist(), outcomes.tolist(), np.stack([hints, 1 - hints], 1), np.eye(2)[1 - outcomes]


def class_stream(rounds=1500):
    """Overconfident vectors, and classes; both also as vectors, (rounds, K)."""
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.ones(K), rounds)
    rows = truth**2.5 / (truth**2.5).sum(1, keepdims=True)
    numbers = np.minimum((truth.cumsum(1) < rng.random(rounds)[:, None]).sum(1), K - 1)
    hints = [dict(zip(LABELS, row, strict=True)) for row in rows.tolist()]
    return hints, [LABELS[number] for number in numbers], rows, np.eye(K)[numbers]


def forecasts(hints, outcomes, **settings):
    """The forecasts of a key as vectors."""
    with Engine(None, EngineConfig(KeyConfig(**settings))) as engine:
        events = []
        for t, (hint, y) in enumerate(zip(hints, outcomes, strict=True)):
            events += [Query(f"q{t}", "k", hint), Outcome(f"q{t}", y)]
        told = [one.probability for one in engine.handle(events) if isinstance(one, Forecast)]
    return np.array([[p, 1 - p] if isinstance(p, float) else [p[label] for label in LABELS] for p in told])


@pytest.mark.parametrize(
    ("stream", "settings", "gain"),
    [(binary_stream, {}, 0.01), (class_stream, {"kind": "simplex", "classes": LABELS}, 0.015)],
)
def test_steered_hints_beat_the_hints_and_the_forecasts_follow_them(stream, settings, gain):
    hints, outcomes, rows, came = stream()

    def brier(p):
        return float(((p - came) ** 2).sum(1).mean())

    steered = brier(forecasts(hints, outcomes, **settings))
    unsteered = brier(forecasts(hints, outcomes, steering=False, **settings))
    assert steered < min(brier(rows), unsteered) - gain
    assert unsteered < 1.02 * brier(rows)


def played(stream, rounds=40, hinted=True, **settings):
    """A key's state with three forecasts open, one of which was asked for without a hint."""
    hints, outcomes, *_ = stream(rounds)
    state = OneKey(KeyConfig(**settings))
    for t in range(rounds):
        state.ask(f"q{t}", t + 1, hints[t] if hinted and t != rounds - 2 else None)
        if t >= 3:
            state.close(state.open[f"q{t - 3}"], outcomes[t - 3])
        state.run()
    return state


@pytest.mark.parametrize("steering", [None, True, False])
def test_keys_without_hints_keep_nothing_of_it(steering):
    state = played(binary_stream, 10, hinted=False, steering=steering)
    stored = msgspec.msgpack.decode(state.dump()[SUM:], type=StoredBinaryKey)
    *_, steered = read_lanes(WordReader(stored))
    assert not steered


def test_steering_that_does_not_belong_there_is_refused():
    state = played(binary_stream).dump()
    with pytest.raises(ValueError, match="its steering"):
        OneKey(KeyConfig(steering=False), state)
    stored = msgspec.msgpack.decode(state[SUM:])
    stored[4] -= 1
    with pytest.raises(ValueError, match="its length"):
        OneKey(KeyConfig(), with_checksum(msgspec.msgpack.encode(stored)))


SIZE = vector.size_for(K) + 2 - vector.shared_of(K) + 2 * trust.ticket_size(K)


@pytest.mark.parametrize(
    ("labels", "more", "why"),
    [(LABELS, -1, "length"), (["rain"] * K, 0, "classes"), ([*LABELS, "hail"], 0, "length")],
)
def test_damaged_steering_of_classes_is_refused(labels, more, why):
    stored = msgspec.msgpack.decode(played(class_stream, kind="simplex").dump()[SUM:])
    floats = inflated(msgspec.msgpack.decode(stored[6])[1], SIZE, np.float64)
    stored[6] = msgspec.msgpack.encode([labels, deflated(floats[: SIZE + more])])
    with pytest.raises(ValueError, match=why):
        OneKey(KeyConfig(kind="simplex"), with_checksum(msgspec.msgpack.encode(stored)))


def test_classes_without_weight_cost_nothing():
    state = played(class_stream, kind="simplex")
    state.ask("zeros", 99, {"rain": 1.0, **{f"none{i}": 0.0 for i in range(5000)}})
    state.run()
    assert set(state.key.steering.numbers) == set(LABELS)
    # and never for more classes than a key may discover
    state.ask("many", 100, {f"one{i}": 1 / 5000 for i in range(5000)})
    state.run()
    assert len(state.key.steering.numbers) == 100
    assert state.open["many"].probability.keys() == set(LABELS)


def test_forecasts_that_were_given_up_leave_nothing_behind():
    state = OneKey(KeyConfig())
    for t in range(1000):
        state.close(state.ask(f"q{t}", t + 1, 0.3), None)
        state.run()
    assert len(state.book.ids) <= 64
    assert len(state.dump()) < 1_500
