"""Every way into the engine: what is wrong with an event is said in the same words, which say what to do.

A door takes events as dicts, or the bytes of lines, and gives answers as dicts.
"""

import gzip
import json
import re

import pytest

from onlinecal.engine import (
    Engine,
    EngineConfig,
    KeyConfig,
    Match,
    Outcome,
    Query,
    Rejected,
    Withdraw,
    encode_lines,
)
from onlinecal.engine.events import LONGEST_LINE
from onlinecal.engine.fields import EVENT_FIELDS, NEEDED_FIELDS
from tests.cli.stream.events import stream

KINDS = {"query": Query, "outcome": Outcome, "withdraw": Withdraw}
CONFIG = EngineConfig(matches=(Match("sky", KeyConfig(kind="simplex")),))
OPEN = [Query("open", "k", 0.5), Query("sky", "sky")]
OF_MSGSPEC = re.compile(
    r"Expected|\$\.|\bat key\b|- at `|Object (?:missing|contains)|JSON is malformed|Input data"
)


def objects(engine, events, *_):
    """Python's objects, one after the other."""
    return told([answer for event in events for answer in engine.handle([made(event)])])


def many_objects(engine, events, *_):
    """Python's objects among others, all at once."""
    others = [Query(f"other {i}", "other") for i in range(20)]
    answers = told(engine.handle([*others, *map(made, events)]))
    return answers[20:]


def made(event):
    rest = {name: value for name, value in event.items() if name != "type"}
    return KINDS[event["type"]](**rest)


def told(answers):
    return [json.loads(line) for line in encode_lines(answers).splitlines()]


def lines(engine, events, *_):
    """Lines of JSON, one after the other."""
    return [json.loads(engine.handle_lines(line)) for line in as_lines(events)]


def many_lines(engine, events, *_):
    """Lines of JSON, all at once."""
    padding = b'{"type":"query","id":"other","key":"other"}\n'
    answers = engine.handle_lines(padding * 20 + b"".join(as_lines(events))).splitlines()
    return list(map(json.loads, answers[20:]))


def as_lines(events):
    return [one + b"\n" if isinstance(one, bytes) else json.dumps(one).encode() + b"\n" for one in events]


def http(engine, events, *_):
    """POST /events."""
    return posted(engine, [("/events", b"".join(as_lines(events)))])


def http_one(engine, events, *_):
    """POST /query and its like, an event each."""
    requests = []
    for event in events:
        content = {name: value for name, value in event.items() if name != "type"}
        requests.append((f"/{event['type']}", json.dumps(content).encode()))
    return posted(engine, requests)


def posted(engine, requests):
    pytest.importorskip("starlette", reason="HTTP needs onlinecal[serve]")
    from starlette.testclient import TestClient

    from onlinecal.engine.concurrent import AsyncEngine
    from onlinecal.engine.http.app import create_app

    with TestClient(create_app(AsyncEngine(engine)), base_url="http://127.0.0.1") as client:
        bodies = [client.post(path, content=body).content for path, body in requests]
    return [json.loads(line) for body in bodies for line in body.splitlines()]


DOORS = objects, many_objects, lines, many_lines, http, http_one

WRONG = {
    "id": [None, True, False, 1.5, [], ["a"], {}, {"a": 1}, "", "a\0", "a" * 201, 10**200],
    "key": [True, 1.5, [], ["a"], {}, {"a": 1}, "", "a\0", "a" * 201, 10**200],
    "hint": [
        True,
        False,
        "0.5",
        "high",
        [],
        [0.5],
        {"a": None},
        {"a": "1"},
        {"a": [1]},
        {"a": True},
        1.5,
        -1,
    ],
    "value": [None, [], [1], {"a": None}, {"a": "1"}, {"a": {}}, {"a": False}, 2, -0.5, 10**30],
    "time": [
        True,
        [],
        [0],
        {},
        {"a": 1},
        "soon",
        "7d",
        "12",
        "",
        "2026-01-31",
        "2026-01-31T09:30:00",
        10**400,
    ],
}
"""For each field a value of every kind of JSON that it cannot have, and some that cannot be."""
SAID = {None: "null", True: "true", False: "false"}


@pytest.fixture(scope="module")
def wrongs():
    good = {
        "query": {"id": "a", "key": "k"},
        "outcome": {"id": "open", "value": 1},
        "withdraw": {"id": "open"},
    }
    cases = []
    for type, fields in EVENT_FIELDS.items():
        for field in fields:
            for value in WRONG[field]:
                if value is not None or field in NEEDED_FIELDS[type]:
                    cases.append((field, value, {"type": type, **good[type], field: value}))
    return cases


@pytest.mark.parametrize("door", DOORS)
def test_a_wrong_value_is_named_with_its_field_and_a_remedy_through_every_door(door, wrongs):
    events = [event for *_, event in wrongs]
    with Engine(config=CONFIG) as engine, Engine(config=CONFIG) as other:
        engine.handle(OPEN)
        other.handle(OPEN)
        answers, total = door(engine, events), engine.total()
        assert total.open == (22 if door is many_objects else 3 if door is many_lines else 2)
        assert [(one["reason"], one["detail"]) for one in answers] == [
            (one["reason"], one["detail"]) for one in objects(other, events)
        ]
    for (field, value, event), answer in zip(wrongs, answers, strict=True):
        assert answer["type"] == "rejected", event
        assert answer["id"] == (event["id"] if field != "id" else None)
        assert not OF_MSGSPEC.search(answer["detail"]), answer
        assert re.match(rf"{field}\b|each label of {field}", answer["detail"]), (event, answer)
        assert re.search(r"must be|cannot be read: write|names no zone: end", answer["detail"]), answer
        shown = SAID.get(value) if value is None or isinstance(value, bool) else repr(value)[:20]
        if isinstance(value, dict):
            shown = "{}" if not value else repr(next(iter(value)))
        assert (shown in answer["detail"]) or abs(value) >= 10**200, (event, answer)


LINES = {
    b'{"type":"query","id":"a","lane":"k"}': "unknown field 'lane'; did you mean 'key'? Known: id",
    b'{"type":"query","id":"a","key":"k","Hint":1}': "unknown field 'Hint'; did you mean 'hint'?",
    b'{"type":"outcome","id":"open","vlaue":1}': "did you mean 'value'? Known: id, value, key, time",
    b'{"type":"outcome","id":"open","label":1}': "unknown field 'label'; did you mean 'value'?",
    b'{"type":"withdraw","id":"open","timestamp":1}': "did you mean 'time'? Known: id, key, time",
    b'{"type":"outcome","id":"open","value":1,"hint":0.5}': "field 'hint'. Known: id, value, key, time",
    b'{"type":"qeury","id":"a","key":"k"}': "type must be query, outcome or withdraw, got 'qeury'; did",
    b'{"type":"forecast","id":"a"}': "type must be query, outcome or withdraw, got 'forecast'",
    b'{"type":null,"id":"a"}': "type must be query, outcome or withdraw, got null",
    b'{"id":"a","key":"k"}': "type is missing: it must be query, outcome or withdraw",
    b'{"type":"query","id":"a"}': "key is missing: it must be text or a whole number",
    b'{"type":"outcome","id":"open"}': "value is missing: it must be 0, 1, false, true",
    b'{"type":"outcome","id":"open","value":null}': "got null: if it will never be known, send a withdraw",
    b'{"type":"query","id":"a","key":"k","hint":"0.5"}': "got '0.5': write the number without quotes",
    b'{"schema":{},"payload":{"type":"query","id":"a","key":"k"}}': "of Kafka Connect: send its `pay",
    b'{"before":null,"after":{"id":"a"},"op":"c"}': "an envelope of Debezium: send what is in its `after`",
    b'{"schema":{},"payload":{"before":null,"after":{},"op":"c"}}': "what is in its `payload.after",
    b'{"data":{"type":"query","id":"a","key":"k"}}': "around an event: send what is in its 'data'",
    b'{"type":"query","payload":{"type":"query"},"schema":1}': "an envelope of Kafka Connect",
    b'[{"type":"query","id":"a","key":"k"}]': "this is a list: write each event on one line",
    b'"{\\"type\\":\\"query\\"}"': "it was encoded twice",
    b"7": "an event is an object such as",
    b'{"type":"query","id":"a","key"': "the JSON ends in the middle: it was cut off",
    b'{"type":"query","id":"a': "the JSON ends in the middle: it was cut off",
    b"{": "write each event on one line",
    b'    "type": "query",': "a piece of a JSON text with line breaks: write each event on one line",
    b'    "time": 1.5': "a piece of a JSON text with line breaks: write each event on one line",
    b"  },": "a piece of a JSON text with line breaks: write each event on one line",
    b"}": "a piece of a JSON text with line breaks: write each event on one line",
    b'{"type":"query"} {}': "more follows behind the first JSON value: write each event on one line",
    b"{'type':'query'}": "no JSON at character 2: texts have double quotes",
    b'{"type":"query","id":"a","key":"k",}': "no JSON at character 36, '}'",
    b'{"type":"query","id":"a","key":"k","time":NaN}': "NaN is no number of JSON: leave the field out",
    b'{"type":"query","id":"a","key":"k","time":1e999}': "time must be a finite number of seconds, got inf",
    b'{"type":"query","id":"a","key":"k","hint":1e999}': "hint must be a number in [0, 1], got inf",
    b'{"type":"query","id":"a\\ud800","key":"k"}': "id must be a text of 1 to 200 characters without NUL",
    b'{"type":"query","id":"\xff","key":"k"}': "byte 23 is not UTF-8: write events in UTF-8",
    b'{"type":"query","id":"a","hint":' + b"[" * 30_000: "nested too deeply",
    b"": "the line is empty",
    b" \r": "the line is empty",
    b"\xef\xbb\xbf" * 20_000: "no JSON at character 1",
    b"x" * (LONGEST_LINE + 1): f"has {LONGEST_LINE + 1} bytes, more than the {LONGEST_LINE} allowed",
    json.dumps({"type": "query"}).encode("utf-16"): "UTF-16: write events in UTF-8",
    json.dumps({"type": "query"}).encode("utf-16-be"): "UTF-16: write events in UTF-8",
    gzip.compress(b"{}", mtime=0).replace(b"\n", b""): "file of gzip does: unpack it first",
}  # fmt: skip


@pytest.mark.parametrize("door", [lines, many_lines, http])
def test_a_line_that_is_no_event_is_told_what_to_do(door):
    with Engine(config=CONFIG) as engine:
        engine.handle(OPEN)
        given = list(LINES) if door is not http else [line for line in LINES if line.strip()]
        answers = door(engine, given)
        assert engine.total().open == (3 if door is many_lines else 2)
    assert len(answers) == len(given)
    for line, answer in zip(given, answers, strict=True):
        assert answer["type"] == "rejected"
        assert LINES[line] in answer["detail"], (line[:80], answer)
        assert len(answer["detail"]) < 250
        assert not OF_MSGSPEC.search(answer["detail"])


def test_single_bodies_are_read_whole_and_refused_in_the_same_words():
    mark, event = b"\xef\xbb\xbf", json.dumps({"id": "q", "key": "k"}, indent=2).encode()
    requests = [
        ("/query", mark + event),
        ("/query", mark + b"[" + event.replace(b'"q"', b'"r"') + b"]"),
        ("/query", b'[{"id": "a", "key": "k"'),
        ("/query", event.decode().encode("utf-16")),
        ("/outcome", b'{"type": "query", "id": "q", "key": "k"}'),
        ("/outcome", b'{"id": "q"}'),
    ]
    with Engine() as engine:
        one, [other], *refused = posted(engine, requests)
    assert (one["id"], other["id"]) == ("q", "r")
    for answer, words in zip(
        refused,
        (
            "ends in the middle",
            "UTF-16",
            "outcome at /outcome, or left out, got 'query': send",
            "value is missing",
        ),
        strict=True,
    ):
        assert words in answer["detail"]


@pytest.mark.parametrize("door", DOORS)
def test_whole_numbers_are_names_and_texts_with_a_zone_are_times(door):
    events = [
        {"type": "query", "id": 1, "key": 7, "time": "2026-01-31T09:30:00.5+02:00"},
        {"type": "query", "id": "1", "key": "7", "time": 1769844600.5},
        {"type": "outcome", "id": "1", "value": 1, "key": 7, "time": "2026-01-31 07:30:01Z"},
        {"type": "outcome", "id": 1, "value": 1, "key": "7", "time": 1769844601},
        {"type": "withdraw", "id": 2},
    ]
    with Engine(config=CONFIG) as engine:
        first, again, *closed, unknown = door(engine, events)
        summary = engine.summary("7")
    assert first == again
    assert (first["type"], first["id"], first["key"]) == ("forecast", "1", "7")
    assert closed == [{"type": "settled", "id": "1"}] * 2
    assert (unknown["id"], unknown["reason"]) == ("2", "unknown")
    assert (summary.rounds, summary.open) == (1, 0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("1970-01-01T00:00:00.1Z", 0.1),
        ("1969-12-31T23:59:59.9z", -0.1),
        ("2026-01-31T09:30:00.123456789Z", 1769851800.123456789),
        ("2026-01-31T09:30:00,25-0730", 1769878800.25),
        ("2026-01-31 09:30 UTC", 1769851800.0),
        ("2024-02-29T23:59:59+05", 1709233199.0),
    ],
)
def test_a_text_with_a_zone_is_the_nearest_float(text, seconds):
    with Engine(config=EngineConfig(KeyConfig(expire_after=1.0))) as engine:
        engine.query("q", "k", None, text)
        engine.query("again", "k", None, seconds)
        assert engine.query("q", "k", None, seconds) == engine.query("q", "k", None, text)
        assert not isinstance(engine.query("q", "k", None, text), Rejected)


@pytest.mark.parametrize(
    "text", ["2026-02-30T00:00Z", "2026-01-31T24:00:00Z", "2026-01-31T23:59:60Z", "0000-01-01T00:00Z"]
)
def test_a_time_that_is_in_no_calendar_is_refused(text):
    with Engine() as engine:
        answer = engine.query("q", "k", None, text)
        assert (answer.reason, repr(text) in answer.detail) == ("invalid", True)


def test_files_of_windows_tools_are_read_or_refused_in_words(tmp_path):
    events = {"type": "query", "id": "a", "key": "k"}, {"type": "outcome", "id": "a", "value": 1}
    text = "".join(json.dumps(one) + "\r\n" for one in events)
    marked = b"\xef\xbb\xbf" + text.encode()
    files = {"a.jsonl": marked, "b.jsonl.gz": gzip.compress(marked), "c.jsonl": text.encode("utf-16")}
    answers = []
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        done = stream("--ledger", tmp_path / f"{name}.ledger", "--quiet", "--input", tmp_path / name)
        answers.append(list(map(json.loads, done.stdout_bytes.splitlines())))
    *read, refused = answers
    for some in read:
        assert [one["type"] for one in some] == ["forecast", "settled"]
    assert all("UTF-16: write events in UTF-8" in one["detail"] for one in refused)
