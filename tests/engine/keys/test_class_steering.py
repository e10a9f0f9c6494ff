"""Hints about several classes are steered as vectors: by one state a key, the same however events are cut."""

from __future__ import annotations

import random
from itertools import pairwise

import msgspec
import numpy as np
import pytest

from onlinecal import SimplexAlmostOneStepAhead
from onlinecal.engine import EngineConfig, KeyConfig, Outcome, Query, Withdraw, check_ledger
from onlinecal.engine.keys.steering import ClassSteering, packed_floats, unpacked_floats
from onlinecal.engine.keys.storing import SUM, with_checksum
from onlinecal.engine.turns import KeyTurns
from onlinecal.forecasters.simplex.input import over_known
from onlinecal.steering import trust, vector
from tests.engine.key_events import in_turns
from tests.engine.keys.test_steering import answered, forecasts
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


def value_at(t, every):
    """What came; every so manieth time a soft label instead, half of it the class that came."""
    label, next_one = LABELS[NUMBERS[t]], LABELS[(NUMBERS[t] + 1) % K]
    return {next_one: 0.5, label: 0.5} if every and t % every == 0 else label


def events(n=N, late=0, seed=None, every=None):
    """Queries and outcomes of one key, in time; or late, in another order, some withdrawn or without hint."""
    rng, waiting = random.Random(seed), []
    for t in range(n):
        hint = dict(zip(LABELS, ROWS[t].tolist(), strict=True))
        if late and rng.random() < 0.3:
            hint = {"rain": 0.75, "hail": 0.25} if rng.random() < 0.2 else None
        yield Query(f"q{t}", "k", hint)
        waiting.append((f"q{t}", value_at(t, every)))
        while len(waiting) > late:
            id, value = waiting.pop(rng.randrange(len(waiting)))
            yield Withdraw(id) if late and rng.random() < 0.05 else Outcome(id, value)


def config(**settings):
    return EngineConfig(KeyConfig(kind="simplex", **settings))


def brier(probabilities):
    told = np.array([[one.get(label, 0.0) for label in LABELS] for one in probabilities])
    return float(((told - np.eye(K)[NUMBERS[: len(told)]]) ** 2).sum(1).mean())


def test_steered_hints_beat_the_hints_and_forecasts_follow_them():
    hints = [dict(zip(LABELS, row.tolist(), strict=True)) for row in ROWS]
    now = brier(forecasts(answered(config(classes=LABELS), events())))
    unsteered = brier(forecasts(answered(config(classes=LABELS, steering=False), events())))
    assert now < brier(hints) - 0.015
    assert now < unsteered - 0.015


@pytest.mark.parametrize("settings", [{}, {"lanes": 3}])
def test_it_is_the_steering_of_hints_in_the_order_of_events_whatever_the_lanes(settings):
    state, out = trust.new_trusted_steering(K), np.empty(K)
    ticket = np.empty(trust.ticket_size(K))
    forecaster, wanted = SimplexAlmostOneStepAhead(labels=LABELS, grid="adaptive", hints=True), []
    for t, (row, number) in enumerate(zip(ROWS[:300], NUMBERS[:300].tolist(), strict=True)):
        trust.ask_vector(state, ticket, row, out)
        token = forecaster.forecast(over_known(out))
        wanted.append(token.probabilities)
        value, soft = value_at(t, every=3), np.eye(K)[number]
        if isinstance(value, dict):
            number, soft = -1, np.array([value.get(label, 0.0) for label in LABELS])
        forecaster.observe(token, value)
        trust.settle_vector(state, ticket, K, number, soft)
    assert forecasts(answered(config(classes=LABELS, **settings), events(300, every=3))) == wanted


@pytest.mark.parametrize(
    "settings", [{}, {"n_cells": 8, "report": "hint"}, {"classes": (*LABELS, "hail"), "lanes": 4}]
)
def test_the_answers_are_the_same_however_events_are_cut_and_after_restarts(settings, tmp_path):
    given, chosen = list(events(150, late=6, seed=1, every=4)), config(**settings)
    wanted = answered(chosen, given)
    assert answered(chosen, given, most=9, rng=random.Random(2)) == wanted
    assert answered(chosen, given, 60, tmp_path / "ledger", random.Random(3)) == wanted
    check_ledger(tmp_path / "ledger")
    step = KeyTurns(chosen, remember=10)
    turns = [in_turns(step, "k", given, most) for most in (1, 7, 100, 10**6)]
    assert turns[0][1] == wanted
    assert len({state for state, _ in turns}) == 1


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
