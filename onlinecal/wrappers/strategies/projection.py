"""Calibrated forecasts of one event: a model's probability is steered, and moved to a calibrated one.

A round is `ask`, perhaps `give`, and `settle`. The steering state has the ticket of one round at its front,
that of the last `ask` or `present`. So a round that waits while others are asked for is taken out by
`ticket`, and put back by `present` before it is settled.

What always holds between two calls: `_table` and `_hint` belong to the ticket at the front (after
`learn_alone` there is none), and `tables` has one forecaster for each bucket, by its place. A bucket that was
halved keeps its place, and settles what was asked of it. The machine writes the table's memory and the state
together (`steering/binary.py`): so either both have the round, or neither has. The account at the state's
end, FARTHER and AWAY, is written by `settle`, `book` and `surprise`, in whole parts of 1/PARTS, rounded up.

`replay` leaves what these calls would leave, bit for bit. The state's layout is that of `steering/binary.py`,
and the account stands behind it; both are in pickles of wrappers. Outcomes are 0 or 1: the strategies see to
that.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats
from onlinecal.elementary import in_turn
from onlinecal.forecasters import AlmostOneStepAhead
from onlinecal.forecasters.binary.cells import FORMAT
from onlinecal.forecasters.binary.guarantees import Biases, window_cells
from onlinecal.forecasters.rules import SLACK_WITH_HINTS
from onlinecal.restoring import Restored
from onlinecal.steering.binary import (
    ACCOUNT,
    ALONE,
    AWAY,
    CELL_LOWER,
    CELL_STEP,
    FARTHER,
    GIVEN,
    PARTS,
    TICKET_ALONE,
    Steered,
    new_steering,
    steered,
    ticket_length,
)
from onlinecal.steering.replaying import COLUMNS, Schedule, Tapes, replayed
from onlinecal.wrappers.labels import no_probability
from onlinecal.wrappers.strategies.buckets import SplittingBuckets, new_splitting
from onlinecal.wrappers.strategies.windows import Recent, WindowMoments


class Ticket(NamedTuple):
    """A forecast that waits for its outcome: its bucket, the ticket of the steering state, its hint."""

    bucket: int
    kept: tuple[float, ...]
    hint: float


class Projection(Restored):
    """The nearest calibrated forecast to a steered hint; one bias table per bucket of the hint.

    Parameters
    ----------
    slack, horizon
        As in AlmostOneStepAhead with hints; with several buckets the horizon is not used, since a bucket's
        share of the rounds is not known beforehand.
    n_buckets
        How many equal-width buckets of the hint get a table of their own.
    moments
        Those of its window, if it has one: the tables, unless they have a horizon, then get the uniform grid
        that is best where so many share a window.
    steers
        Whether what it is asked about is a model's probability, to be steered; else it is the hint itself.
    splits
        Whether buckets are halved where hints mislead the forecasts. Needs n_buckets=1 and steers=False.
    table
        Settings of the tables in place of its own.
    """

    _splitting: SplittingBuckets | None = None
    """Which bucket a hint is in, where they split."""
    _late = 0
    _hint = 0.5
    """The hint of the open round, where there are several buckets."""

    def __init__(
        self,
        slack: float | None,
        n_buckets: int,
        horizon: int | None,
        moments: WindowMoments | None = None,
        steers: bool = True,
        splits: bool = False,
        table: Mapping[str, Any] | None = None,
    ) -> None:
        own = SLACK_WITH_HINTS if slack is None else slack
        self._has_buckets = n_buckets > 1 or splits
        settings: dict[str, Any] = {"horizon": None if self._has_buckets else horizon}
        if moments is not None:
            settings["window"] = moments.window
            if settings["horizon"] is None:
                biases = Biases(float(own), 0)
                settings["n_cells"] = window_cells(moments.window, biases, 1.0, n_buckets)
        # on the grid that tunes itself a report that nobody sets is the hint, and the grid refines eagerly
        tunes_itself = moments is None and settings["horizon"] is None
        settings["report"] = None if tunes_itself else "hint"
        settings |= table or {}
        self.tables = [AlmostOneStepAhead(slack=slack, hints=True, **settings) for _ in range(n_buckets)]
        """One a bucket. That of a bucket that was halved settles what it still has open."""
        self._moments = moments
        self._recently_farther, self._recently_away = Recent(moments), Recent(moments)
        self._table = self.tables[0]
        if splits:
            self._splitting = new_splitting(own)
        own_state = new_steering() if steers else np.zeros(TICKET_ALONE)
        self._state = np.concatenate([own_state, np.zeros(ACCOUNT)])

    @cached_property
    def _steered(self) -> type[Steered]:
        """How rounds are played one by one."""
        return steered(int(self._table.memory[FORMAT]), self._table.hints)

    def ask(self, raw: float) -> float:
        """Issue a forecast for a model's probability, NaN counts as 1/2; its ticket stays until the next."""
        if type(raw) is not float and not isinstance(raw, Real):
            raise no_probability(raw)
        if self._has_buckets:
            self._hint = ALONE.hint_of(self._state, raw)
            self._table = self.tables[self._bucket_of(self._hint)]
        return self._steered.ask(self._table.memory, self._state, raw)

    def _bucket_of(self, hint: float) -> int:
        """The place among the tables of the bucket that holds a hint."""
        if self._splitting is not None:
            return self._splitting.find(hint)
        number = len(self.tables)
        return min(int(hint * number), number - 1)

    @property
    def given(self) -> float:
        """The probability that was given in the round whose ticket is here."""
        return float(self._state[GIVEN])

    def give(self, probability: float) -> None:
        """Note what was given in place of the forecast whose ticket is here."""
        self._state[GIVEN] = probability

    def settle(self, outcome: int) -> None:
        """Charge the forecast whose ticket is here with its outcome, and learn how to steer."""
        table, state, moments = self._table, self._state, self._moments
        if moments is None:
            table._charge(self._steered.settle, state, outcome)
        else:
            farther, away = state[FARTHER], state[AWAY]
            cell = int(state[CELL_LOWER]), int(state[CELL_STEP])
            table._charge_in_window(moments.now, *cell, outcome, self._steered.settle, state, outcome)
            self._recently_farther.note(state[FARTHER] - farther)
            self._recently_away.note(state[AWAY] - away)
        if self._splitting is not None:
            self._split(self._splitting, outcome)

    def learn_alone(self, raw: float, outcome: int) -> None:
        """Learn how to steer from a model's probability that nobody was given; the ticket here is gone."""
        ALONE.hint_of(self._state, float(raw))
        ALONE.learn_outcome(self._state, outcome)

    def replay(
        self, raw: Floats, outcomes: NDArray[np.bool_], schedule: Schedule, traced: bool = False
    ) -> Tapes:
        """Ask about so many model's probabilities, settling in between what the schedule says; both (T,).

        What it leaves is what `ask`, `ticket`, `present` and `settle` would leave, row by row. Only without
        window. If something else is given in place of forecasts, `traced` is needed, and `book` afterwards.
        """
        if self._splitting is None:
            column = np.ascontiguousarray(raw), outcomes.view(np.uint8)
            tapes = replayed(self._table, self._state, *column, schedule, traced)
            self._table._resume()
            self.note_late(schedule.most_late)
            return tapes
        first = self._splitting
        if not first.halves[0]:
            # at once, if the first bucket need not be halved; what it is asked about are the hints themselves
            whole = copy.deepcopy(self)
            whole._splitting = None
            tapes = whole.replay(raw, outcomes, schedule)
            costs = (tapes.forecasts - raw) * (tapes.forecasts + raw - 2.0 * outcomes)
            behind = np.cumsum([first.noted[0], *costs[schedule.order]])
            if behind.max() < first.limits[0]:
                first.noted[0] = float(behind[-1])
                self.__dict__.update(whole.__dict__, _splitting=first)
                return tapes
        tapes = Tapes(np.empty(len(raw)), np.empty(len(schedule.order)))
        for row, settled, waiting in schedule.turns(self.ticket, self.present):
            if settled is None:
                self.note_late(waiting)
                tapes.forecasts[row] = self.ask(raw[row])
            else:
                self.settle(int(outcomes[row]))
                tapes.certificates[settled] = self.certificate
        return tapes

    def book(self, tapes: Tapes, given: Floats, schedule: Schedule) -> Floats:
        """Note what was given in place of a replay's forecasts, shape (T,): its certificates then, (n,)."""
        booked = tapes._replace(certificates=tapes.certificates.copy())
        COLUMNS.book_rows(self._state, schedule.order, booked, np.ascontiguousarray(given))
        return booked.certificates

    def surprise(self) -> None:
        """Count a round with outcome 1 that stands for a forecast of 0: moved to 1 it is calibrated."""
        for account, recent in ((FARTHER, self._recently_farther), (AWAY, self._recently_away)):
            self._state[account] += PARTS
            recent.note(PARTS)

    def _split(self, splitting: SplittingBuckets, outcome: int) -> None:
        """Note the round that was charged of its bucket, and halve that if it is due."""
        given, hint, place = self._state[GIVEN], self._hint, self.tables.index(self._table)
        if splitting.note(place, (given - hint) * (given + hint - 2.0 * outcome)):
            splitting.halve(place)
            for _ in range(2):
                table = self._table.clone()
                table._note_late(self._late)
                self.tables.append(table)

    def ticket(self) -> Ticket:
        """A copy of the ticket, for a forecast that must wait while others are issued."""
        kept = tuple(self._state[: ticket_length(self._state)].tolist())
        return Ticket(self.tables.index(self._table), kept, self._hint)

    def present(self, ticket: Ticket) -> None:
        """Put a ticket back in its place, to be settled next."""
        self._table = self.tables[ticket.bucket]
        self._state[: len(ticket.kept)] = ticket.kept
        self._hint = ticket.hint

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_steered"}

    def note_late(self, others: int) -> None:
        """Take into the guarantee that so many other forecasts were open at once."""
        if others > self._late:
            self._late = others
            for table in self.tables:
                table._note_late(others)

    @property
    def certificate(self) -> float:
        """Proven bound on the distance to calibration of what was given and settled: a sum over buckets."""
        return float(self._state[FARTHER] / PARTS + in_turn(table.certificate for table in self.tables))

    @property
    def guarantee(self) -> float:
        """What the certificate cannot exceed; what was given in place of forecasts is counted as it was."""
        return float(self._state[AWAY] / PARTS + in_turn(table.guarantee for table in self.tables))

    def promise(self, rounds: int) -> float:
        """The guarantee after so many rounds, shared evenly by the buckets that there are now."""
        return len(self.tables) * self.tables[0]._promise(-(-rounds // len(self.tables)))

    @property
    def window_certificate(self) -> float:
        """The same for the rounds of the window, 0 if there is none."""
        if self._moments is None:
            return 0.0
        now = self._moments.now
        return self._recently_farther.within() / PARTS + in_turn(
            table._window_certificate_at(now) or 0.0 for table in self.tables
        )

    @property
    def window_guarantee(self) -> float:
        """What the distance of no window can exceed: its rounds are those of all tables together."""
        first, *others = self.tables
        promised = [first.window_guarantee, *(table._window_promise(0) for table in others)]
        # and what was given was so far from the forecasts, in the window where that was most
        return self._recently_away.most / PARTS + in_turn(promise or 0.0 for promise in promised)
