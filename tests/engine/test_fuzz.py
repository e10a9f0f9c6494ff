"""Lines that are no events, and names that cannot be: each is answered, and none leaves a trace."""

import json
import random
from functools import partial

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from onlinecal.engine import Engine, EngineConfig, Outcome, Query, Rejected, Withdraw
from onlinecal.engine.events import LONGEST_LINE
from onlinecal.engine.turns import KeyTurns
from tests.engine.scripts import CONFIG, assert_sound, lines_of, report_of, script, states_of
from tests.properties import examples

REASONS = {"malformed", "invalid", "duplicate", "unknown", "settled", "withdrawn", "expired", "full"}

QUERY = {"type": "query", "id": "fresh", "key": "plain/0", "hint": 0.5, "time": 1.0}
OUTCOME = {"type": "outcome", "id": "q1", "value": 1}

ODD = (
    None, True, False, -1, 2, 0.5, -0.5, 1e308, -1e308, 10**30, -(10**400), "", "\0", "x" * 201,
    "x" * 100_000, "é" * 500, [], [[]], {}, {"a": {}}, {"a": "b"}, {"": 1.0}, {"a": 2.0}, {"a": 0.5},
    [0.5, 0.5], "0.5", "NaN",
)  # fmt: skip

RAW = (
    b"", b" ", b"\r", b"\t\r", b"{", b"}", b"[]", b"{}", b"null", b"1", b'"query"', b"\xff\xfe",
    b"\xef\xbb\xbf{}", b"\0", b"[" * 50_000, b'{"a":' * 10_000,
    b'{"type":"query","id":"fresh","key":"k","hint":' + b"[" * 2_000,
    b'{"type":"query","id":"fresh","key":"k","time":NaN}',
    b'{"type":"query","id":"fresh","key":"k","time":Infinity}',
    b'{"type":"query","id":"fresh","key":"k","time":1e999}',
    b'{"type":"query","id":"fresh","key":"k","hint":-1e-400,}',
    b'{"type":"query","id":"\\ud800","key":"k"}', b'{"type":"query","id":"fresh","key":"\\udfff\\ud800"}',
    b'{"type":"query","id":"fresh\\u0000","key":"k"}', b'{"type":"query","id":"\xff","key":"k"}',
    b'{"type":"query","id":"a","id":7.5,"key":"k"}', b'{"id":"fresh"}', b'{"type":"forecast","id":"fresh"}',
    b'{"type":"query","id":"fresh","key":"k"} {}', b'{"type":"query","id":"fresh","key":"k"}\0',
    b'{"type":"query","type":"outcome","id":"fresh","key":"k"}', b"x" * (LONGEST_LINE + 1),
    b'{"type":"query","id":"' + b"i" * 100_000 + b'","key":"k"}', b"// comment", b"'single'",
    b'{"type":"outcome","id":"q1","value":' + b"9" * 30_000 + b"}",
)  # fmt: skip


def flipped(rng, line):
    """A line with a bit of it changed."""
    place = rng.randrange(len(line))
    return line[:place] + bytes([line[place] ^ (1 << rng.randrange(8))]) + line[place + 1 :]


def with_odd_value(rng, line):
    event = json.loads(line)
    event[rng.choice([*event, "extra"])] = rng.choice(ODD)
    return json.dumps(event).encode()


def bad_line(rng, lines):
    """A line that may be no event; nothing is certain about it but that it has no newline."""
    line = rng.choice(lines)
    change = rng.choice(
        [
            partial(flipped, rng, line),
            lambda: line[: rng.randrange(len(line))],
            lambda: line[rng.randrange(1, len(line)) :],
            lambda: line + rng.choice(lines),
            lambda: b"\xef\xbb\xbf" + line,
            partial(with_odd_value, rng, line),
            partial(with_odd_value, rng, json.dumps(rng.choice([QUERY, OUTCOME])).encode()),
            lambda: rng.choice(RAW),
            lambda: rng.randbytes(rng.choice([1, 20, 300])),
            lambda: line.replace(b'"', b"'"),
            lambda: line.replace(b":", b":" + rng.choice([b"[", b"NaN", b"-", b'"\\ud83d']), 1),
        ]
    )
    return change().replace(b"\n", b"")


def answer_lines(engine, lines, rng):
    """Feed lines in batches of random size; their answers, decoded, and as lines."""
    raw = []
    done = 0
    while done < len(lines):
        part = lines[done : done + rng.choice([1, 7, 100, 1000])]
        done += len(part)
        answered = engine.handle_lines(b"\n".join(part) + b"\n").splitlines()
        assert len(answered) == len(part)
        raw += answered
    return [json.loads(line) for line in raw], raw


def is_accepted(answer):
    return answer["type"] != "rejected"


@pytest.mark.parametrize("count", [1_000, 1_500, pytest.param(100_000, marks=pytest.mark.slow)])
def test_bad_lines_among_good_ones_leave_no_trace(tmp_path, count):
    """What was accepted must be all that there is."""
    rng = random.Random(count)
    good = lines_of(script(count, count // 8))
    mixed = [*enumerate(good), *((rng.uniform(-1, len(good)), bad_line(rng, good)) for _ in range(count))]
    lines = [line + rng.choice([b"", b"", b"\r", b"  "]) for _, line in sorted(mixed)]
    # nothing is parked: what is parked is answered in another way when it is sent again
    config = replace(CONFIG, park=0)
    with Engine(tmp_path / "mixed.db", config, hot_keys=10, states_behind=500) as engine:
        answers, raw = answer_lines(engine, lines, rng)
        again, raw_again = answer_lines(engine, lines, rng)
        states = states_of(engine)
    accepted, later = [], []
    for line, answer, second, *both in zip(lines, answers, again, raw, raw_again, strict=True):
        if is_accepted(answer):
            # a bit may be flipped so that the line is another event: whatever was accepted counts as good
            accepted.append(line)
            assert both[0] == both[1]
            assert answer["id"] == str(json.loads(line)["id"])
        else:
            assert answer["reason"] in REASONS
            assert answer["detail"]
            later += [line] * is_accepted(second)
    assert len(lines) - len(accepted) > 0.8 * count
    assert len(lines) > 1.1 * count
    with Engine(tmp_path / "good.db", config, hot_keys=10, states_behind=500) as engine:
        assert all(map(is_accepted, answer_lines(engine, accepted + later, rng)[0]))
        assert states_of(engine) == states
    assert report_of(tmp_path / "good.db") == report_of(tmp_path / "mixed.db")


def test_lines_that_are_nothing_are_rejected():
    with Engine() as engine:
        for line in RAW:
            [answer] = answer_lines(engine, [line], random.Random(0))[0]
            assert (answer["type"], line) == ("rejected", line)
            assert answer["reason"] in {"malformed", "invalid", "unknown"}
        assert engine.in_memory() == (0, 0)


@pytest.mark.parametrize("field", ["type", "id", "key", "hint", "time"])
def test_odd_values_of_a_query_are_rejected_or_mean_what_they_say(field):
    names = ["0.5", "NaN", -1, 2, 10**30]
    fine = {"type": [], "id": names, "key": names, "hint": [None, 0.5]}
    fine["time"] = [None, -1, 2, 0.5, -0.5, 1e308, -1e308, 10**30]
    with Engine() as engine:
        for number, value in enumerate(ODD):
            event = {**QUERY, "id": f"q{number}", field: value}
            [answer] = answer_lines(engine, [json.dumps(event).encode()], random.Random(0))[0]
            assert is_accepted(answer) == any(value is one or value == one != 1 for one in fine[field])


@pytest.fixture(scope="module")
def engine():
    with Engine(None, CONFIG) as one:
        one.handle_lines(b"\n".join(lines_of(script(3, 200))) + b"\n")
        yield one


MUTED = settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))


@MUTED
# hypothesis also tries what it finds in sources, whole events among it
@given(data=st.binary(max_size=300).filter(lambda data: b'"type"' not in data))
@example(data=b"\n\n\n")
@example(data=b"")
def test_any_bytes_get_as_many_answers_as_lines(engine, data):
    answers = engine.handle_lines(data).splitlines()
    assert len(answers) == data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
    for answer in answers:
        assert msgspec.json.decode(answer)["type"] == "rejected"


@MUTED
@given(name=st.text(min_size=1, max_size=50), label=st.text(min_size=1, max_size=50))
def test_any_text_can_be_a_name(name, label):
    lines = lines_of(
        [
            {"type": "query", "id": name, "key": f"weather/{name}", "hint": {label: 1.0}},
            {"type": "outcome", "id": name, "value": label, "key": f"weather/{name}"},
        ]
    )
    with Engine(None, CONFIG, states_behind=0) as engine:
        answers = answer_lines(engine, lines, random.Random(0))[0]
        if "\0" in name + label:
            assert not all(map(is_accepted, answers))
        else:
            assert [answer["id"] for answer in answers if is_accepted(answer)] == [name, name]
            states = states_of(engine)
            engine._start()
            assert states_of(engine) == states


BAD = ("oslo\0", "oslo\0x", "\0", "", "oslo\ud800", "\udfffoslo", "o" * 201, "o" * 70_000)
"""SQLite cuts text at a NUL, in JSON too: to it, the first is `oslo`."""


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_names_that_cannot_be_leave_no_trace_on_those_they_resemble(folder, bad):
    # the last answer shows all that went before
    events = [Query("open", "oslo")]
    for i in range(12):
        events += [Query(f"oslo{i}", "oslo"), Outcome(f"oslo{i}", i % 3 > 0)]
    events += [Outcome("open", 0), Query("last", "oslo")]
    with Engine() as clean:
        wanted = clean.handle(events)
    wrong = [Query("fresh", bad), Outcome("open", 1, bad), Withdraw("open", bad)]
    for id in (bad, f"{bad[:4]}0\0", "open\0"):
        wrong += [Query(id, "oslo"), Outcome(id, 1), Withdraw(id), Outcome(id, 0, "oslo")]
    engine, answers = Engine(folder / "ledger.db"), []
    for event in events:
        answers += engine.handle([event])
        assert engine.summary(bad) is None
        for one in wrong:
            assert isinstance(engine.handle([one])[0], Rejected)
    assert answers == wanted
    # as after a kill: what the log says must come to the same forecasts
    engine._ledger.close()
    assert_sound(folder / "ledger.db")
    with Engine(folder / "ledger.db") as engine:
        assert engine.handle(events) == wanted
    # nor does a turn of a key with that name keep anything
    data, answers = KeyTurns(EngineConfig(), 10)(bad, None, [Query("a", bad), Outcome("a", 1)])
    assert (data, [answer.reason for answer in answers]) == (None, ["invalid", "unknown"])
