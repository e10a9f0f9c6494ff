"""Topics: offsets and unsent answers in the ledger, with the events that they belong to."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from functools import partial

import pytest
from msgspec.structs import replace

from onlinecal.engine import Engine, LedgerError, Query, TopicFeed
from onlinecal.engine.events import WORDS
from onlinecal.engine.topics import ranges
from tests.engine.fault_tools import Points, changed, in_child, raises_for
from tests.engine.scripts import CONFIG, assert_same_ledgers, lines_of, script

EVENTS = lines_of(script(5, 150, 12))


def question(number, **more):
    return json.dumps({"type": "query", "id": f"q{number}", "key": "oslo", **more}).encode()


def of_one_partition(lines):
    """Lines as messages, with gaps between their offsets."""
    rng, offset, messages = random.Random(0), 0, []
    for line in lines:
        offset += rng.choice([1, 1, 1, 5])
        messages.append((0, offset, line))
    return messages


def test_a_message_is_one_event_whatever_white_space_is_in_it():
    event = {"type": "query", "id": "q1", "key": "oslo", "hint": 0.25}
    values = json.dumps(event, indent=4).encode() + b"\r\n", b" \n" + json.dumps(event).encode()
    with Engine() as engine:
        answers = TopicFeed(engine, "events", [0]).handle((0, i, value) for i, value in enumerate(values))
        assert answers.answers == [*engine.handle([Query("q1", "oslo", 0.25)])] * 2


def test_what_is_no_event_is_answered_by_its_place_and_the_rest_goes_on():
    with Engine() as engine:
        feed = TopicFeed(engine, "events", [0, 3])
        wrong = [None, b"", b"hello", question(1) + question(2), b"x" * 70_000, b'{"type": "outcome"}']
        answers = feed.handle([(3, 5 + i, value) for i, value in enumerate([*wrong, question(1)])])
        keys, values = zip(*answers.messages, strict=True)
        assert keys == (*(f"message events/3/{5 + i}".encode() for i in range(6)), b"forecast q1")
        details = [json.loads(value)["detail"] for value in values[:6]]
        assert details[0] == "the message has no value: send events as JSON in the values of messages"
        assert details[1].startswith("the line is empty: an event is like {")
        assert feed.positions == {0: 0, 3: 12}


def test_keys_say_type_and_id_so_that_no_answer_erases_another_one():
    early = b'{"type": "outcome", "id": "early", "value": 1}'
    with Engine(config=replace(CONFIG, park=10)) as engine:
        answers = TopicFeed(engine, "events", [0]).handle(of_one_partition([early, *EVENTS]))
        for (key, value), answer in zip(answers.messages, answers.answers, strict=True):
            record = json.loads(value)
            assert key.decode() == f"{record['type']} {record['id']}"
            assert record["type"] == WORDS[type(answer)]
        assert {json.loads(value)["type"] for _, value in answers.messages} == {*WORDS.values()}


def test_unsent_answers_come_back_as_they_were_until_they_are_known_to_have_arrived(folder):
    path, messages = folder / "ledger.db", of_one_partition([*EVENTS[:40], b"wrong"])
    with Engine(path, CONFIG) as engine:
        feed = TopicFeed(engine, "events", [0])
        batches = [feed.handle(messages[start : start + 10]) for start in range(0, 41, 10)]
        assert feed.unsent() == batches
        feed.sent(batches[1])
        assert feed.unsent() == batches[2:]
    with Engine(path) as engine:
        feed = TopicFeed(engine, "events", [0])
        assert feed.unsent() == batches[2:]
        # what was answered before is passed over
        nothing = feed.handle(messages)
        assert (nothing.messages, nothing.number) == ([], batches[-1].number + 1)
        feed.sent(nothing)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM outbox").fetchone() == (0,)


def test_answers_that_never_were_cannot_have_arrived():
    with Engine() as engine:
        feed = TopicFeed(engine, "events", [0])
        answers = feed.handle([(0, 0, question(0))])
        with pytest.raises(ValueError, match="number must be that of kept answers, from 0 to 1, got 2"):
            feed.sent(answers._replace(number=2))
        for wrong in (5, None, answers.answers):
            with pytest.raises(ValueError, match="answers must be a TopicAnswers, as handle and unsent"):
                feed.sent(wrong)


NO_MESSAGES = [
    (5, None, "messages must be a list of triples .*, got 5"),
    ([5], None, "messages must be a list of triples .*, got 5"),
    ([(0, 0)], None, r"triples \(partition, offset, value\), .*, got \(0, 0\)"),
    ([(0, "x", b"")], None, r"got \(0, 'x', b''\)"),
    ([([], 0, b"")], None, r"got \(\[\], 0, b''\)"),
    ([(0, 0, "text")], None, "and bytes or None, got .*'text'"),
    ([], 5, "ends must be a dict with an offset for each partition, got 5"),
    ([], {0: "x"}, "the end of partition 0 must be a whole number of at least 0, got 'x'"),
    ([(7, 0, b"")], None, "of the partitions 0-1 of this feed, got one of partition 7"),
]


@pytest.mark.parametrize("messages, ends, words", NO_MESSAGES)
def test_what_is_no_message_or_end_is_refused_and_moves_nothing(messages, ends, words):
    with Engine() as engine:
        feed = TopicFeed(engine, "events", [0, 1])
        with pytest.raises(ValueError, match=words):
            feed.handle(messages, ends=ends)
        if ends is not None:
            with pytest.raises(ValueError, match=words):
                feed.note_ends(ends)
        assert (feed.positions, feed.unsent(), engine.total().events) == ({0: 0, 1: 0}, [], 0)


def test_the_position_is_that_of_every_input(folder):
    with Engine(folder / "ledger.db") as engine:
        feed = TopicFeed(engine, "events", [0, 1], cluster="abc")
        engine.handle_lines(question(0) + b"\n", inputs=[("/data/a.jsonl", 90)])
        feed.handle([(1, 7, question(1))], ends={1: 10, 0: 3})
        assert feed.positions == {0: 3, 1: 10}
        noted = [(one.path, one.position, one.mark) for one in engine.inputs()]
        assert noted == [
            ("/data/a.jsonl", 90, None),
            ("kafka/events/0", 3, b"abc"),
            ("kafka/events/1", 10, b"abc"),
        ]
        assert engine.noted("kafka/events/1").position == 10


WRONG = [
    ("others", [0, 1], "abc", "topic must be 'events', to which the ledger belongs, got 'others': give each"),
    ("events", [0], "abc", "belongs to partitions 0-1 of topic 'events', got 0: name all that it"),
    ("events", [5], "abc", "belongs to partitions 0-1 of topic 'events', got 5: name all that it"),
    (
        "events",
        [0, 1],
        "xyz",
        "cluster must be 'abc', got 'xyz': the ledger belongs to topic 'events' of c",
    ),
    ("events", [0, 1], 5, "cluster must be the id of a cluster, a text, or None, got 5"),
    ("events", [], "abc", "partitions must name at least one"),
    ("events", [-1], "abc", "each of partitions must be a whole number of at least 0, got -1"),
    ("events", 3, "abc", "partitions must be a list of numbers, as [0, 1], got 3"),
    ("", [0, 1], "abc", "topic must be the name of a topic"),
    ("a/b", [0, 1], "abc", "topic must be the name of a topic, which has no /, got 'a/b'"),
]


@pytest.mark.parametrize("topic, partitions, cluster, words", WRONG)
def test_a_ledger_belongs_to_its_topic_and_partitions(folder, topic, partitions, cluster, words):
    with Engine(folder / "ledger.db") as engine:
        TopicFeed(engine, "events", [1, 0], cluster="abc")
        with pytest.raises(ValueError) as caught:
            TopicFeed(engine, topic, partitions, cluster=cluster)
        assert words in str(caught.value)


def test_partitions_may_be_added_and_the_cluster_be_told_later(folder):
    with Engine(folder / "ledger.db") as engine:
        TopicFeed(engine, "events", [0, 1]).handle([(1, 4, question(1))])
        with pytest.raises(
            ValueError, match="belongs to partitions 0-1 of topic 'events', got 0-2: leave the others out"
        ):
            TopicFeed(engine, "events", range(3))
        grown = TopicFeed(engine, "events", range(3), cluster="abc", grow=True)
        assert grown.positions == {0: 0, 1: 5, 2: 0}
        TopicFeed(engine, "events", range(3)).handle([(2, 0, question(2))])
        with pytest.raises(ValueError, match="got 0-1: name all that it"):
            TopicFeed(engine, "events", [0, 1], grow=True)


def test_messages_of_other_partitions_are_refused_and_nothing_happens(folder):
    with Engine(folder / "ledger.db") as engine:
        feed = TopicFeed(engine, "events", [0, 2])
        for given in ({"messages": [(0, 0, question(0)), (1, 0, question(1))]}, {"ends": {1: 4}}):
            with pytest.raises(ValueError, match="partitions 0,2 of this feed, got one of partition 1"):
                feed.handle(**{"messages": [], **given})
        assert (feed.positions, feed.unsent(), engine.total().events) == ({0: 0, 2: 0}, [], 0)


def test_a_batch_that_cannot_be_written_moves_no_position(folder):
    path = folder / "ledger.db"
    with Engine(path) as engine:
        feed = TopicFeed(engine, "events", [0])
        first = feed.handle([(0, 0, question(0))])
        path.rename(folder / "elsewhere.db")
        with pytest.raises(LedgerError):
            feed.handle([(0, 1, question(1))])
        (folder / "elsewhere.db").rename(path)
        assert (feed.positions, feed.unsent()) == ({0: 1}, [first])
        again = feed.handle([(0, 1, question(1))])
        assert feed.unsent() == [first, again]


def test_where_answers_cannot_be_packed_nothing_is_kept(folder):
    def pack(_answers):
        raise RuntimeError("no")

    with Engine(folder / "ledger.db") as engine:
        with pytest.raises(RuntimeError):
            engine.handle_and_keep([Query("q1", "oslo")], pack)
        assert (engine.total().events, engine.kept()) == (0, [])


def test_a_damaged_outbox_is_refused_by_name(folder):
    path = folder / "ledger.db"
    with Engine(path) as engine:
        TopicFeed(engine, "events", [0]).handle([(0, 0, question(0))])
    changed(path, "UPDATE outbox SET content = x'00'")
    with (
        Engine(path) as engine,
        raises_for(path, "table outbox: the row that begins with 1 is not as it was written"),
    ):
        TopicFeed(engine, "events", [0]).unsent()


def fed(path, messages, out, point=lambda: None):
    """What is sent by whoever answers messages: what is unsent first, in a file of lines."""
    with Engine(path, CONFIG, hot_keys=4, states_behind=60) as engine, open(out, "ab", buffering=0) as file:
        feed = TopicFeed(engine, "events", [0])
        for answers in feed.unsent():
            file.write(b"".join(b"%s\t%s\n" % one for one in answers.messages))
            feed.sent(answers)
        rest = [one for one in messages if one[1] >= feed.positions[0]]
        for start in range(0, len(rest), 7):
            answers = feed.handle(rest[start : start + 7])
            point()
            file.write(b"".join(b"%s\t%s\n" % one for one in answers.messages))
            point()
            feed.sent(answers)


def fed_until(at, *given):
    fed(*given, point=Points(at))


@pytest.mark.parametrize("step", [37, pytest.param(1, marks=pytest.mark.slow)])
def test_whoever_is_killed_at_any_statement_sends_every_answer_and_counts_once(folder, step):
    messages, killed = of_one_partition([*EVENTS[:60], b"wrong"]), 0
    fed(folder / "whole.db", messages, folder / "whole.jsonl")
    wanted = (folder / "whole.jsonl").read_bytes().splitlines()
    for at in range(1, 10_000, step):
        path, out = folder / f"{at}.db", folder / f"{at}.jsonl"
        code = in_child(partial(fed_until, at, path, messages, out))
        killed += code != 0
        fed(path, messages, out)
        sent = out.read_bytes().splitlines()
        assert set(sent) == set(wanted)
        # nothing is sent twice but what was under way
        assert len(sent) <= len(wanted) + 7
        assert_same_ledgers(path, folder / "whole.db")
        if code == 0:
            break
    assert killed > 100 / step


@pytest.mark.parametrize(
    "numbers, words", [([0], "0"), ([3, 1, 2, 0], "0-3"), ([5, 0, 1, 7, 8], "0-1,5,7-8"), ([], "")]
)
def test_partitions_are_written_as_people_write_them(numbers, words):
    assert ranges(numbers) == words


def test_what_is_no_engine_is_told_so():
    with pytest.raises(ValueError, match=r"engine must be an Engine, as .*, got 'ledger\.db'"):
        TopicFeed("ledger.db", "events", [0])
