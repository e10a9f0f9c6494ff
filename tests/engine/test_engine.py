"""What the engine refuses and why, of events and of configurations; the guarantee of a key with lanes."""

import random

import numpy as np
import pytest
from msgspec.structs import replace

from onlinecal import AlmostOneStepAhead
from onlinecal.engine import (
    Engine,
    EngineConfig,
    Forecast,
    KeyConfig,
    LedgerError,
    Match,
    Outcome,
    Query,
    Rejected,
    Withdraw,
    read_config,
)
from onlinecal.forecasters.binary.cells import ROUNDS
from tests.engine.scripts import CONFIG, assert_sound, events_of, kind_of, script


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize(
    ("kind", "hint", "labels"), [("binary", 0.4, [0, 1, 1]), ("simplex", {"a": 0.4, "b": 0.6}, "abb")]
)
def test_keys_without_hints_refuse_them_in_words_and_promise_more(kind, hint, labels, lanes):
    promised = {}
    for hints in (True, False):
        with Engine(config=EngineConfig(KeyConfig(kind=kind, hints=hints, lanes=lanes))) as engine:
            engine.handle([Query(f"q{i}", "k") for i in range(3)])
            engine.handle([Outcome(f"q{i}", label) for i, label in enumerate(labels)])
            promised[hints] = engine.summary("k").guarantee
            told = [engine.query("hinted", "k", hint)]
            told += engine.handle([Query(f"many {i}", "k", hint) for i in range(200)])
            assert {type(one) for one in told} == {Forecast if hints else Rejected}
    assert "hints = false" in told[0].detail
    assert promised[False] < promised[True]


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
        (Query(7.5, "k"), "malformed"),
        (Query("n", None), "malformed"),
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
        assert list(map(kind_of, answers)) == [wanted for _, wanted in cases]
        for answer in answers:
            if isinstance(answer, Rejected):
                assert len(answer.detail) > 10
        clean.handle([event for event, wanted in cases if wanted[0].isupper()])
        assert engine.total() == clean.total()
        assert engine.query("next", "k") == clean.query("next", "k")


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


@pytest.mark.parametrize("count", [1, 40])
def test_numbers_of_numpy_are_numbers(count):
    def events(number):
        for i in range(count):
            yield Query(f"q{i}", "k", number(0.25), number(3.0))
            yield Outcome(f"q{i}", number(0.5), time=number(3.0))

    with Engine() as engine:
        answers = engine.handle(events(np.float64))
        assert list(map(kind_of, answers)) == ["Forecast", "Settled"] * count
        assert engine.handle(events(float)) == answers


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
    told = r'config must be the one that the ledger was made with, {.*"lanes":4.*, or be left out, got {}: a'
    with pytest.raises(ValueError, match=told):
        Engine(tmp_path / "ledger", EngineConfig())
    Engine(tmp_path / "ledger", config).close()


@pytest.mark.parametrize(
    "text, told",
    [
        ("slack = 0.1", "slack"),
        ("lens = 2", "lens"),
        ('[[keys]]\nkind = "simplex"', "match"),
        ('[[keys]]\nmatch = "a"\nslack = 0.1', "slack"),
        ("lanes =", "Invalid value"),
    ],
)
def test_a_file_that_is_none_is_refused_with_its_name_and_the_entry(tmp_path, text, told):
    file = tmp_path / "keys.toml"
    file.write_text(text)
    with pytest.raises(ValueError, match=told) as refusal:
        read_config(file)
    assert "keys.toml" in str(refusal.value)


def test_an_id_that_a_batch_asks_of_keys_of_two_kinds_belongs_to_the_one_that_forecast():
    """The number is no label of the first key, whatever the second one, which was refused, would take."""
    asked = [Query("q", "weather/1"), Query("q", "plain")]
    with Engine(config=CONFIG) as engine:
        answers = engine.handle([*asked, *(Query(f"other {i}", "plain") for i in range(50)), Outcome("q", 0)])
    assert [getattr(one, "reason", None) for one in (*answers[:2], answers[-1])] == [
        None,
        "duplicate",
        "invalid",
    ]


LP = {"kind": "lp"}
SIMPLEX = {"kind": "simplex"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"n_cells": 0}, "n_cells"),
        ({"rule": "guess"}, "rule"),
        ({"slack": 0.1}, "slack"),
        ({"window": 0}, "window"),
        ({"lanes": 0}, "lanes must be a whole number of at least 1, got 0"),
        ({"expire_after": -1.0}, "expire_after must be a positive number of seconds"),
        ({"max_jump": 0.0}, "max_jump must be a positive number of seconds"),
        ({"expire_as": 0}, "expire_as needs expire_after and .*: leave expire_as out, or set"),
        ({"expire_as": 0, "expire_after": 1.0, **SIMPLEX}, "expire_as needs expire_after and kind 'binary'"),
        ({"expire_as": 2, "expire_after": 1.0}, "expire_as must be None, 0 or 1, got 2"),
        ({"expire_as": True, "expire_after": 1.0}, "expire_as must be None, 0 or 1, got True"),
        ({"steering": "yes"}, "steering must be None, True or False, got 'yes'"),
        ({"steering": True, **LP}, "steering does not go with kind 'lp', got True"),
        ({"hints": False, **LP}, "hints must be True with kind 'lp', which recalibrates hints, got False"),
        (
            {"alarm": 0.0},
            "alarm must be None, True, False or a rate of false alarms between 0 and 1, .*, got 0.0",
        ),
        ({"classes": ("a",)}, "classes does not go with kind 'binary'"),
        (
            {"grid": "nested", **SIMPLEX},
            "grid does not go with kind 'simplex', .*: leave it out, or set kind to 'bin",
        ),
        ({"fading": 0.5, **SIMPLEX}, "fading does not go with kind 'simplex', got 0.5"),
        ({"window": 9, **SIMPLEX}, "window=9 needs classes=.* with kind 'simplex'"),
        ({"most_classes": 7}, "most_classes is for classes that are discovered"),
        ({"most_classes": 7, "classes": ("a", "b"), **SIMPLEX}, "most_classes is for classes that are disc"),
        ({"most_classes": 1025, **SIMPLEX}, "most_classes"),
        ({"p": 1.0, **LP}, "p must be a number above 1, at most 100, got 1.0"),
        ({"within": "both", **LP}, "within must be one of"),
        ({"lanes": 2, **LP}, "lanes must be 1 with kind 'lp', .*, got 2: leave it out"),
        ({"slack": 1.0, **LP}, "slack does not go with kind 'lp', got 1.0"),
    ],
)
def test_what_cannot_be_is_refused_before_a_ledger_is_made(tmp_path, given, told):
    with pytest.raises(ValueError, match=told):
        Engine(tmp_path / "ledger", EngineConfig(KeyConfig(**given)))
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_configuration_is_refused_in_words_before_a_ledger_is_made(tmp_path):
    for wrong in (KeyConfig(), "config.toml", {"kind": "lp"}):
        with pytest.raises(
            ValueError, match=r"config must be an EngineConfig, got .*: read a file by read_config"
        ):
            Engine(tmp_path / "ledger", wrong)
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_an_engine_are_whole_and_refused_before_a_ledger_is_made(tmp_path):
    for name, value in (("hot_keys", -1), ("states_behind", 2.5)):
        with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 0, got {value}"):
            Engine(tmp_path / "ledger", **{name: value})
    assert list(tmp_path.iterdir()) == []
    with Engine() as engine, pytest.raises(ValueError, match="offset must be a whole number of at least 0"):
        engine.keys(offset=0.5)


def shuffled(seed):
    """Events of a script, many of them before others that they belong to, and with clocks that jump."""
    rng, events = random.Random(seed), events_of(script(seed, 150))
    return [one for _, one in sorted(enumerate(events), key=lambda one: one[0] + rng.choice([0, 0, 25]))]


@pytest.mark.parametrize("seed", range(3))
def test_what_is_sent_again_is_answered_as_it_was_but_what_was_refused_is_judged_anew(seed, folder):
    events, path = shuffled(seed), folder / "ledger.db"
    some = len(events) // 2
    with Engine(path, replace(CONFIG, park=0), hot_keys=5, states_behind=50) as engine:
        first = engine.handle(events[:some])
        # as after a crash: all from the beginning, with what had not come yet
        second = engine.handle(events)
        third = engine.handle(events)
    taken_late = 0
    for before, after in [*zip(first, second, strict=False), *zip(second, third, strict=True)]:
        assert before == after or isinstance(before, Rejected)
        taken_late += isinstance(before, Rejected) and not isinstance(after, Rejected)
    assert taken_late > 0
    assert_sound(path)


@pytest.mark.parametrize("is_in_file", [True, False])
def test_a_closed_engine_says_so_whatever_it_remembers(tmp_path, is_in_file):
    engine = Engine(tmp_path / "ledger" if is_in_file else None)
    engine.query("q", "key")
    assert engine.total().open == engine.summary("key").open == 1
    engine.close()
    for ask in (engine.total, engine.overview, engine.largest, engine.keys, lambda: engine.summary("key")):
        with pytest.raises(LedgerError, match="it was closed: open it anew"):
            ask()
