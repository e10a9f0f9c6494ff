"""Lines read in one pass: what is read is what msgspec makes of the line; the rest is left to it."""

import json
import math
import random
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onlinecal.engine import columns as reading
from onlinecal.engine.columns import FEW_EVENTS, columns_of_events, columns_of_lines, scan
from onlinecal.engine.events import LONGEST_LINE, LONGEST_NAME, decode
from tests.engine.test_fuzz import RAW, bad_line
from tests.properties import examples


def kinds_of(lines):
    """What the compiled pass takes each line for."""
    data, n = b"\n".join(lines) + b"\n", len(lines)
    kinds = np.empty(n, np.int8)
    scan(np.frombuffer(data, np.uint8), np.empty((n, 2), int), kinds, np.empty((n, 4), int), np.empty((n, 3)))
    return kinds.tolist()


def row(columns, i):
    """All that columns say of an event; NaN in a way that is equal to itself."""
    numbers = map(float.hex, (columns.hints[i], columns.values[i], columns.times[i]))
    others = columns.unusual.get(i), columns.refusals.get(i)
    return repr((columns.kinds[i], columns.ids[i], columns.keys[i], *numbers, *others))


def check(lines):
    """Each line is in columns what msgspec makes of it; how many of them the compiled pass takes."""
    padded = [*lines, *[b"{}"] * FEW_EVENTS]
    read, wanted = columns_of_lines(b"\n".join(padded) + b"\n"), columns_of_events(map(decode, padded))
    assert len(read) == len(padded)
    for i, line in enumerate(lines):
        assert row(read, i) == row(wanted, i), line
    return sum(kind != reading.OTHER for kind in kinds_of(lines))


USUAL = (
    b'{"type":"query","id":"q1","key":"rain/oslo","hint":0.7,"time":0}',
    b'{"type": "query", "id": "q1", "key": "rain/oslo", "hint": 0.7, "time": 1700000000.25}',
    b'{"key":"k","time":-1.5e3,"id":"a b","type":"query"}',
    b'{ "hint":null , "time" : null,"key":"k","id":"~","type":"query" }',
    b'{"type":"query","id":"a","key":"k","hint":1e-05}',
    b'{"type":"query","id":"a","key":"k","hint":-0.0,"time":-0}',
    b'{"type":"outcome","id":"q1","value":1,"time":86400}',
    b'{"value":0,"key":"k","id":"q1","type":"outcome"}',
    b'{"type":"query","id":"' + b"i" * LONGEST_NAME + b'","key":"k"}',
)  # fmt: skip

ODD_ENDS = (
    b'"hint":1.5}', b'"hint":-0.1}', b'"value":1}', b'"id":"q2"}', b'"other":1}', b'"Type":"query"}', b"}",
    b'"time":01}', b'"time":1.}', b'"time":.5}', b'"time":-}', b'"time":1e}', b'"time":+1}', b'"time":nul}',
    b'"time":1e400}', b'"time":9007199254740993e1}', b'"time":1e23}', b'"time":0}}',
    b'"time":0' + b" " * LONGEST_LINE + b"}",
)  # fmt: skip

ODD_ONES = (
    *(b'{"type":"query","id":"q1","key":"k",' + end for end in ODD_ENDS),
    *(b'{"type":"outcome","id":"q1","value":' + value + b"}" for value in (b"true", b"1.0", b"10", b"2")),
    *(b'{"type":"query","key":"k","id":"' + id + b'"}' for id in (b"", b"caf\xc3\xa9", b"a\\n", b"a\x7f")),
    b'{"type":"query","key":"k","id":"' + b"i" * (LONGEST_NAME + 1) + b'"}',
    *(b'{"type":"outcome","id":"q1","value":1,' + more + b"}" for more in (b'"hint":0.5', b'"key":null')),
    b'{"type":"outcome","id":"q1"}', b'{"type":"outcome","value":1}', b'{"type":"query","id":"q1"}',
    b'{"type":"withdraw","id":"q1"}', b'{{"type":"query","id":"q1","key":"k"}', b"{}", b"", b"{",
)  # fmt: skip


def test_usual_lines_are_read_and_others_are_left():
    assert check(USUAL) == len(USUAL)
    assert check(ODD_ONES) == 0
    assert kinds_of([USUAL[0], USUAL[6]]) == [reading.QUERY, reading.OUTCOME]
    assert len(columns_of_lines(b"")) == 0


@pytest.mark.parametrize("seed", range(4))
def test_lines_with_bytes_changed_are_read_as_msgspec_reads_them(seed):
    rng = random.Random(seed)
    lines = [bad_line(rng, USUAL) for _ in range(3_000)]
    for _ in range(3_000):
        line = bytearray(rng.choice(USUAL))
        for _ in range(rng.choice([1, 1, 2, 3])):
            place = rng.randrange(len(line))
            line[place : place + rng.choice([0, 1, 1])] = rng.choice(
                b'{}[]",:0123456789.eE+- \\\x00\x7f\xc3ntu'
            ).to_bytes()
        lines.append(bytes(line))
    assert check([line for line in [*lines, *RAW] if b"\n" not in line]) > 100


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**25), 10**25).map(str),
    st.from_regex(r"\A-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,3})?\Z"),
    st.tuples(st.floats(1e-4, 1e8), st.integers(16, 19)).map(lambda drawn: half_way(*drawn)),
)


def half_way(x, digits):
    """A decimal of so many digits next to the middle between two floats."""
    return f"{(Decimal(x) + Decimal(math.nextafter(x, math.inf))) / 2:.{digits}g}"


@settings(max_examples=examples(300))
@given(st.lists(NUMBERS, min_size=1, max_size=40))
@example(["9007199254740992", "9007199254740993", "0.1", "1e22", "1e-22", "123456789012345678e-22"])
def test_numbers_are_the_nearest_floats(texts):
    check([f'{{"type":"query","id":"a","key":"k","time":{text},"hint":{text}}}'.encode() for text in texts])


def test_numbers_as_programs_write_them_are_read():
    rng = random.Random(0)
    given = [rng.random() * 10.0 ** -rng.randrange(4) for _ in range(4_000)]
    given[::2] = [round(one, rng.randrange(1, 16)) for one in given[::2]]
    lines = [json.dumps({"type": "query", "id": "a", "key": "k", "hint": one}).encode() for one in given]
    assert check(lines) == len(lines)


@pytest.mark.parametrize("others", [0, FEW_EVENTS])
def test_a_byte_order_mark_in_front_of_events_is_ignored(others):
    first = b'{"type":"query","id":"a","key":"k","hint":0.7}'
    lines = [b"\xef\xbb\xbf" + first + b"\r", *[first] * others]
    columns = columns_of_lines(b"\n".join(lines) + b"\n")
    assert not columns.refusals
    assert (columns.ids[0], columns.keys[0], columns.hints[0]) == ("a", "k", 0.7)
