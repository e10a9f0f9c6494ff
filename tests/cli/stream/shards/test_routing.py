"""Lines over shards and answers back: nothing is lost, nothing changes places, whatever a line is."""

from __future__ import annotations

import json
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onlinecal.cli.stream.lines import long_line
from onlinecal.cli.stream.shards.messages import Answered
from onlinecal.cli.stream.shards.routing import ALL, FIRST, Shards, merge, route, tells_unknown
from onlinecal.engine.events import Forecast, Rejected, encode_lines

KEYS = ["oslo", "bergen", "Tromsø", "", "\0", "x" * 300, "\ud800"]


def told(routed, deaf):
    """What workers would say that answer a line with itself; some of those that all are asked about not."""
    replies = []
    for shard, places, part, body in routed.parts:
        lines = body.split(b"\n")
        says = [
            not shared or shard == FIRST or not deaf(place)
            for place, shared in zip(places, part.shared, strict=True)
        ]
        own = [b"%d " % shard + line for line, one in zip(lines, says, strict=True) if one]
        replies.append((Answered(bytes(says)), b"\n".join(own)))
    return replies


def outcome_of(key):
    return json.dumps({"type": "outcome", "id": "a", "key": key}).encode()


lines = st.lists(
    st.one_of(
        st.binary(max_size=20).map(lambda data: data.replace(b"\n", b"")),
        st.builds(outcome_of, st.sampled_from([*KEYS, None, 7])),
        st.just(b'{"type":"outcome","id":"a","value":1}'),
    ),
    max_size=50,
)


@given(lines, st.integers(1, 5), st.sets(st.integers(0, 49)))
def test_answers_come_back_in_the_order_of_the_lines(lines, count, unknown):
    shards = Shards(count)
    routed = route(lines, shards, count)
    merged = merge(routed, told(routed, unknown.__contains__))
    assert [line.partition(b" ")[2] for line in merged] == lines
    for place, (line, answer) in enumerate(zip(lines, merged, strict=True)):
        [shard] = shards.of([line])
        assert shard == shards.of_one(line)
        known = 0 if place in unknown else count - 1
        assert int(answer.partition(b" ")[0]) == (known if shard == ALL else shard)


@pytest.mark.parametrize("key", ["oslo", "Tromsø", "a" * 200])
def test_a_key_has_the_shard_that_the_documentation_says(key):
    line = json.dumps({"type": "query", "id": "q", "key": key}).encode()
    assert list(Shards(7).of([line])) == [crc32(key.encode()) % 7]


def test_what_is_no_event_goes_to_the_first_shard_and_keeps_its_place():
    key = next(key for key in map(str, range(99)) if crc32(key.encode()) % 3 == 2)
    good = json.dumps({"type": "query", "id": "q", "key": key}).encode()
    lines = [good, b"", b"[1]", b'{"key":7}', b"\xff", b"[" * 5_000, long_line(1 << 20), good]
    routed = route(lines, Shards(3), 3)
    assert [(shard, list(places)) for shard, places, _, _ in routed.parts] == [
        (0, [1, 2, 3, 4, 5, 6]),
        (2, [0, 7]),
    ]
    assert routed.parts[0][2].longer == [(5, 1 << 20)]


@pytest.mark.parametrize("id, answer", [("a", True), ('","reason":"unknown","', False), ("a", False)])
def test_only_a_refusal_tells_that_an_id_is_unknown(id, answer):
    refused = Rejected(id, "unknown" if answer else "settled", "")
    assert tells_unknown(encode_lines([refused])) == answer
    assert not tells_unknown(encode_lines([Forecast(id, '"reason":"unknown"', 0.5, 0.0)]))


def test_what_keys_are_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr("onlinecal.cli.stream.shards.routing.REMEMBERED", 10)
    shards = Shards(4)
    lines = [json.dumps({"key": str(number)}).encode() for number in range(100)] + [b"{}"]
    assert list(shards.of(lines)) == [crc32(b"%d" % number) % 4 for number in range(100)] + [ALL]
    assert len(shards) <= 12


def test_no_lines_are_no_parts():
    assert merge(route([], Shards(2), 2), []) == []
    assert np.int16(ALL) == ALL
