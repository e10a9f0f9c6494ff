"""A key under watch: its account, the stakes on its open forecasts, and the alarms that were raised."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from math import inf, nan
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from onlinecal.alarms.escrow import direction_of, region_of
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.keys.packing import pack_floats, unpack_floats
from onlinecal.engine.watch.account import (
    ALARMS,
    BIASES,
    FORECAST,
    HINT,
    HINTED,
    MONEY,
    PER_ALARM,
    SIZE,
    TICKET,
    UNHINTED,
    Ticket,
    ask,
    log_cost,
    new_account,
    settle,
    settle_bets,
)
from onlinecal.engine.watch.scores import Scores
from onlinecal.engine.watch.watched import Alarm, Watched
from onlinecal.forecasters.binary.soundness import require

ASKED, GIVEN_UP = object(), object()
"""What may happen to a forecast instead of an outcome: it is made; it will never have one."""
Note = tuple[Issued, Any, int]
"""A forecast, what happened to it, and the number of the event if that was its outcome."""
Counts = dict[str, tuple[int | float, int | float]]
"""How often each class came, without a hint and with one; whole as long as no soft label came."""
NO_TICKET = np.zeros(TICKET, np.float32)


class Raised(NamedTuple):
    """An alarm as it is raised: whose, FORECAST or HINT."""

    whose: int
    alarm: Alarm


class StoredWatch(Struct, array_like=True):
    """The floats of account and tickets; of classes, how often each came: without a hint, with one."""

    floats: bytes
    labels: Counts | None = None


class KeyWatch(ABC):
    """The account of one key. `alpha` is the rate of false alarms, None for no alarms.

    Attributes
    ----------
    account
        See `onlinecal.engine.watch.account`.
    tickets
        The stakes on open forecasts, by their numbers.
    raised
        Alarms that nobody has been told of yet.
    """

    __slots__ = ("account", "raised", "threshold", "tickets")

    def __init__(self, alpha: float | None) -> None:
        self.threshold = inf if alpha is None else 1.0 / alpha
        self.account = new_account()
        self.tickets: dict[int, Ticket] = {}
        self.raised: list[Raised] = []

    def follow(self, notes: Iterable[Note]) -> None:
        """Take up what happened, in its order."""
        betting, tickets = self.threshold < inf, self.tickets
        for issued, what, number in notes:
            if what is ASKED:
                if betting:
                    p, hint = self._probabilities(issued)
                    ticket = np.empty(TICKET, np.float32)
                    if not (p == p and hint == hint):
                        ticket[:] = 0.0
                    if p == p:
                        ask(self.account, ticket, p, hint)
                    tickets[issued.number] = ticket
            else:
                ticket = tickets.pop(issued.number, NO_TICKET)
                if what is not GIVEN_UP:
                    self._settle(ticket, issued, what, number)
                elif betting:
                    for whose, p in enumerate(self._probabilities(issued)):
                        # the mean outcome gives the stake back
                        if p == p:
                            settle_bets(self.account, ticket, whose, p, p, issued.number, 0, inf)

    @abstractmethod
    def _is_forecast(self, told: Any) -> bool:
        """Whether something can be a forecast or a hint."""

    @abstractmethod
    def _probabilities(self, issued: Issued) -> tuple[float, float]:
        """What is bet on: the forecast and the hint; NaN where there is none."""

    @abstractmethod
    def _settle(self, ticket: Ticket, issued: Issued, outcome: Any, number: int) -> None:
        """Take up the outcome of a forecast."""

    def _raise(self, whose: int) -> None:
        alarm = self.last_alarm(whose)
        assert alarm is not None
        self.raised.append(Raised(whose, alarm))

    def last_alarm(self, whose: int) -> Alarm | None:
        """The last alarm of the forecasts, or of the hints; None if there was none."""
        return alarm_in(self.account[:BIASES].tolist(), whose)

    def watched(self) -> Watched:
        """What came of it."""
        return self.watched_by(self.account[:MONEY].tolist())

    def watched_by(self, sums: list[float]) -> Watched:
        """What came of it by an account's sums, which are all in front of the bets' money."""
        return Watched(
            self._scores(sums),
            *self._biases(sums),
            int(sums[ALARMS]),
            int(sums[ALARMS + PER_ALARM]),
            alarm_in(sums, FORECAST),
            alarm_in(sums, HINT),
        )

    def _biases(self, sums: list[float]) -> tuple[float | None, float | None]:
        return None, None

    def _scores(self, sums: list[float]) -> Scores | None:
        """Averages over the rounds with a hint, if there are some, else over all."""
        group = HINTED if sums[HINTED] else UNHINTED
        n, *totals = sums[group : MONEY if group == HINTED else HINTED]
        if not n:
            return None
        losses = [one / n for one in totals]
        brier, log_loss = (losses[4], losses[5]) if group == HINTED else (None, None)
        constants = self._constants(losses[0], losses[1])
        return Scores(int(n), brier, log_loss, losses[2], losses[3], *constants)

    @abstractmethod
    def _constants(self, mean: float, square: float) -> tuple[float, float]:
        """Brier score and log loss of the best constant; of the outcomes' mean and mean square."""

    def dump(self, waiting: Collection[Issued]) -> bytes:
        """Account and tickets, as `pack_floats` has them."""
        tickets = [self.tickets[one.number] for one in waiting] if self.threshold < inf else []
        floats = pack_floats(self.account) + pack_floats(np.array(tickets, np.float32).ravel())
        return msgspec.msgpack.encode(StoredWatch(floats, self._labels()))

    def _labels(self) -> Counts | None:
        return None

    def take(self, data: bytes, waiting: Collection[Issued]) -> None:
        """Take up what was dumped while these forecasts waited; ValueError if that cannot be."""
        # by forecasts and hints it is found which bets are made
        for one in waiting:
            told = [one.probability] if one.hint is None else [one.probability, one.hint]
            require(all(map(self._is_forecast, told)), "its open forecasts")
        stored = msgspec.msgpack.decode(data, type=StoredWatch)
        numbers = [one.number for one in waiting] if self.threshold < inf else []
        account, rest = unpack_floats(stored.floats, "<f8", SIZE)
        tickets, rest = unpack_floats(rest, "<f4", TICKET * len(numbers))
        tickets = tickets.reshape(-1, TICKET)
        require(not rest, "the length of its account")
        self.account = account
        self.tickets = {number: one.copy() for number, one in zip(numbers, tickets, strict=True)}
        self._take_labels(stored.labels)

    def _take_labels(self, labels: Counts | None) -> None:
        require(labels is None, "its classes")


class ProbabilityWatch(KeyWatch):
    """That of outcomes in [0, 1]."""

    __slots__ = ()

    def _is_forecast(self, told: Any) -> bool:
        return is_share(told)

    def _probabilities(self, issued: Issued) -> tuple[float, float]:
        return issued.probability, nan if issued.hint is None else issued.hint

    def _settle(self, ticket: Ticket, issued: Issued, outcome: float, number: int) -> None:
        hint = nan if issued.hint is None else issued.hint
        raised = settle(
            self.account,
            ticket,
            issued.probability,
            hint,
            float(outcome),
            issued.number,
            number,
            self.threshold,
        )
        if raised:
            for whose in (FORECAST, HINT):
                if raised >> whose & 1:
                    self._raise(whose)

    def _biases(self, sums: list[float]) -> tuple[float | None, float | None]:
        biases = [abs(one) for one in sums[BIASES:UNHINTED]]
        of_hints = max(biases[2], biases[3] / 1.5) if sums[HINTED] else None
        return max(biases[0], biases[1] / 1.5), of_hints

    def _constants(self, mean: float, square: float) -> tuple[float, float]:
        p = min(1.0, mean)
        return max(0.0, square - p * p), p * log_cost(p) + (1.0 - p) * log_cost(1.0 - p)


def alarm_in(sums: list[float], whose: int) -> Alarm | None:
    """The last alarm that an account has of the forecasts, or of the hints."""
    start = ALARMS + whose * PER_ALARM
    count, event, bet = map(int, sums[start : start + PER_ALARM])
    return Alarm(event, *region_of(bet), direction_of(bet)) if count else None


def is_share(told: Any) -> bool:
    """Whether something is a float in [0, 1]."""
    return type(told) is float and 0.0 <= told <= 1.0
