"""What came of watching a key, as reports, pages and the ledger have it.

A binary key has its account in the arrays of all players. One of several classes has a `KeyWatch`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import fsum, inf, nan
from operator import mul
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw, Struct
from msgspec.structs import astuple

from onlinecal.alarms.escrow import direction_of, region_of
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
"""How often each class came, also as a part of soft labels: after a forecast without a hint, and with one.
Whole numbers as long as no soft label came."""
NO_TICKET = np.zeros(TICKET, np.float32)


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


class Raised(NamedTuple):
    """An alarm as it is raised: whose, FORECAST or HINT."""

    whose: int
    alarm: Alarm


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


def watched_by(sums: list[float], counts: Counts | None = None) -> Watched:
    """What came of watching a key, by the sums of its account, which stand before the bets' money.

    `counts` are those of a key of several classes.
    """
    bias = hint_bias = None
    if counts is None:
        biases = [abs(one) for one in sums[BIASES:UNHINTED]]
        bias = max(biases[0], biases[1] / 1.5)
        hint_bias = max(biases[2], biases[3] / 1.5) if sums[HINTED] else None
    alarms, hint_alarms = int(sums[ALARMS]), int(sums[ALARMS + PER_ALARM])
    last = last_alarm(sums, FORECAST), last_alarm(sums, HINT)
    return Watched(scores_in(sums, counts), bias, hint_bias, alarms, hint_alarms, *last)


def scores_in(sums: list[float], counts: Counts | None) -> Scores | None:
    """Averages over the rounds with a hint, if there are some, else over all."""
    hinted = bool(sums[HINTED])
    n, *totals = sums[HINTED:MONEY] if hinted else sums[UNHINTED:HINTED]
    if not n:
        return None
    mean, square, brier, log_loss, *of_hints = [one / n for one in totals]
    if counts is None:
        p = min(1.0, mean)
        shares, constant = [p, 1.0 - p], square - p * p
    else:
        came = [both[hinted] for both in counts.values()]
        whole = fsum(came)
        shares = [one / whole for one in came]
        constant = 1.0 - square - fsum(share * share for share in shares)
    hints: tuple[float | None, float | None] = (of_hints[0], of_hints[1]) if hinted else (None, None)
    constants = max(0.0, constant), fsum(share * log_cost(share) for share in shares)
    return Scores(int(n), *hints, brier, log_loss, *constants)


def scores_of_all(every: Iterable[Scores]) -> Scores | None:
    """All keys together, only those with hints if there are any; each round weighs the same. None of none."""
    listed = list(every)
    listed = [one for one in listed if one.hints is not None] or listed
    if not listed:
        return None
    rounds, *columns = zip(*map(astuple, listed), strict=True)
    whole = sum(rounds)
    means: list[Any] = [None if None in one else fsum(map(mul, rounds, one)) / whole for one in columns]
    return Scores(whole, *means)


def last_alarm(sums: Any, whose: int) -> Alarm | None:
    """The last alarm that an account has of the forecasts, or of the hints; None if there was none."""
    start = ALARMS + whose * PER_ALARM
    count, event, bet = map(int, sums[start : start + PER_ALARM])
    return Alarm(event, *region_of(bet), direction_of(bet)) if count else None


class StoredWatch(Struct, array_like=True):
    """The floats of account and tickets, and how often each class came."""

    floats: bytes
    labels: Counts


OF_BINARY = 0x90 + len(StoredBinary.__struct_fields__)
"""The first byte of a binary key's state: it is an array of so many."""
_of_binary = msgspec.msgpack.Decoder(StoredBinary)
_fields = msgspec.msgpack.Decoder(list[Raw])
_bytes = msgspec.msgpack.Decoder(bytes)
_watch = msgspec.msgpack.Decoder(StoredWatch)


def watched_in(key: str, state: bytes) -> Watched:
    """What came of watching a key, of which this is the state; nothing else of it is looked at.

    Any exception if the bytes are those of no state.
    """
    data = memoryview(state)[SUM:]
    if state[:SUM] != sum_of(data):
        raise ValueError(f"the state of key {key!r} is damaged: repair the ledger, it is made anew")
    if state[SUM] == OF_BINARY:
        return watched_by(account_in(_of_binary.decode(data))[:MONEY].tolist())
    # the watch is the last field of a `StoredKey`
    stored = _watch.decode(_bytes.decode(_fields.decode(data)[-1]))
    account, _ = unpack_floats(stored.floats, "<f8", SIZE)
    return watched_by(account[:MONEY].tolist(), stored.labels)


class KeyWatch:
    """The account of a key of several classes; bets are on whether the likeliest one comes.

    `alpha` is the rate of false alarms, None for no alarms.

    Attributes
    ----------
    account
        See `onlinecal.engine.watch.account`.
    tickets
        The stakes on open forecasts, by their numbers.
    raised
        Alarms that nobody has been told of yet.
    labels
        How often each class came.
    """

    __slots__ = ("account", "labels", "raised", "threshold", "tickets")

    def __init__(self, alpha: float | None) -> None:
        self.threshold = inf if alpha is None else 1.0 / alpha
        self.account = new_account()
        self.tickets: dict[int, Ticket] = {}
        self.raised: list[Raised] = []
        self.labels: Counts = {}

    def follow(self, notes: Iterable[Note]) -> None:
        """Take up what happened, in its order."""
        for issued, what, number in notes:
            told = issued.probability, issued.hint
            if what is not ASKED:
                ticket = self.tickets.pop(issued.number, NO_TICKET)
                if what is not GIVEN_UP:
                    self._settle(ticket, issued, what, number)
                elif self.threshold < inf and issued.probability:
                    for whose, p in enumerate(likeliest(one)[1] for one in told if one):
                        # the mean outcome gives the stake back
                        settle_bets(self.account, ticket, whose, p, p, issued.number, 0, inf)
            elif self.threshold < inf:
                self.tickets[issued.number] = ticket = np.zeros(TICKET, np.float32)
                # without a class that was met there is nothing to bet on
                if issued.probability:
                    ask(self.account, ticket, *(likeliest(one)[1] for one in told))

    def _settle(self, ticket: Ticket, issued: Issued, outcome: ClassOutcome, number: int) -> None:
        """Take up the outcome of a forecast."""
        hinted, soft = issued.hint is not None, parts_of(outcome)
        account, place = self.account, HINTED if hinted else UNHINTED
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
            if self.threshold < inf and issued.probability:
                likely, p = likeliest(told)
                bet = p, soft.get(likely or "", 0.0), issued.number, number, self.threshold
                if settle_bets(account, ticket, whose, *bet) and (alarm := last_alarm(account, whose)):
                    self.raised.append(Raised(whose, alarm))

    def watched(self) -> Watched:
        """What came of it."""
        return watched_by(self.account[:MONEY].tolist(), self.labels)

    def dump(self, waiting: Collection[Issued]) -> bytes:
        """Account and tickets, as `pack_floats` has them."""
        tickets = [self.tickets[one.number] for one in waiting] if self.threshold < inf else []
        floats = pack_floats(self.account) + pack_floats(np.array(tickets, np.float32).ravel())
        return msgspec.msgpack.encode(StoredWatch(floats, self.labels))

    def take(self, data: bytes, waiting: Collection[Issued]) -> None:
        """Take up what was dumped while these forecasts waited; any exception if that cannot be."""
        # by forecasts and hints it is found which bets are made
        for one in waiting:
            told = [one.probability] if one.hint is None else [one.probability, one.hint]
            require(all(map(are_shares, told)), "its open forecasts")
        stored = _watch.decode(data)
        numbers = [one.number for one in waiting] if self.threshold < inf else []
        account, rest = unpack_floats(stored.floats, "<f8", SIZE)
        tickets, rest = unpack_floats(rest, "<f4", TICKET * len(numbers))
        require(not rest, "the length of its account")
        self.account, self.labels = account, stored.labels
        rows = tickets.reshape(-1, TICKET)
        self.tickets = {number: one.copy() for number, one in zip(numbers, rows, strict=True)}


def are_shares(told: Any) -> bool:
    """Whether something is made of names with floats in [0, 1]."""
    return isinstance(told, dict) and all(
        is_name(label) and type(p) is float and 0.0 <= p <= 1.0 for label, p in told.items()
    )


def likeliest(told: dict[str, float] | None) -> tuple[str | None, float]:
    """The likeliest class, the first of equals, and its probability; None and NaN if there is none."""
    if not told:
        return None, nan
    label = max(told, key=told.__getitem__)
    return label, told[label]
