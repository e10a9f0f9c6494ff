"""Keys with outcomes in [0, 1]; all that they hold stands in the arrays of `KeyArrays`."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace

from onlinecal.arrays import Ints
from onlinecal.elementary import in_turn
from onlinecal.engine.keys.accepting import MOST_OPEN
from onlinecal.engine.keys.key import Key, Summary
from onlinecal.engine.keys.key_arrays import KeyArrays
from onlinecal.engine.keys.lanes import check_hints_allowed
from onlinecal.engine.keys.playing import LATE, NUMBER, OLDEST_OPEN, SETTLED, START
from onlinecal.engine.watch.account import MONEY
from onlinecal.engine.watch.key_watch import watched_by
from onlinecal.forecasters.binary.almost_one_step_ahead import AlmostOneStepAhead
from onlinecal.forecasters.binary.cells import FORMAT, HIGH, REPORT, ROUNDS, SCALE
from onlinecal.forecasters.binary.cells import LATE as LATE_ONCE
from onlinecal.forecasters.binary.dyadic import BASE, FORMAT_DYADIC, PACE, TUNED
from onlinecal.validation import check_probability, share_of

PROMISED_BY = [ROUNDS, SCALE, REPORT, TUNED, PACE, HIGH, LATE_ONCE, BASE]
"""The integers of a memory on which the promise of a grid without a horizon depends."""
MOST_PROMISES = 100_000
"""How many promises are kept, so that they need not be computed again."""


class BinaryKind:
    """Forecasters of outcomes in [0, 1] that share their parameters."""

    def __init__(self, hints: bool = True, **parameters: Any) -> None:
        self.model = AlmostOneStepAhead(hints=hints, **parameters)
        self._promises: dict[tuple[int, ...], float] = {}

    def hint_of(self, hint: Any) -> float | None:
        """A hint as a float, never -0.0; ValueError if it is no probability, or the key takes no hints."""
        if hint is None:
            return None
        check_hints_allowed(self.model.hints)
        return check_probability(hint, "hint") + 0.0

    def outcome_of(self, value: Any) -> float:
        """An outcome as the int 0 or 1, or as a float between; ValueError if it is none of these."""
        outcome = share_of(value, "value")
        return int(outcome) if outcome in (0, 1) else outcome

    def promises(self, arrays: KeyArrays, lanes: Ints) -> list[float]:
        """What the certificates of lanes cannot exceed, given how late their labels were.

        It holds at the horizon if there is one and it has not passed, else at the present round.
        """
        late, start = arrays.state.fields[lanes][:, [LATE, START]].T
        if self.model.memory[FORMAT] != FORMAT_DYADIC:
            return [self._promise(arrays, *one) for one in zip(lanes.tolist(), late.tolist(), strict=True)]
        depends_on = arrays.state.heap[start[:, None] + PROMISED_BY]
        promises, known = [], self._promises
        for lane, *given in np.column_stack([lanes, late, depends_on]).tolist():
            promise = known.get(tuple(given))
            if promise is None:
                if len(known) >= MOST_PROMISES:
                    known.clear()
                promise = known[tuple(given)] = self._promise(arrays, lane, given[0])
            promises.append(promise)
        return promises

    def _promise(self, arrays: KeyArrays, lane: int, late: int) -> float:
        memory = arrays.memory(lane)
        return self.model._promise_for(memory, max(self.model.horizon or 0, int(memory[ROUNDS])), late)


class BinaryKey(Key):
    """A key whose lanes are rows of `KeyArrays`."""

    __slots__ = ()

    @property
    def most_open(self) -> int:
        """How many forecasts may be open."""
        return MOST_OPEN

    @property
    def oldest(self) -> int | None:
        """The number of the oldest query that waits."""
        state = self.settings.arrays.state
        entry = int(state.fields[self.first_lane, OLDEST_OPEN])
        return None if entry < 0 else int(state.open[entry, NUMBER])

    def entries(self) -> list[int]:
        """The forecasts that wait, the oldest first."""
        return self.settings.arrays.entries_of(self.first_lane)

    def dump(self, ids: list[str]) -> bytes:
        """The state in bytes."""
        return self.settings.arrays.dump([self], ids)[0]

    def summary(self) -> Summary:
        """What there is to know of the key, with its alarms and scores."""
        sums = self.settings.arrays.state.accounts[self.first_lane, :MONEY].tolist()
        return replace(self.written(), watched=watched_by(sums))

    def written(self) -> Summary:
        """The summary without alarms and scores."""
        return self.settings.arrays.written([self])[0]

    def window_bounds(self) -> tuple[float | None, float | None]:
        """The certificate of the key's last `window` settled rounds, and the guarantee of any so many in a
        row.

        Each lane has settled some of these rounds. By Fact 4 the bounds for the lanes add up.
        """
        arrays, model = self.settings.arrays, self.settings.kind.model
        if model.window is None:
            return None, None
        lanes = arrays.lanes_of(self.first_lane)
        memories, late = list(map(arrays.memory, lanes)), arrays.state.fields[lanes, LATE].tolist()
        windows, now = map(arrays.window, lanes), self._field(SETTLED)
        proven = in_turn(w.certificate(m, now) for w, m in zip(windows, memories, strict=True) if w)
        promises = [
            model._window_promise_for(memory, others, 0 if place else model.window)
            for place, (memory, others) in enumerate(zip(memories, late, strict=True))
        ]
        return float(proven), None if None in promises else float(in_turn(promises))
