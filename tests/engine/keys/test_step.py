"""A key's turns in micro-batches: the engine's answers, whatever the cutting."""

import contextlib
import pickle
import random
import sqlite3
from collections import Counter, defaultdict

import pytest
from msgspec.structs import replace

from onlinecal.engine import (
    Engine,
    EngineConfig,
    Forecast,
    KeyConfig,
    Outcome,
    Query,
    Rejected,
    Settled,
    Withdraw,
    Withdrawn,
    check_ledger,
    repair_ledger,
)
from onlinecal.engine.events import decode_lines
from onlinecal.engine.keys.state import KeyState
from onlinecal.engine.keys.step import VERSION, KeyStep
from onlinecal.engine.settings import Settings
from tests.engine.key_events import CONFIG, everything

KEYS = ["a", "b", "w/x", "w/y", "w/lp", "plain/a", "u/a"]


def by_key(events):
    """Events of each key in their order; a line that is none belongs to every key."""
    groups = defaultdict(list)
    for event in events:
        groups[event.key].append(event)
    return groups


def pieces(events, rng, most):
    start = 0
    while start < len(events):
        size = rng.randint(1, most)
        yield events[start : start + size]
        start += size


def turns(step, key, events, rng=None, most=1):
    """The answers of a key and its bytes, its events cut into turns of up to `most`."""
    data, answers = None, []
    for piece in pieces(events, rng or random.Random(0), most):
        data, told = step(key, data, piece)
        answers += told
    return data, answers


def kind(answer):
    return answer.reason if isinstance(answer, Rejected) else type(answer).__name__


@pytest.fixture(scope="module")
def history():
    return by_key(everything(2000, KEYS))


@pytest.fixture(scope="module")
def wanted(history):
    """What the engine answers to each key alone."""
    answers = {}
    for key, events in history.items():
        with Engine(config=CONFIG) as engine:
            answers[key] = engine.handle(events)
    kinds = Counter(kind(answer) for told in answers.values() for answer in told)
    assert {"Forecast", "Settled", "Withdrawn", "invalid", "unknown", "expired"} <= set(kinds)
    return answers


@pytest.mark.parametrize("most", [1, 7, 200, 10_000])
def test_a_key_is_answered_as_by_the_engine_however_its_events_are_cut(history, wanted, most):
    step, rng = KeyStep(CONFIG, 10_000), random.Random(most)
    for key, events in history.items():
        assert turns(step, key, events, rng, most)[1] == wanted[key]


def test_what_a_process_has_dumped_itself_it_takes_back_without_a_look(monkeypatch):
    events = [event for n in range(60) for event in (Query(f"q{n}", "k", 0.3), Outcome(f"q{n}", n % 2))]
    wanted, _ = KeyStep(EngineConfig(), 100)("k", None, events)
    step = KeyStep(EngineConfig(), 100)
    data, _ = step("k", None, events[:60])

    def looked(*_):
        raise AssertionError("it was looked at")

    monkeypatch.setattr("onlinecal.engine.keys.storing.Storing._take", looked)
    assert step("k", data, events[60:])[0] == wanted
    with pytest.raises(ValueError, match="looked at"):
        step("l", data, [])


CUTS = (1, 3, 60)
FORGOTTEN = (1, 5, 40, 10_000)


@pytest.mark.parametrize("remember", FORGOTTEN)
def test_neither_answers_nor_bytes_depend_on_the_cutting_whatever_is_forgotten(history, remember):
    step = KeyStep(CONFIG, remember)
    # every kind of key is cut in every way, and with every number remembered there is every way of cutting
    for place, (key, events) in enumerate(history.items(), FORGOTTEN.index(remember)):
        most = CUTS[place % len(CUTS)]
        assert turns(step, key, events, random.Random(most), most) == turns(step, key, events, most=10_000)


@pytest.mark.slow
@pytest.mark.parametrize("remember", FORGOTTEN)
def test_all_keys_are_cut_in_every_way_whatever_is_forgotten(history, remember):
    step = KeyStep(CONFIG, remember)
    for key, events in history.items():
        whole = turns(step, key, events, most=10_000)
        for most in CUTS:
            assert turns(step, key, events, random.Random(most), most) == whole


def test_keys_take_turns_in_any_order(history, wanted):
    step, rng = KeyStep(CONFIG, 10_000), random.Random(1)
    waiting = {key: list(pieces(events, rng, 50)) for key, events in history.items()}
    data, answers = dict.fromkeys(waiting), defaultdict(list)
    while waiting:
        key = rng.choice(list(waiting))
        data[key], told = step(key, data[key], waiting[key].pop(0))
        answers[key] += told
        if not waiting[key]:
            del waiting[key]
    assert answers == wanted


def test_a_repeat_is_answered_as_the_first_time_while_it_is_remembered():
    step = KeyStep(EngineConfig(), 4)
    first = [Query("a", "k", 0.5), Outcome("a", 1), Query("b", "k"), Outcome("b", 0)]
    data, answers = step("k", None, first)
    assert step("k", data, first) == (data, answers)
    data, _ = step("k", data, [Query("c", "k")])
    assert step("k", data, first[1:])[1] == answers[1:]
    data, _ = step("k", data, [Withdraw("c")])
    assert [kind(answer) for answer in step("k", data, [Outcome("a", 1)])[1]] == ["unknown"]


def test_an_open_forecast_is_never_forgotten_and_a_forgotten_id_is_a_new_one():
    step = KeyStep(EngineConfig(), 1)
    data, [late] = step("k", None, [Query("late", "k")])
    others = [event for i in range(50) for event in (Query(f"q{i}", "k"), Outcome(f"q{i}", 1))]
    data, _ = step("k", data, others)
    assert step("k", data, [Query("late", "k")]) == (data, [late])
    assert step("k", data, [Outcome("late", 0)])[1] == [Settled("late")]
    before = data
    data, [again, settled] = step("k", data, [Query("q0", "k"), Outcome("q0", 0)])
    assert isinstance(again, Forecast)
    assert settled == Settled("q0")
    assert data != before
    data, [_, dropped] = step("k", data, [Query("q1", "k"), Withdraw("q1")])
    assert dropped == Withdrawn("q1")
    assert len(data) < 3000


@pytest.mark.parametrize("named_by", ["outcome", "query and outcome", "odd outcome"])
def test_an_id_that_a_long_turn_forgets_may_be_asked_for_anew_in_it(named_by):
    """It was settled there, or asked for and settled, or settled by an event that is not as usual."""
    before = [] if named_by == "query and outcome" else [Query("x", "k", 0.3)]
    first = [Query("x", "k", 0.3)] if not before else []
    others = [event for i in range(30) for event in (Query(f"q{i}", "k", 0.5), Outcome(f"q{i}", i % 2))]
    again = [Query("x", "k", 0.7), Outcome("x", 1), Outcome("x", 1)]
    told_of = Outcome("x", 1, "k" if named_by == "odd outcome" else None)
    turn = [*first, told_of, *others, *again]
    results = []
    for most in (len(turn), 1):
        step = KeyStep(EngineConfig(), 5)
        data, _ = step("k", None, [Query("y", "k"), *before])
        told = []
        for start in range(0, len(turn), most):
            data, answers = step("k", data, turn[start : start + most])
            told += answers
        results.append((data, told))
    assert results[0] == results[1]


def test_what_is_no_event_is_refused_and_the_others_are_answered():
    lines = b'{"type":"query","id":"a","key":"k"}\nnonsense\n{"type":"outcome","id":"a","value":[1]}\n'
    lines += b'{"type":"outcome","id":"a","value":7}\n{"type":"outcome","id":"a","value":1}\n'
    events = [*decode_lines(lines), Query("b", "other"), Query(7, "k"), Query(["c"], "k"), Outcome(None, 1)]
    with Engine() as engine:
        wanted = [kind(answer) for answer in engine.handle(events[:5])]
    _, answers = KeyStep(EngineConfig(), 10)("k", None, events)
    assert wanted == ["Forecast", "malformed", "malformed", "invalid", "Settled"]
    assert [kind(answer) for answer in answers] == [*wanted, "invalid", "invalid", "invalid", "invalid"]
    assert "'other'" in answers[5].detail


def test_a_key_without_accepted_events_keeps_nothing():
    step = KeyStep(EngineConfig(), 10)
    data, answers = step("k", None, [Outcome("a", 1), Query("b", "k", 2.0), Query("", "k")])
    assert data is None
    assert [kind(answer) for answer in answers] == ["unknown", "invalid", "invalid"]


GRIDS_BY_EDITION = [{"horizon": 500, "report": "hint"}, {}]


def hinted_simplex(settings):
    """A setting whose grids depend on the edition of the rules, and events of six classes."""
    config = EngineConfig(KeyConfig(kind="simplex", lanes=2, **settings))
    events = []
    for t in range(120):
        events += [Query(f"q{t}", "k"), Outcome(f"q{t}", "abcdef"[(t * t) % (1 + min(5, t // 10))])]
    return config, events


@pytest.mark.parametrize("settings", GRIDS_BY_EDITION, ids=str)
def test_a_state_of_the_first_version_keeps_to_the_grids_that_it_began_with(settings):
    config, events = hinted_simplex(settings)
    step = KeyStep(config, 1000)
    newer, answers = step("k", None, events)
    first_edition = KeyState("k", 1, Settings(config.default, 1)).dump()
    begun, _ = step("k", step.adopt("k", 0, first_edition, [], 1), events[:1])
    older, first = step("k", begun, events[1:])
    assert (begun[0], older[0], newer[0]) == (1, 1, VERSION)
    with Engine(None, replace(config, edition=1)) as engine:
        assert engine.handle(events)[1:] == first
    with Engine(None, config) as engine:
        assert engine.handle(events) == answers
    assert first != answers[1:]


@pytest.mark.parametrize("settings", GRIDS_BY_EDITION, ids=str)
def test_a_ledger_that_names_no_edition_keeps_to_the_first(settings, tmp_path):
    config, events = hinted_simplex(settings)
    path = tmp_path / "older.ledger"
    with Engine(path, replace(config, edition=1)) as engine:
        answers = engine.handle(events[:100])
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE about SET value = json_remove(value, '$.edition') WHERE name = 'config'")
        [written] = connection.execute("SELECT value FROM about WHERE name = 'config'").fetchone()
        connection.commit()
    assert "edition" not in written
    assert check_ledger(path).problems == []
    with Engine(path, config) as engine:
        assert engine.handle(events)[:100] == answers
    assert check_ledger(path).problems == []
    assert repair_ledger(path, tmp_path / "repaired").changed == []
    assert check_ledger(tmp_path / "repaired").problems == []
    with Engine(tmp_path / "new", config) as engine:
        assert engine.handle(events) != answers
    assert check_ledger(tmp_path / "new").problems == []


def test_bytes_of_another_version_or_configuration_or_damaged_ones_are_refused():
    step = KeyStep(EngineConfig(), 10)
    data, _ = step("k", None, [Query("a", "k"), Outcome("a", 1)])
    assert data[0] == VERSION
    with pytest.raises(ValueError, match=f"state of key 'k' has version {VERSION + 1}, not {VERSION}"):
        step("k", bytes([VERSION + 1]) + data[1:], [])
    with pytest.raises(ValueError, match="state of key 'k' was kept with another configuration"):
        KeyStep(EngineConfig(KeyConfig(slack=2.0)), 10)("k", data, [])
    with pytest.raises(ValueError, match="state of key 'k' is damaged"):
        step("k", data[:20], [])
    middle = len(data) // 2
    with pytest.raises(ValueError, match="damaged"):
        step("k", data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :], [])
    assert step("k", data, []) == (data, [])


@pytest.mark.parametrize("remember", [0, -1, 1.5, "many", None])
def test_how_much_to_remember_is_a_whole_number(remember):
    with pytest.raises(ValueError, match="remember must be a whole number"):
        KeyStep(EngineConfig(), remember)


def test_bytes_do_not_depend_on_how_the_configuration_came_here():
    events = everything(100, ["k0"])
    travelled = pickle.loads(pickle.dumps(CONFIG))
    assert KeyStep(travelled, 10)("k0", None, events) == KeyStep(CONFIG, 10)("k0", None, events)
