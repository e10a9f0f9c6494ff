"""A key's turns in micro-batches: the engine's answers, whatever the cutting."""

import pickle
import random
from collections import defaultdict

import msgspec
import pytest

from onlinecal.engine import (
    Engine,
    EngineConfig,
    KeyConfig,
    Outcome,
    Query,
    Settled,
    Withdraw,
)
from onlinecal.engine.keys.book import Book
from onlinecal.engine.keys.storing import SUM, with_checksum
from onlinecal.engine.ledger.schema import Snapshot
from onlinecal.engine.turns import KeyTurns
from onlinecal.version import STATE_FORMAT
from tests.engine.scripts import CONFIG, events_of, kind_of, script


def by_key(events):
    """Events of each key in their order."""
    groups = defaultdict(list)
    for event in events:
        groups[event.key].append(event)
    return groups


def turns(step, key, events, rng=None, most=1):
    """The answers of a key and its bytes, its events cut into turns of up to `most`."""
    rng, start, data, answers = rng or random.Random(0), 0, None, []
    while start < len(events):
        size = rng.randint(1, most)
        data, told = step(key, data, events[start : start + size])
        start, answers = start + size, answers + told
    return data, answers


@pytest.fixture(scope="module")
def history():
    return by_key(events_of(script(0, 400, keys=9)))


@pytest.mark.parametrize("most", [1, 7, 10_000])
def test_a_key_is_answered_as_by_the_engine_however_its_events_are_cut(history, most):
    step, rng, kinds = KeyTurns(CONFIG, 10_000), random.Random(most), set()
    for key, events in history.items():
        with Engine(config=CONFIG) as engine:
            wanted = engine.handle(events)
        assert turns(step, key, events, rng, most)[1] == wanted
        kinds.update(map(kind_of, wanted))
    assert {"Forecast", "Settled", "Withdrawn", "invalid", "duplicate", "expired"} <= kinds


CUTS, FORGOTTEN = (1, 3, 60), (1, 5, 40)


@pytest.mark.parametrize("remember", FORGOTTEN)
def test_neither_answers_nor_bytes_depend_on_the_cutting_whatever_is_forgotten(history, remember):
    step = KeyTurns(CONFIG, remember)
    # every kind of key is cut in every way, and with every number remembered there is every way of cutting
    for place, (key, events) in enumerate(history.items(), FORGOTTEN.index(remember)):
        most = CUTS[place % len(CUTS)]
        assert turns(step, key, events, random.Random(most), most) == turns(step, key, events, most=10_000)


def test_a_repeat_is_answered_as_the_first_time_while_it_is_remembered():
    step = KeyTurns(EngineConfig(), 4)
    first = [Query("a", "k", 0.5), Outcome("a", 1), Query("b", "k"), Outcome("b", 0)]
    data, answers = step("k", None, first)
    assert step("k", data, first) == (data, answers)
    data, _ = step("k", data, [Query("c", "k")])
    assert step("k", data, first[1:])[1] == answers[1:]
    data, _ = step("k", data, [Withdraw("c")])
    assert [kind_of(answer) for answer in step("k", data, [Outcome("a", 1)])[1]] == ["unknown"]


def test_an_open_forecast_is_never_forgotten_and_a_forgotten_id_is_a_new_one():
    step = KeyTurns(EngineConfig(), 1)
    data, [late] = step("k", None, [Query("late", "k")])
    others = [event for i in range(50) for event in (Query(f"q{i}", "k"), Outcome(f"q{i}", 1))]
    data, _ = step("k", data, others)
    assert step("k", data, [Query("late", "k")]) == (data, [late])
    assert step("k", data, [Outcome("late", 0)])[1] == [Settled("late")]
    data, told = step("k", data, [Query("q0", "k"), Outcome("q0", 0), Query("q1", "k"), Withdraw("q1")])
    assert [kind_of(answer) for answer in told] == ["Forecast", "Settled", "Forecast", "Withdrawn"]
    assert len(data) < 3000


@pytest.mark.parametrize("named_by", ["outcome", "query and outcome", "odd outcome"])
def test_an_id_that_a_long_turn_forgets_may_be_asked_for_anew_in_it(named_by):
    """It was settled there, or asked for and settled, or settled by an event that is not as usual."""
    before, turn = [Query("y", "k")], []
    (turn if named_by == "query and outcome" else before).append(Query("x", "k", 0.3))
    turn.append(Outcome("x", 1, "k" if named_by == "odd outcome" else None))
    turn += [event for i in range(30) for event in (Query(f"q{i}", "k", 0.5), Outcome(f"q{i}", i % 2))]
    turn += [Query("x", "k", 0.7), Outcome("x", 1), Outcome("x", 1)]
    step = KeyTurns(EngineConfig(), 5)
    data, _ = step("k", None, before)
    after, told = step("k", data, turn)
    for number, event in enumerate(turn):
        data, [answer] = step("k", data, [event])
        assert answer == told[number]
    assert data == after


def test_a_query_of_another_key_is_refused_and_the_others_are_answered():
    events = [Query("a", "k"), Query("b", "other"), Query(7, "k"), Outcome(None, 1), Outcome("a", 1)]
    _, answers = KeyTurns(EngineConfig(), 10)("k", None, events)
    assert [kind_of(answer) for answer in answers] == [
        "Forecast",
        "invalid",
        "Forecast",
        "malformed",
        "Settled",
    ]
    assert answers[1].detail == "key must be 'k', whose events these are, got 'other'"


def test_bytes_of_another_format_or_configuration_or_damaged_ones_are_refused():
    step = KeyTurns(EngineConfig(), 10)
    data, _ = step("k", None, [Query("a", "k"), Outcome("a", 1)])
    kept, middle = msgspec.msgpack.decode(data[1:]), len(data) // 2
    # behind the checksum and the mark of an array
    kept[2] = with_checksum(kept[2][SUM : SUM + 1] + b"\3" + kept[2][SUM + 2 :])
    for wrong, words in (
        (bytes([5]) + data[1:], "has format 5, which an older onlinecal"),
        (bytes([STATE_FORMAT + 1]) + data[1:], f"has format {STATE_FORMAT + 1}, which a newer onlinecal"),
        (data[:1] + msgspec.msgpack.encode(kept), "has format 3, which an older onlinecal wrote"),
        (data[:20], "is damaged"),
        (b"", "is damaged: its bytes are missing"),
        (
            data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
            ".*damaged.* Restore the store of states from a backup",
        ),
    ):
        with pytest.raises(ValueError, match=f"state of key 'k' {words}"):
            step("k", wrong, [])
    with pytest.raises(ValueError, match=r"damaged.*`onlinecal stream repair`"):
        Book(EngineConfig()).load([Snapshot(0, "k", -1, 2, b"\0" * 40)])
    with pytest.raises(ValueError, match="state of key 'k' was kept with another configuration"):
        KeyTurns(EngineConfig(KeyConfig(slack=2.0)), 10)("k", data, [])
    assert step("k", data, []) == (data, [])


def test_bytes_do_not_depend_on_how_the_configuration_came_here():
    events = events_of(script(0, 50, kinds=("lanes",), keys=1))
    travelled = pickle.loads(pickle.dumps(CONFIG))
    assert KeyTurns(travelled, 10)("lanes/0", None, events) == KeyTurns(CONFIG, 10)("lanes/0", None, events)
