"""A key under watch: its account, the stakes on its open forecasts, and the alarms that were raised.

What came of watching a key, as reports, pages and the ledger have it.

What came of watching a key, read in its state as it is stored: nothing else of it is looked at.

What settled forecasts are worth, beside the hints that came with their queries: averages over rounds.

A key of several classes under watch: bets are on whether the likeliest one comes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from math import fsum, inf, nan
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw, Struct

from onlinecal.alarms.escrow import direction_of, region_of
from onlinecal.arrays import Floats
from onlinecal.engine.events import is_name
from onlinecal.engine.keys.lanes import ClassOutcome, Issued, parts_of
from onlinecal.engine.keys.storing import SUM, StoredBinary, account_in, pack_floats, sum_of, unpack_floats
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
    settle_bets,
)
from onlinecal.forecasters.binary.soundness import require
from onlinecal.measures.scores import BesideConstants

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
        alarm = last_alarm(self.account, whose)
        assert alarm is not None
        self.raised.append(Raised(whose, alarm))

    @abstractmethod
    def watched(self) -> Watched:
        """What came of it."""

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


def watched_by(sums: list[float]) -> Watched:
    """What came of watching a binary key, by the sums of its account, which stand before the bets' money."""
    biases = [abs(one) for one in sums[BIASES:UNHINTED]]
    of_hints = max(biases[2], biases[3] / 1.5) if sums[HINTED] else None
    return watched_with(sums, constants_of, max(biases[0], biases[1] / 1.5), of_hints)


def watched_with(
    sums: list[float],
    constants: Callable[[float, float], tuple[float, float]],
    bias: float | None = None,
    hint_bias: float | None = None,
) -> Watched:
    """What came of watching a key; `constants` are as `constants_of`."""
    return Watched(
        scores_in(sums, constants),
        bias,
        hint_bias,
        int(sums[ALARMS]),
        int(sums[ALARMS + PER_ALARM]),
        alarm_in(sums, FORECAST),
        alarm_in(sums, HINT),
    )


def scores_in(sums: list[float], constants: Callable[[float, float], tuple[float, float]]) -> Scores | None:
    """Averages over the rounds with a hint, if there are some, else over all."""
    group = HINTED if sums[HINTED] else UNHINTED
    n, *totals = sums[group : MONEY if group == HINTED else HINTED]
    if not n:
        return None
    losses = [one / n for one in totals]
    brier, log_loss = (losses[4], losses[5]) if group == HINTED else (None, None)
    return Scores(int(n), brier, log_loss, losses[2], losses[3], *constants(losses[0], losses[1]))


def constants_of(mean: float, square: float) -> tuple[float, float]:
    """Brier score and log loss of the best constant, of the outcomes' mean and mean square."""
    p = min(1.0, mean)
    return max(0.0, square - p * p), p * log_cost(p) + (1.0 - p) * log_cost(1.0 - p)


def last_alarm(account: Floats, whose: int) -> Alarm | None:
    """The last alarm of the forecasts, or of the hints; None if there was none."""
    return alarm_in(account[:BIASES].tolist(), whose)


def alarm_in(sums: list[float], whose: int) -> Alarm | None:
    """The last alarm that an account has of the forecasts, or of the hints."""
    start = ALARMS + whose * PER_ALARM
    count, event, bet = map(int, sums[start : start + PER_ALARM])
    return Alarm(event, *region_of(bet), direction_of(bet)) if count else None


def is_share(told: Any) -> bool:
    """Whether something is a float in [0, 1]."""
    return type(told) is float and 0.0 <= told <= 1.0


class Alarm(Struct, frozen=True):
    """That forecasts, or hints, are no longer calibrated.

    Attributes
    ----------
    event
        Number of the event, an outcome, that raised it.
    low, high
        Which of them: from low up to high. Of several classes it is the probability of the likeliest.
    direction
        "too low", "too high", or of all of them "overconfident", "underconfident".
    """

    event: int
    low: float
    high: float
    direction: str

    def __str__(self) -> str:
        where = "all" if self.high - self.low == 1.0 else f"{self.low:g} to {self.high:g}"
        return f"{self.direction} ({where})"


class Watched(Struct, frozen=True, omit_defaults=True):
    """What came of watching a key.

    Attributes
    ----------
    scores
        Of the settled rounds; None if there are none.
    bias, hint_bias
        Of outcomes in [0, 1]: lower bounds on the distance to calibration, sums over rounds as certificates
        are; the larger of abs(sum of p - y) and of abs(sum of (p - 1/2)(p - y))/1.5.
    alarms, hint_alarms
        How many there were, of the forecasts and of the hints.
    last, last_hint
        The last ones.
    """

    scores: Scores | None = None
    bias: float | None = None
    hint_bias: float | None = None
    alarms: int = 0
    hint_alarms: int = 0
    last: Alarm | None = None
    last_hint: Alarm | None = None


class _WatchOfKey(Struct, array_like=True):
    """A `StoredKey`, of which only the watch is taken apart."""

    format: Raw
    clock: Raw
    expired: Raw
    late: Raw
    lanes: Raw
    open: Raw
    steering: Raw
    watch: bytes


def watched_in(key: str, state: bytes) -> Watched:
    """What came of watching a key, of which this is the state.

    Any exception if the bytes are those of no state.
    """
    if state[:SUM] != sum_of(memoryview(state)[SUM:]):
        raise ValueError(f"the state of key {key!r} is damaged: repair the ledger, it is made anew")
    data = memoryview(state)[SUM:]
    if state[SUM] == OF_BINARY:
        return watched_by(account_in(_of_binary.decode(data))[:MONEY].tolist())
    stored = _watch.decode(_of_classes.decode(data).watch)
    of_classes = ClassWatch(None)
    of_classes.account, _ = unpack_floats(stored.floats, "<f8", SIZE)
    of_classes.labels = stored.labels or {}
    return of_classes.watched()


OF_BINARY = 0x90 + len(StoredBinary.__struct_fields__)
"""The first byte of a binary key's state: it is an array of so many."""
_of_binary = msgspec.msgpack.Decoder(StoredBinary)
_of_classes = msgspec.msgpack.Decoder(_WatchOfKey)
_watch = msgspec.msgpack.Decoder(StoredWatch)


class Scores(BesideConstants, Struct, frozen=True):
    """Averages over settled rounds; of several classes the Brier score is a sum over classes.

    Attributes
    ----------
    rounds
        How many: those with a hint, if any has one, else all.
    brier_hint, log_loss_hint
        Of the hints; None if there are none.
    brier, log_loss
        Of the forecasts.
    brier_constant, log_loss_constant
        Of the best constant in hindsight, one for each key.
    """

    rounds: int
    brier_hint: float | None
    log_loss_hint: float | None
    brier: float
    log_loss: float
    brier_constant: float
    log_loss_constant: float

    @property
    def hints(self) -> dict[str, float] | None:
        """Of the hints; None if there are none."""
        if self.brier_hint is None or self.log_loss_hint is None:
            return None
        return {"Brier score": self.brier_hint, "log loss": self.log_loss_hint}


class ClassWatch(KeyWatch):
    """That of several classes: bets are on whether the likeliest one comes.

    Attributes
    ----------
    labels
        How often each class came, also as a part of soft labels: after a forecast without a hint, and with
        one.
    """

    __slots__ = ("labels",)

    def __init__(self, alpha: float | None) -> None:
        super().__init__(alpha)
        self.labels: Counts = {}

    def _is_forecast(self, told: Any) -> bool:
        return isinstance(told, dict) and all(map(is_name, told)) and all(map(is_share, told.values()))

    def _probabilities(self, issued: Issued) -> tuple[float, float]:
        forecast, hint = likeliest(issued.probability)[1], likeliest(issued.hint)[1]
        # without a class that was met there is nothing to bet on
        return forecast, hint if forecast == forecast else nan

    def _settle(self, ticket: Ticket, issued: Issued, outcome: ClassOutcome, number: int) -> None:
        hinted, soft = issued.hint is not None, parts_of(outcome)
        account, place, threshold = self.account, HINTED if hinted else UNHINTED, self.threshold
        spread = 0.0 if len(soft) == 1 else max(0.0, 1.0 - fsum([y * y for y in soft.values()]))
        account[place] += 1.0
        # how far it is from one class, in the place of the squares of outcomes that are numbers
        account[place + 2] += spread
        for label, y in soft.items():
            counts, came = self.labels.get(label, (0, 0)), 1 if y == 1.0 else y
            self.labels[label] = (counts[0], counts[1] + came) if hinted else (counts[0] + came, counts[1])
        for whose, told in enumerate((issued.probability, issued.hint)[: 1 + hinted]):
            given = [told.get(label, 0.0) for label in soft]
            right = fsum([y * p for y, p in zip(soft.values(), given, strict=True)])
            squares = fsum([p * p for p in told.values()]) - 2.0 * right + (1.0 - spread)
            costs = [y * log_cost(p) for y, p in zip(soft.values(), given, strict=True)]
            account[place + 3 + 2 * whose] += max(0.0, squares)
            account[place + 4 + 2 * whose] += fsum(costs)
            # without a class that was met there is nothing to bet on
            if threshold < inf and issued.probability:
                likely, p = likeliest(told)
                came, asked = soft.get(likely or "", 0.0), issued.number
                if settle_bets(account, ticket, whose, p, came, asked, number, threshold):
                    self._raise(whose)

    def watched(self) -> Watched:
        """What came of it."""
        return watched_with(self.account[:MONEY].tolist(), self._constants)

    def _constants(self, mean: float, square: float) -> tuple[float, float]:
        place = bool(self.account[HINTED])
        counts = [both[place] for both in self.labels.values() if both[place]]
        whole = fsum(counts)
        shares = [count / whole for count in counts]
        brier = 1.0 - square - fsum(share * share for share in shares)
        return max(0.0, brier), fsum(share * log_cost(share) for share in shares)

    def _labels(self) -> Counts | None:
        return self.labels

    def _take_labels(self, labels: Counts | None) -> None:
        require(labels is not None, "its classes")
        assert labels is not None
        self.labels = labels


def likeliest(told: dict[str, float] | None) -> tuple[str | None, float]:
    """The likeliest class, the first of equals, and its probability; None and NaN if there is none."""
    if not told:
        return None, nan
    label = max(told, key=told.__getitem__)
    return label, told[label]
