"""What the engine answers: to whom, when, and again."""

import json
import random
from itertools import chain

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead, SimplexAlmostOneStepAhead, calibration_distance
from onlinecal.engine import (
    Engine,
    EngineConfig,
    Forecast,
    KeyConfig,
    Match,
    Outcome,
    Query,
    Rejected,
    Settled,
    Withdraw,
    Withdrawn,
    read_config,
)
from onlinecal.forecasters.binary.cells import ROUNDS


@pytest.fixture
def engine():
    with Engine() as one:
        yield one


def reason(answers):
    return [answer.reason if isinstance(answer, Rejected) else type(answer).__name__ for answer in answers]


def test_forecasts_are_those_of_the_forecaster():
    engine = Engine(config=EngineConfig(KeyConfig(steering=False)))
    twin, rng = AlmostOneStepAhead(hints=True), random.Random(0)
    for i in range(300):
        hint = rng.random() if rng.random() < 0.5 else None
        token = twin.forecast(hint)
        [answer] = engine.handle([Query(f"q{i}", "k", hint)])
        assert answer == Forecast(f"q{i}", "k", token.probability, twin.certificate)
        outcome = rng.random() < 0.7
        twin.observe(token, outcome)
        assert engine.handle([Outcome(f"q{i}", outcome)]) == [Settled(f"q{i}")]


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("kind", ["binary", "simplex"])
def test_keys_without_hints_refuse_them_in_words_and_promise_more(kind, lanes):
    hint = 0.4 if kind == "binary" else {"a": 0.4, "b": 0.6}
    labels = [0, 1, 1] if kind == "binary" else ["a", "b", "b"]
    promised = []
    for hints in (True, False):
        config = EngineConfig(KeyConfig(kind=kind, hints=hints, lanes=lanes))
        with Engine(config=config) as engine:
            answers = [engine.query(f"q{i}", "k") for i in range(3)]
            engine.handle([Outcome(answer.id, label) for answer, label in zip(answers, labels, strict=True)])
            promised.append(engine.summary("k").guarantee)
            [told] = engine.handle([Query("hinted", "k", hint)])
            assert isinstance(told, Forecast if hints else Rejected)
            many = engine.handle([Query(f"many {i}", "k", hint) for i in range(200)])
            assert {type(one) for one in many} == {type(told)}
    assert "hints = false" in told.detail
    assert promised[1] < promised[0]
    with pytest.raises(ValueError, match="hints must be True with kind 'lp'"):
        KeyConfig(kind="lp", hints=False)


def test_late_labels_in_one_batch_are_those_of_tokens_settled_late(engine):
    twin, rng = AlmostOneStepAhead(hints=True), random.Random(1)
    tokens = [twin.forecast() for _ in range(20)]
    order = rng.sample(range(20), 20)
    for i in order:
        twin.observe(tokens[i], i % 3 == 0)
    events = [Query(f"q{i}", "k") for i in range(20)] + [Outcome(f"q{i}", i % 3 == 0) for i in order]
    answers = engine.handle([*events, Query("last", "k")])
    assert [answer.probability for answer in answers[:20]] == [token.probability for token in tokens]
    assert answers[-1] == Forecast("last", "k", twin.forecast().probability, twin.certificate)


def test_classes_are_forecast_by_the_simplex():
    config = EngineConfig(matches=(Match("w/*", KeyConfig(kind="simplex")),))
    twin, rng = SimplexAlmostOneStepAhead(grid="adaptive", hints=True), random.Random(2)
    with Engine(config=config) as engine:
        for i in range(200):
            token = twin.forecast()
            answer = engine.query(f"q{i}", "w/oslo")
            assert answer == Forecast(f"q{i}", "w/oslo", token.probabilities, twin.certificate)
            label = rng.choice(["sun", "rain", "snow"])
            twin.observe(token, label)
            engine.outcome(f"q{i}", label)
        assert isinstance(engine.query("other", "k").probability, float)


def test_repeats_are_answered_as_the_first_time(engine):
    first = [
        Query("a", "k", 0.25, 1.0),
        Query("b", "k"),
        Outcome("a", 1, time=2.0),
        Withdraw("b"),
        Query("c", "k"),
    ]
    answers = engine.handle(first)
    assert reason(answers) == ["Forecast", "Forecast", "Settled", "Withdrawn", "Forecast"]
    assert engine.handle(first) == answers
    assert engine.handle(first + first) == answers + answers
    assert engine.handle([Outcome("a", True, "k", 2.0)]) == [Settled("a")]


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "one by one"])
def test_what_cannot_be_is_rejected_with_its_reason(together):
    cases = [
        (Query("a", "k", 0.25), "Forecast"),
        (Query("a", "k", 0.5), "duplicate"),
        (Query("a", "j", 0.25), "duplicate"),
        (Query("a", "k", 0.25, 7.0), "duplicate"),
        (Outcome("x", 1), "unknown"),
        (Withdraw("x"), "unknown"),
        (Outcome("a", 2), "invalid"),
        (Outcome("a", "rain"), "invalid"),
        (Outcome("a", 1, "j"), "invalid"),
        (Query("n", "k", 1.5), "invalid"),
        (Query("n", "k", float("nan")), "invalid"),
        (Query("n", "k", {"sun": 1.0}), "invalid"),
        (Query("n", "k", None, float("inf")), "invalid"),
        (Query("", "k"), "invalid"),
        (Query("n", ""), "invalid"),
        (Query("n\0", "k"), "invalid"),
        (Query("n" * 201, "k"), "invalid"),
        (Query(7, "k"), "invalid"),
        (Query("n", None), "invalid"),
        (Outcome("a", 1), "Settled"),
        (Outcome("a", 0), "settled"),
        (Outcome("a", 1, time=3.0), "settled"),
        (Withdraw("a"), "settled"),
        (Query("b", "k"), "Forecast"),
        (Withdraw("b"), "Withdrawn"),
        (Outcome("b", 0), "withdrawn"),
    ]
    events = [event for event, _ in cases]
    with Engine() as engine, Engine() as clean:
        answers = engine.handle(events) if together else [engine.handle([event])[0] for event in events]
        assert reason(answers) == [wanted for _, wanted in cases]
        for answer in answers:
            if isinstance(answer, Rejected):
                assert len(answer.detail) > 10
        clean.handle([event for event, wanted in cases if wanted[0].isupper()])
        assert engine.total() == clean.total()
        assert engine.query("next", "k") == clean.query("next", "k")


def test_forecasts_expire_on_the_clock_of_their_key():
    with Engine(config=EngineConfig(KeyConfig(expire_after=10.0))) as engine:
        engine.handle([Query("a", "k", time=0.0), Query("b", "k", time=5.0), Query("c", "j", time=0.0)])
        engine.handle([Query("d", "k", time=10.0)])
        assert engine.handle([Outcome("a", 1, time=10.0)]) == [Settled("a")]
        assert reason(engine.handle([Outcome("b", 1, time=15.1)])) == ["expired"]
        assert engine.handle([Outcome("b", 1, time=15.0)]) == [Settled("b")]
        engine.handle([Query("e", "k", time=30.0)])
        assert reason(engine.handle([Outcome("d", 1)])) == ["expired"]
        assert engine.handle([Outcome("c", 1)]) == [Settled("c")]
        assert engine.summary("k").expired == 1
        assert (engine.summary("k").rounds, engine.summary("k").open) == (2, 1)


def test_a_lane_that_waits_is_not_asked_while_another_is_free():
    with Engine(config=EngineConfig(KeyConfig(lanes=3))) as engine:
        answers = engine.handle([Query(f"q{i}", "k") for i in range(3)])
        first = AlmostOneStepAhead(hints=True).forecast().probability
        assert {answer.probability for answer in answers} == {first}
        engine.handle([Outcome("q1", 1)])
        again = engine.query("q3", "k")
        twin = AlmostOneStepAhead(hints=True)
        twin.learn_one({}, 1)
        assert (again.probability, again.certificate) == (twin.forecast().probability, twin.certificate)


def test_with_as_many_lanes_as_open_forecasts_the_guarantee_is_the_sum_of_punctual_ones():
    lanes, rounds = 5, 400
    with Engine(config=EngineConfig(KeyConfig(lanes=lanes))) as engine:
        rng, wait = random.Random(3), []
        for i in range(rounds):
            engine.handle([Query(f"q{i}", "k")])
            wait.append(i)
            while len(wait) >= lanes or (wait and i == rounds - 1):
                engine.handle([Outcome(f"q{wait.pop(rng.randrange(len(wait)))}", rng.random() < 0.3)])
        summary = engine.summary("k")
        arrays, key = engine._book.arrays, engine._book.keys["k"]
        punctual = 0.0
        for lane in arrays.lanes_of(key.first_lane):
            twin = AlmostOneStepAhead(hints=True)
            twin.replay([0] * int(arrays.memory(lane)[ROUNDS]))
            punctual += twin.guarantee
        assert summary.certificate <= summary.guarantee == pytest.approx(punctual)
        assert summary.rounds == rounds
        assert summary.guarantee <= 2 * (3 * 1.5 * lanes * rounds) ** 0.5


def test_the_certificate_bounds_the_distance_of_each_key_and_of_all():
    rng, forecasts, outcomes = random.Random(4), {}, {}
    with Engine(config=EngineConfig(KeyConfig(lanes=2, report="hint", slack=1.0))) as engine:
        wait = []
        for i in range(900):
            key = f"k{rng.randrange(3)}"
            answer = engine.query(f"q{i}", key, rng.random())
            wait.append((f"q{i}", key, answer.probability))
            while len(wait) > 8 or (wait and i == 899):
                id, key, p = wait.pop(rng.randrange(len(wait)))
                y = int(rng.random() < p / 2)
                engine.outcome(id, y)
                forecasts.setdefault(key, []).append(p)
                outcomes.setdefault(key, []).append(y)
        for key in forecasts:
            distance = calibration_distance(forecasts[key], outcomes[key]).lower
            assert distance <= engine.summary(key).certificate <= engine.summary(key).guarantee
        every = [list(chain(*by_key.values())) for by_key in (forecasts, outcomes)]
        assert calibration_distance(*every).lower <= engine.total().certificate


def test_batches_evictions_and_restarts_change_nothing(tmp_path):
    rng = random.Random(5)
    config = EngineConfig(
        KeyConfig(lanes=3, expire_after=60.0), (Match("w/*", KeyConfig(kind="simplex", lanes=2)),)
    )
    events, wait = [], []
    for i in range(1500):
        key = rng.choice(["a", "b", "c", "w/x", "w/y"])
        events.append(Query(f"q{i}", key, None, float(i)))
        wait.append((f"q{i}", key))
        if len(wait) > 30:
            id, key = wait.pop(rng.randrange(len(wait)))
            value = rng.choice(["s", "r", "t"]) if key[0] == "w" else rng.randrange(2)
            events.append(Outcome(id, value, time=float(i)) if rng.random() < 0.9 else Withdraw(id))
    with Engine(config=config) as whole:
        wanted = whole.handle(events)
    assert {"expired", "Settled", "Withdrawn", "Forecast"} == set(reason(wanted))
    path, answers, i = tmp_path / "ledger", [], 0
    engine = Engine(path, config, hot_keys=2, window=100)
    while i < len(events):
        batch = rng.randrange(1, 80)
        answers += engine.handle(events[i : i + batch])
        i += batch
        if rng.random() < 0.1:
            engine._ledger.close() if rng.random() < 0.5 else engine.close()
            few = {"hot_keys": 2, "window": rng.choice([10, 300])}
            engine = Engine(path, **few)
    assert answers == wanted
    assert engine.handle(events) == wanted
    engine.close()


@pytest.mark.parametrize("count", [1, 40])
def test_numbers_of_numpy_are_numbers(engine, count):
    hint, time, value = np.float64(0.25), np.float64(3.0), np.float64(0.5)
    events = [
        one
        for i in range(count)
        for one in (Query(f"q{i}", "k", hint, time), Outcome(f"q{i}", value, time=time))
    ]
    answers = engine.handle(events)
    assert reason(answers) == ["Forecast", "Settled"] * count
    plain = [
        one for i in range(count) for one in (Query(f"q{i}", "k", 0.25, 3.0), Outcome(f"q{i}", 0.5, time=3.0))
    ]
    assert engine.handle(plain) == answers


def test_lines_are_answered_one_for_one(engine):
    lines = b'{"type":"query","id":"a","key":"k"}\n\nnonsense\n'
    lines += b'{"type":"outcome","id":"a","value":true}\r\n{"id":"z"}'
    answers = [json.loads(line) for line in engine.handle_lines(lines).splitlines()]
    assert [answer["type"] for answer in answers] == [
        "forecast",
        "rejected",
        "rejected",
        "settled",
        "rejected",
    ]
    assert [answer["id"] for answer in answers] == ["a", None, None, "a", "z"]


def test_a_configuration_is_read_from_toml_and_kept_with_the_ledger(tmp_path):
    file = tmp_path / "keys.toml"
    file.write_text(
        'slack = 1.0\nlanes = 4\n[[keys]]\nmatch = "w/*"\nkind = "simplex"\nclasses = ["sun", "rain"]\n'
    )
    config = read_config(file)
    wanted = KeyConfig(kind="simplex", classes=("sun", "rain"))
    assert config == EngineConfig(KeyConfig(slack=1.0, lanes=4), (Match("w/*", wanted),))
    Engine(tmp_path / "ledger", config).close()
    with Engine(tmp_path / "ledger") as engine:
        assert engine.config == config
    with pytest.raises(ValueError, match="another configuration"):
        Engine(tmp_path / "ledger", EngineConfig())
    Engine(tmp_path / "ledger", config).close()


@pytest.mark.parametrize(
    "text, told",
    [
        ("slack = 0.1", "slack"),
        ("lanes = 0", "lanes must be a whole number of at least 1, got 0"),
        ("lens = 2", "lens"),
        ("expire_after = -1.0", "expire_after"),
        ('classes = ["a"]', "classes does not go with kind 'binary'"),
        ('kind = "simplex"\ngrid = "nested"', "grid does not go with kind 'simplex'"),
        ('[[keys]]\nkind = "simplex"', "match"),
        ('[[keys]]\nmatch = "a"\nslack = 0.1', "slack"),
        ("lanes =", "Invalid value"),
    ],
)
def test_a_wrong_configuration_is_refused_with_file_and_entry(tmp_path, text, told):
    file = tmp_path / "keys.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=told) as refusal:
        read_config(file)
    assert "keys.toml" in str(refusal.value)


def test_withdrawn_is_a_word_for_never_charged(engine):
    engine.handle([Query("a", "k"), Query("b", "k")])
    assert engine.handle([Withdraw("a")]) == [Withdrawn("a")]
    assert (engine.summary("k").rounds, engine.summary("k").open) == (0, 1)
