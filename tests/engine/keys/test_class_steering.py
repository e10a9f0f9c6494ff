"""Hints about several classes are steered as vectors: by one state a key, which refuses what is damaged."""

from itertools import pairwise

import msgspec
import numpy as np
import pytest

from onlinecal.engine import EngineConfig, KeyConfig, Outcome, Query
from onlinecal.engine.keys.steering import ClassSteering, packed_floats, unpacked_floats
from onlinecal.engine.keys.storing import SUM, with_checksum
from onlinecal.steering import trust, vector
from tests.engine.keys.test_steering import forecasts
from tests.engine.one_key import OneKey

N, LABELS = 1500, ("rain", "snow", "sun", "fog")
K = len(LABELS)


def stream(seed=0):
    """Overconfident vectors, and what came."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.ones(K), N)
    rows = truth**2.5 / (truth**2.5).sum(1, keepdims=True)
    return rows, np.minimum((truth.cumsum(1) < rng.random(N)[:, None]).sum(1), K - 1)


ROWS, NUMBERS = stream()


def events():
    """Queries and outcomes of one key, in time."""
    for t, (row, number) in enumerate(zip(ROWS.tolist(), NUMBERS.tolist(), strict=True)):
        hint = dict(zip(LABELS, row, strict=True))
        yield from (Query(f"q{t}", "k", hint), Outcome(f"q{t}", LABELS[number]))


def config(**settings):
    return EngineConfig(KeyConfig(kind="simplex", **settings))


def brier(probabilities):
    told = np.array([[one.get(label, 0.0) for label in LABELS] for one in probabilities])
    return float(((told - np.eye(K)[NUMBERS[: len(told)]]) ** 2).sum(1).mean())


def test_steered_hints_beat_the_hints_and_forecasts_follow_them():
    hints = [dict(zip(LABELS, row.tolist(), strict=True)) for row in ROWS]
    now = brier(forecasts(config(classes=LABELS), events()))
    unsteered = brier(forecasts(config(classes=LABELS, steering=False), events()))
    assert now < brier(hints) - 0.015
    assert now < unsteered - 0.015


def played(rounds=40, classes=None):
    """A key's state with three forecasts open, one of which was asked for without a hint."""
    state = OneKey(KeyConfig(kind="simplex", classes=classes))
    for t in range(rounds):
        hint = None if t == rounds - 2 else dict(zip(LABELS, ROWS[t].tolist(), strict=True))
        state.ask(f"q{t}", t + 1, hint, None)
        if t >= 3:
            state.close(state.open[f"q{t - 3}"], LABELS[NUMBERS[t - 3]], None)
        state.run()
    return state


SIZE = trust.weights_of(K) + 2 - vector.shared_of(K)


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        ("length", 0, "length"),
        ("labels", ["rain"] * K, "classes"),
        ("labels", [*LABELS, "hail"], "length"),
    ],
)
def test_damaged_steering_is_refused(place, value, why):
    stored = msgspec.msgpack.decode(played().dump()[SUM:])
    labels, floats = msgspec.msgpack.decode(stored[6])
    if place == "length":
        floats = packed_floats([unpacked_floats(floats, SIZE + 2 * trust.ticket_size(K))[:-1]])
    else:
        labels = value
    stored[6] = msgspec.msgpack.encode([labels, floats])
    with pytest.raises(ValueError, match=why):
        OneKey(KeyConfig(kind="simplex"), with_checksum(msgspec.msgpack.encode(stored)))


def test_its_size_is_a_few_kilobytes_a_class_and_classes_without_weight_cost_nothing():
    state = played()
    assert isinstance(state.key.steering, ClassSteering)
    sizes = [trust.new_trusted_steering(k).nbytes for k in range(1, 20)]
    assert {after - before for before, after in pairwise(sizes)} == {3192}
    state.ask("zeros", 99, {"rain": 1.0, **{f"none{i}": 0.0 for i in range(5000)}}, None)
    state.run()
    assert list(state.key.steering.numbers) == list(LABELS)
    # and never for more classes than a key may discover
    state.ask("many", 100, {f"one{i}": 1 / 5000 for i in range(5000)}, None)
    state.run()
    assert len(state.key.steering.numbers) == 100
    assert state.open["many"].probability.keys() == set(LABELS)
