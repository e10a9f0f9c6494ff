"""What the engine has to know before it judges a batch: of the ledger, and of keys that are new."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from onlinecal.engine.columns.columns import FEW, WORD, Columns
from onlinecal.engine.columns.scanning import ID, KEY, ODD, OUTCOME, QUERY
from onlinecal.engine.events import Query, Rejected, is_name
from onlinecal.engine.keys.cache import KeyCache
from onlinecal.engine.keys.judging import Events, Judged
from onlinecal.engine.ledger.schema import Record

NONE = np.empty(0, np.int64)
NO_EVENTS = Events(
    np.empty(0, np.uint8), np.empty((0, 4), np.int64), np.empty(0, np.int8), np.empty(0, np.bool_),
    np.empty(0), np.empty(0),
)  # fmt: skip


class Unknown(NamedTuple):
    """Ids and names of keys that the ledger may know something of; those are `cold`.

    The ids begin with those of all queries that are as usual, in their order.

    `names` are those of queries whose keys have no seat, `told` the ids of outcomes of which the register has
    none. `events` and `judged` are what the register takes and gives; empty of few events.
    """

    ids: list[str]
    cold: list[str]
    names: list[str] = []  # noqa: RUF012
    told: list[str] = []  # noqa: RUF012
    events: Events = NO_EVENTS
    judged: Judged = Judged(NONE, NONE, NONE, np.empty((3, 0), np.int64))


def unknown(columns: Columns, keys: KeyCache) -> Unknown:
    """What is to be asked for."""
    ids, cold = dict[Any, None](), dict[Any, None]()
    if len(columns) < FEW:
        _look_at(columns, range(len(columns)), keys, ids, cold)
        return Unknown(list(ids), list(cold))
    kinds, register = columns.kinds, keys.register
    odd, asks = kinds == ODD, kinds == QUERY
    events = Events(columns.bytes, columns.spans, kinds, odd, columns.hints, columns.times)
    judged = register.look_up(events)
    strange = judged.seats < 0
    names = list(dict.fromkeys(columns.texts(np.flatnonzero(asks & strange), KEY)))
    told = columns.texts(np.flatnonzero((kinds == OUTCOME) & strange), ID)
    cold.update((name, None) for name in names if name not in keys.states)
    asked, own = columns.texts(np.flatnonzero(asks), ID), keys.open.own
    asked += [id for id in told if id not in own] if own else told
    if odd.any():
        _look_at(columns, np.flatnonzero(odd).tolist(), keys, ids, cold)
        asked += ids
    return Unknown(asked, list(cold), names, told, events, judged)


def _look_at(
    columns: Columns,
    which: Iterable[int],
    keys: KeyCache,
    ids: dict[Any, None],
    cold: dict[Any, None],
) -> None:
    """Add what is to be known of single events; what is no name is in no ledger."""
    for i in which:
        event = columns.event(i)
        if type(event) is Query:
            if is_name(event.id):
                ids[event.id] = None
            if is_name(event.key) and event.key not in keys.states:
                cold[event.key] = None
        elif not isinstance(event, Rejected) and is_name(event.id) and event.id not in keys.open:
            ids[event.id] = None


def take_seats(columns: Columns, keys: KeyCache, records: dict[str, Record], known: Unknown) -> None:
    """Give seats to all usual keys of a batch; what the ledger has answered before is judged alone."""
    events, judged, register = known.events, known.judged, keys.register
    asks = events.kinds == QUERY
    if records:
        which = np.flatnonzero(asks)
        events.alone[which[[id in records for id in columns.texts(which, ID)]]] = True
    if not known.names and not known.told:
        return
    there = dict.fromkeys(map(keys.open.own.get, known.told))
    new, steered = [], []
    states_of, settings_for = keys.states, keys.settings_for
    for name in known.names:
        state = states_of.get(name)
        if state is not None:
            there[state] = None
        else:
            settings = settings_for(name)[1]
            if settings.usual:
                new.append(name)
                steered.append(settings.new_steering is None)
    states = [state for state in there if state is not None and state.usual and state.seat < 0]
    keys.take_seats([state for state in states if all(map(str.isascii, (state.name, *state.open)))])
    if new:
        register.expect(new, steered)
    if new or states:
        register.look_again(events, judged)


def width_of(columns: Columns) -> int:
    """Words of the longest id."""
    spans = columns.spans
    return -(-int((spans[:, ID + 1] - spans[:, ID]).max(initial=1)) // WORD)
