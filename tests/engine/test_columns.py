"""Columns of events: many read at once are what each is alone, whatever stands among them."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal.engine import Engine, Outcome, Query, Rejected, Withdraw, decode_lines
from onlinecal.engine.columns import (
    FEW_EVENTS,
    REFUSED,
    columns_of_events,
    columns_of_lines,
    empty_columns,
)
from onlinecal.engine.events import Event, decode
from onlinecal.engine.fields import EVENT_FIELDS, LONGEST_NAME, NEEDED_FIELDS
from tests.engine.scripts import lines_of, script
from tests.engine.test_fuzz import RAW, bad_line
from tests.properties import examples


def row(columns, i):
    """All that columns say of an event; NaN in a way that is equal to itself."""
    numbers = (float(column[i]).hex() for column in (columns.hints, columns.values, columns.times))
    others = columns.unusual.get(i), columns.refusals.get(i)
    names = ("", "") if columns.kinds[i] == REFUSED else (columns.ids[i], columns.keys[i])
    return repr((columns.kinds[i], *names, *numbers, *others))


def alone(event):
    columns = empty_columns(1)
    columns.put(0, event)
    return row(columns, 0)


def check(events):
    """The columns of the events together are those of each alone; how many were refused."""
    columns = columns_of_events(events)
    assert len(columns) == len(events)
    assert [row(columns, i) for i in range(len(events))] == list(map(alone, events))
    return columns.kinds.count(REFUSED)


USUAL = (
    b'{"type":"query","id":"q1","key":"rain/oslo","hint":0.7,"time":0}',
    b'{"type": "query", "id": "q1", "key": "rain/oslo", "hint": 0.7, "time": 1700000000.25}',
    b'{"key":"k","time":-1.5e3,"id":"a b","type":"query"}',
    b'{ "hint":null , "time" : null,"key":"k","id":"~","type":"query" }',
    b'{"type":"query","id":"a","key":"k","hint":-0.0,"time":-0}',
    b'{"type":"outcome","id":"q1","value":1,"time":86400}',
    b'{"value":0,"key":"k","id":"q1","type":"outcome"}',
    b'{"type":"withdraw","id":"q1"}',
    b'{"type":"query","id":"' + b"i" * LONGEST_NAME + b'","key":"k"}',
)  # fmt: skip

NAMES = st.one_of(st.text(max_size=5), st.none(), st.integers(), st.booleans(), st.just("x" * 201))
NUMBERS = st.one_of(
    st.floats(), st.integers(), st.none(), st.booleans(), st.text(max_size=3), st.sampled_from([0, 1, 0.5]),
    st.dictionaries(st.text(max_size=2), st.floats() | st.integers(), max_size=2),
    st.sampled_from([np.float64(0.25), np.int64(1), np.bool_(True), "2026-01-31T09:30:00Z"]),
)  # fmt: skip
EVENTS = st.one_of(
    st.builds(Query, NAMES, NAMES, NUMBERS, NUMBERS),
    st.builds(Outcome, NAMES, NUMBERS, NAMES, NUMBERS),
    st.builds(Withdraw, NAMES, NAMES, NUMBERS),
    st.builds(Rejected, st.none() | st.text(max_size=3), st.just("malformed"), st.just("no event")),
    st.sampled_from(USUAL).map(decode),
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(EVENTS, min_size=FEW_EVENTS, max_size=2 * FEW_EVENTS))
def test_events_read_together_are_what_each_is_alone(events):
    check(events)


@pytest.mark.parametrize("seed", range(2))
def test_lines_with_bytes_changed_are_read_together_as_alone(seed):
    rng = random.Random(seed)
    good = [*USUAL, *lines_of(script(seed, 100))]
    lines = [rng.choice(good) if rng.random() < 0.5 else bad_line(rng, good) for _ in range(1_000)]
    lines = [line for line in [*lines, *RAW] if b"\n" not in line]
    assert decode_lines(b"\n".join([*lines, b""])) == list(map(decode, lines))
    assert 100 < check(list(map(decode, lines))) < 800


def test_usual_lines_are_read_and_none_is_invented():
    assert columns_of_lines(b"\n".join(USUAL * 3)).refusals == {}
    assert check(list(map(decode, USUAL * 3))) == 0
    assert len(columns_of_lines(b"")) == 0


@pytest.mark.parametrize("huge", [10**18, 10**30, 10**400, -(10**400)], ids=["18", "30", "400", "-400"])
@pytest.mark.parametrize("beside", [1, 10**30], ids=["one", "30"])
def test_whole_numbers_beyond_floats_are_read_as_alone(huge, beside):
    check([Outcome("a", huge), *[Outcome("b", beside), Query("c", "k"), Query("d", "k", huge, huge)] * 9])


def test_the_fields_that_are_checked_are_those_of_the_events():
    for kind in Event.__subclasses__():
        name, fields = kind.__struct_config__.tag, kind.__struct_fields__
        needed = len(fields) - len(kind.__struct_defaults__)
        assert (fields, fields[:needed]) == (EVENT_FIELDS[name], NEEDED_FIELDS[name])


@pytest.mark.parametrize("others", [0, FEW_EVENTS])
def test_what_is_no_event_object_is_refused_by_name_before_anything_changes(others):
    events = [Query(f"q{i}", "k") for i in range(others)]
    with Engine() as engine:
        for wrong in ({"type": "query", "id": "a", "key": "k"}, b'{"type":"query"}', None, "query"):
            with pytest.raises(ValueError, match="events must be Query, Outcome, Withdraw or Rejected, got"):
                engine.handle([*events, wrong])
        for single in (Query("q", "k"), 5, None):
            with pytest.raises(ValueError, match=r"events must be a list of .* one in a list, \[event\]"):
                engine.handle(single)
        assert engine.total().events == 0
