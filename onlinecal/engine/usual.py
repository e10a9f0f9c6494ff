"""Events as they mostly are, judged without a call for each step.

The rules are those of `Batch`, which judges whatever is not as usual: a query with a new id, of a known key
with few open forecasts that lives in an arena and never expires; 0 or 1 for a forecast of such a key that is
open. Next to nothing can be wrong with these, and what remains is accounting.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from onlinecal.engine.batch import Asked, Batch
from onlinecal.engine.events import (
    LONGEST_NAME,
    Answer,
    Incoming,
    Outcome,
    Query,
    Rejected,
    Settled,
)
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.keys.state import FEW
from onlinecal.forecasters.binary.cells import NO_HINT
from onlinecal.steering.keyed import ASKS

LATEST = sys.float_info.max
"""Times are finite."""


def judge_all(batch: Batch, events: Iterable[Incoming | Rejected]) -> list[Answer | Asked]:
    """What `batch.judge` makes of events, in their order."""
    keys, records, asked, closed = batch.keys, batch.records, batch.asked, batch.closed
    states, waiting, touched, dirty = keys.states, keys.open, keys.touched, keys.dirty
    judged: list[Answer | Asked] = []
    for event in events:
        kind = type(event)
        if kind is Query:
            id, key, hint, time = event.id, event.key, event.hint, event.time
            state = states.get(key) if type(key) is str else None
            if (
                state is None
                or not state.usual
                or len(state.open) >= FEW
                or not (type(id) is str and 0 < len(id) <= LONGEST_NAME and id.isprintable())
                or id in asked
                or id in records
                or not (hint is None or (type(hint) is float and 0.0 <= hint <= 1.0))
                or not (time is None or (type(time) is float and -LATEST <= time <= LATEST))
            ):
                judged.append(batch.judge(event))
                continue
            batch.number = number = batch.number + 1
            if time is None:
                time = state.clock
            else:
                time += 0.0
                if state.clock is None or time > state.clock:
                    state.clock = time
            others = len(state.open)
            if others > state.late[0]:
                state.late[0] = others
            state.busy[0] = others + 1
            arena = state.arena
            if hint is not None:
                hint += 0.0
                if not state.steered:
                    state.begin_steering()
            place = arena.open.free.pop() if arena.open.free else arena.take_place()
            issued = Issued(id, number, time, hint, 0, None, 0.0, place)
            state.open[id] = issued
            waiting[id] = state
            arena.by.append(state.player)
            arena.at.append(place)
            arena.outcomes.append(ASKS)
            arena.hints.append(NO_HINT if hint is None else hint)
            arena.asked.append(issued)
            asked[id] = one = event, state, hint, issued
            judged.append(one)
        elif kind is Outcome:
            id, value, time = event.id, event.value, event.time
            state = waiting.get(id) if type(id) is str else None
            if (
                state is None
                or not state.usual
                or not (type(value) is int and 0 <= value <= 1)
                or not (time is None or (type(time) is float and -LATEST <= time <= LATEST))
                or not (event.key is None or event.key == state.name)
            ):
                judged.append(batch.judge(event))
                continue
            batch.number = number = batch.number + 1
            issued = state.open.pop(id)
            del waiting[id]
            state.busy[0] -= 1
            arena = state.arena
            arena.by.append(state.player)
            arena.at.append(issued.cell)
            arena.outcomes.append(value)
            arena.hints.append(NO_HINT)
            arena.open.free.append(issued.cell)
            if time is not None:
                time += 0.0
                if state.clock is None or time > state.clock:
                    state.clock = time
            closed[id] = (number, issued.number, value, time), state.name
            judged.append(Settled(id))
        else:
            judged.append(batch.judge(event))
            continue
        touched[state] = None
        if state not in dirty:
            dirty[state] = number
    return judged
