"""Events as they mostly are, judged without a call for each step.

The rules are those of `Batch`, which judges whatever is not as usual. Usual are queries with new ids for keys
that live in an arena and never expire, and outcomes 0 and 1 of their open forecasts. Next to nothing can be
wrong with these, and what remains is accounting.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from onlinecal.engine.batch import Asked, Batch
from onlinecal.engine.events import LONGEST_NAME, Answer, Incoming, Outcome, Query, Rejected, Settled
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.keys.playing import ASKS
from onlinecal.engine.keys.waiting import FEW
from onlinecal.forecasters.binary.cells import NO_HINT

LATEST = sys.float_info.max
"""Times are finite."""


def judge_all(batch: Batch, events: Iterable[Incoming | Rejected]) -> list[Answer | Asked]:
    """What `batch.judge` makes of events, in their order."""
    keys, records, asked, closed = batch.keys, batch.records, batch.asked, batch.closed
    states, waiting, touched, dirty = keys.states, keys.open, keys.touched, keys.dirty
    judged: list[Answer | Asked] = []
    place: Any
    counted = keys.reliability is not None
    outcome: Any
    for event in events:
        time: Any = None if type(event) is Rejected else event.time  # type: ignore[union-attr]
        if time is not None and not (type(time) is float and -LATEST <= time <= LATEST):
            judged.append(batch.judge(event))
            continue
        if type(event) is Query:
            id, key, hint = event.id, event.key, event.hint
            state = states.get(key) if type(key) is str else None
            if (
                state is None
                or not state.usual
                or len(state.open) >= FEW
                or not (type(id) is str and 0 < len(id) <= LONGEST_NAME and id.isprintable())
                or id in asked
                or id in records
                or not (hint is None or (type(hint) is float and 0.0 <= hint <= 1.0))
            ):
                judged.append(batch.judge(event))
                continue
            batch.number = number = batch.number + 1
            asked_at = state.clock if time is None else time + 0.0
            if hint is not None:
                hint += 0.0
                if not state.steered:
                    state.begin_steering()
            arena: Any = state.arena
            place = arena.take_place()
            issued = Issued(id, number, asked_at, hint, 0, None, 0.0, place)
            state.open[id] = issued
            waiting[id] = state
            arena.asked.append(issued)
            asked[id] = one = event, state, hint, issued
            judged.append(one)
            outcome, guide = ASKS, NO_HINT if hint is None else hint
        elif type(event) is Outcome:
            id, outcome = event.id, event.value
            state = waiting.get(id) if type(id) is str else None
            if (
                state is None
                or not state.usual
                or not (type(outcome) is int and 0 <= outcome <= 1)
                or not (event.key is None or event.key == state.name)
            ):
                judged.append(batch.judge(event))
                continue
            batch.number = number = batch.number + 1
            issued = state.open.pop(id)
            del waiting[id]
            arena, place, guide = state.arena, issued.cell, NO_HINT
            arena.open.free.append(place)
            closed[id] = (number, issued.number, outcome, None if time is None else time + 0.0), state.name
            judged.append(Settled(id))
            if counted:
                keys.settled.append((issued, outcome))
        else:
            judged.append(batch.judge(event))
            continue
        arena.by.append(state.player)
        arena.at.append(place)
        arena.outcomes.append(outcome)
        arena.hints.append(guide)
        arena.numbers.append(number)
        if time is not None and (state.clock is None or time > state.clock):
            state.clock = time + 0.0
        touched[state] = None
        if state not in dirty:
            dirty[state] = number
    return judged
