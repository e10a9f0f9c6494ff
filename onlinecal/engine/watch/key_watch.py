"""What there is to know of a key, with its scores and alarms, as reports, pages and the ledger show it.

The account of a binary key is a row of `LaneArrays`. A key of several classes has a `KeyWatch`.

A `KeyWatch` is told of every step of its key by `ClassKey.run`, in their order, once the lanes have taken
them. Beside the account it has the stakes on open forecasts, and how often each class came. What it dumps, a
`StoredWatch`, is part of the key's saved state. All other classes here are answers, which never change; their
fields are shown by name in reports, on the page and in JSON. The first six of a `Summary`, in their order,
are columns of the ledger's table `states`.
"""

from __future__ import annotations

from collections.abc import Collection
from math import fsum, inf, nan
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw, Struct

from onlinecal.alarms.escrow import MEANINGS
from onlinecal.engine.fields import is_name
from onlinecal.engine.keys.lanes import ClassForecast, ClassOutcome, class_shares
from onlinecal.engine.keys.playing import ASKED, GIVEN_UP
from onlinecal.engine.keys.storing import (
    StoredBinaryKey,
    account_in,
    checked_state,
    pack_floats,
    unpack_floats,
)
from onlinecal.engine.watch.account import (
    ACCOUNT_SIZE,
    ALARMS,
    BIASES,
    FORECAST,
    HINT,
    HINTED,
    MONEY,
    N_STAKES,
    PER_ALARM,
    UNHINTED,
    Stakes,
    log_cost,
    make_bets,
    new_account,
    pay_bets,
)
from onlinecal.html import Shown
from onlinecal.measures.scores import BesideConstants
from onlinecal.restoring import require

ClassCounts = dict[str, tuple[int | float, int | float]]
"""How often each class came, after forecasts without a hint and with one. Soft labels add shares, else these
are whole numbers."""
NO_STAKES = np.zeros(N_STAKES, np.float32)


class Alarm(Struct, frozen=True):
    """An alarm that forecasts, or hints, are no longer calibrated.

    Attributes
    ----------
    event
        The number of the event, an outcome, that raised it.
    low, high
        Which forecasts: those from low up to high. With several classes, it is the likeliest one's
        probability.
    direction
        "too low", "too high"; or, if it is about all forecasts, also "overconfident", "underconfident".
    """

    event: int
    low: float
    high: float
    direction: str

    def __str__(self) -> str:
        where = "all" if self.high - self.low == 1.0 else f"{self.low:g} to {self.high:g}"
        return f"{self.direction} ({where})"


class Scores(BesideConstants, Struct, frozen=True):
    """Averages over settled rounds; of several classes the Brier score is a sum over classes.

    The log loss is -log(p), p the probability of what came, at least 1e-15.

    Attributes
    ----------
    rounds
        How many rounds: those with a hint, if there are any, else all.
    brier_hint, log_loss_hint
        The averages of the hints; None if there are none.
    brier, log_loss
        The averages of the forecasts.
    brier_constant, log_loss_constant
        The averages of the best constant in hindsight, one for each key.
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
        """The scores of the hints by name; None if there are none."""
        if self.brier_hint is None or self.log_loss_hint is None:
            return None
        return {"Brier score": self.brier_hint, "log loss": self.log_loss_hint}


class Watched(Struct, frozen=True, omit_defaults=True):
    """The scores and alarms of a key.

    Attributes
    ----------
    scores
        The scores of the settled rounds; None if there are none.
    bias, hint_bias
        For outcomes in [0, 1]: lower bounds on the distance to calibration, sums over rounds as certificates
        are; the larger of abs(sum of p - y) and of abs(sum of (p - 1/2)(p - y))/1.5.
    alarms, hint_alarms
        How many alarms there were, of the forecasts and of the hints.
    last, last_hint
        The last alarm of either.
    """

    scores: Scores | None = None
    bias: float | None = None
    hint_bias: float | None = None
    alarms: int = 0
    hint_alarms: int = 0
    last: Alarm | None = None
    last_hint: Alarm | None = None


class Summary(Shown, Struct, frozen=True, omit_defaults=True):
    """What there is to know of a key at a glance, or of all keys together.

    Attributes
    ----------
    rounds, open, expired
        How many forecasts were settled, are open (wait for their outcomes), and expired. An expired one was
        given up, or with `expire_as` settled by that outcome, and is then one of the `rounds`, too.
    certificate, guarantee
        A proven upper bound on the distance to calibration of the settled rounds, a sum over rounds (of
        several classes also over the classes), and what that bound could not exceed, whatever outcomes came.
        Of kind "lp" no bounds: the l_p error times the rounds, and the most that it could be.
    oldest
        The number of the oldest open query, None if none is open. Accepted events are numbered from 1.
    window_certificate, window_guarantee
        The certificate of the last `window` settled rounds, and what that of any so many consecutive rounds
        could not exceed. None if the key keeps no window, and for all keys together; the latter also where
        the grid promises nothing.
    watched
        The key's `scores` (averages over settled rounds), how many `alarms` and `hint_alarms` there were, and
        the `last` of each; None where they were not asked for.
    """

    rounds: int
    open: int
    expired: int
    certificate: float
    guarantee: float
    oldest: int | None
    window_certificate: float | None = None
    window_guarantee: float | None = None
    watched: Watched | None = None


EMPTY_SUMMARY = Summary(0, 0, 0, 0.0, 0.0, None)


def watched_by(sums: list[float], counts: ClassCounts | None = None) -> Watched:
    """The scores and alarms in the first part of an account, which comes before the money of bets.

    `counts` says how often each class came, for keys of several classes.
    """
    bias = hint_bias = None
    if counts is None:
        biases = [abs(bias) for bias in sums[BIASES:UNHINTED]]
        bias = max(biases[0], biases[1] / 1.5)
        hint_bias = max(biases[2], biases[3] / 1.5) if sums[HINTED] else None
    alarms, hint_alarms = int(sums[ALARMS]), int(sums[ALARMS + PER_ALARM])
    last = last_alarm(sums, FORECAST), last_alarm(sums, HINT)
    return Watched(scores_in(sums, counts), bias, hint_bias, alarms, hint_alarms, *last)


def scores_in(sums: list[float], counts: ClassCounts | None) -> Scores | None:
    """Averages over the rounds with a hint, if there are some, else over all."""
    hinted = bool(sums[HINTED])
    n, *totals = sums[HINTED:MONEY] if hinted else sums[UNHINTED:HINTED]
    if not n:
        return None
    mean, square, brier, log_loss, *of_hints = [total / n for total in totals]
    if counts is None:
        p = min(1.0, mean)
        shares, constant = [p, 1.0 - p], square - p * p
    else:
        came = [both[hinted] for both in counts.values()]
        whole = fsum(came)
        shares = [share / whole for share in came]
        constant = 1.0 - square - fsum(share * share for share in shares)
    hints: tuple[float | None, float | None] = (of_hints[0], of_hints[1]) if hinted else (None, None)
    constants = max(0.0, constant), fsum(share * log_cost(share) for share in shares)
    return Scores(int(n), *hints, brier, log_loss, *constants)


def last_alarm(sums: Any, side: int) -> Alarm | None:
    """The last alarm of one side in an account; None if there was none."""
    start = ALARMS + side * PER_ALARM
    count, event, bet = map(int, sums[start : start + PER_ALARM])
    return Alarm(event, *MEANINGS[bet]) if count else None


class StoredWatch(Struct, array_like=True):
    """What is stored of a `KeyWatch`: the floats of account and stakes, and how often each class came."""

    floats: bytes
    labels: ClassCounts


OF_BINARY = 0x90 + len(StoredBinaryKey.__struct_fields__)
"""The first byte of a binary key's state: an array with so many fields. A `StoredClassKey` must have another
number of fields, and its watch last, since `watched_in` goes by that."""
_of_binary = msgspec.msgpack.Decoder(StoredBinaryKey)
_fields = msgspec.msgpack.Decoder(list[Raw])
_bytes = msgspec.msgpack.Decoder(bytes)
_watch = msgspec.msgpack.Decoder(StoredWatch)


def watched_in(key: str, state: bytes) -> Watched:
    """The scores and alarms in the stored state of a key, without decoding the rest.

    Raises any exception if the bytes make no sense.
    """
    data = checked_state(key, state)
    if data[0] == OF_BINARY:
        return watched_by(account_in(_of_binary.decode(data))[:MONEY].tolist())
    # the watch is the last field of a `StoredClassKey`
    stored = _watch.decode(_bytes.decode(_fields.decode(data)[-1]))
    account, _ = unpack_floats(stored.floats, "<f8", ACCOUNT_SIZE)
    return watched_by(account[:MONEY].tolist(), stored.labels)


class KeyWatch:
    """Watches over a key of several classes; bets are on whether the likeliest class comes.

    `threshold` is that of alarms, inf for none.

    Attributes
    ----------
    account
        As in `onlinecal.engine.watch.account`.
    stakes
        The stakes on open forecasts, by the numbers of their queries.
    labels
        How often each class came.
    """

    __slots__ = ("account", "labels", "stakes", "threshold")

    def __init__(self, threshold: float) -> None:
        self.threshold, self.account = threshold, new_account()
        self.stakes: dict[int, Stakes] = {}
        self.labels: ClassCounts = {}

    def follow(self, forecast: ClassForecast, what: Any, number: int) -> list[tuple[int, Alarm]]:
        """Take up what came of a forecast: ASKED, GIVEN_UP or the outcome, by the event of that number.

        Returns the alarms that this raised, behind their sides, FORECAST or HINT.
        """
        sides = forecast.probability, forecast.hint
        if what != ASKED:
            stakes = self.stakes.pop(forecast.number, NO_STAKES)
            if what != GIVEN_UP:
                return self._settle(stakes, forecast, what, number)
            if self.threshold < inf and forecast.probability:
                for side, p in enumerate(likeliest(shares)[1] for shares in sides if shares):
                    # the mean outcome gives the stakes back
                    pay_bets(self.account, stakes, side, p, p, float(forecast.number), 0.0, inf)
        elif self.threshold < inf:
            self.stakes[forecast.number] = stakes = np.zeros(N_STAKES, np.float32)
            # before the first class is known there is nothing to bet on
            if forecast.probability:
                make_bets(self.account, stakes, *(likeliest(shares)[1] for shares in sides), self.threshold)
        return []

    def _settle(
        self, stakes: Stakes, forecast: ClassForecast, outcome: ClassOutcome, number: int
    ) -> list[tuple[int, Alarm]]:
        hinted, soft, raised = forecast.hint is not None, class_shares(outcome), list[tuple[int, Alarm]]()
        account, place = self.account, HINTED if hinted else UNHINTED
        spread = 0.0 if len(soft) == 1 else max(0.0, 1.0 - fsum([y * y for y in soft.values()]))
        account[place] += 1.0
        # where binary keys sum squared outcomes, this sums how far outcomes are from one class
        account[place + 2] += spread
        for label, y in soft.items():
            counts, came = self.labels.get(label, (0, 0)), 1 if y == 1.0 else y
            self.labels[label] = (counts[0], counts[1] + came) if hinted else (counts[0] + came, counts[1])
        for side, probabilities in enumerate((forecast.probability, forecast.hint)[: 1 + hinted]):
            of_labels = [probabilities.get(label, 0.0) for label in soft]
            right = fsum([y * p for y, p in zip(soft.values(), of_labels, strict=True)])
            squares = fsum([p * p for p in probabilities.values()]) - 2.0 * right + (1.0 - spread)
            costs = [y * log_cost(p) for y, p in zip(soft.values(), of_labels, strict=True)]
            account[place + 3 + 2 * side] += max(0.0, squares)
            account[place + 4 + 2 * side] += fsum(costs)
            if self.threshold < inf and forecast.probability:
                likely, p = likeliest(probabilities)
                came, asked = soft.get(likely or "", 0.0), float(forecast.number)
                bet = p, came, asked, float(number), self.threshold
                if pay_bets(account, stakes, side, *bet) and (alarm := last_alarm(account, side)):
                    raised.append((side, alarm))
        return raised

    def watched(self) -> Watched:
        """The scores and alarms."""
        return watched_by(self.account[:MONEY].tolist(), self.labels)

    def dump(self) -> bytes:
        """The state in bytes: account, stakes, and how often each class came."""
        stakes = np.array(list(self.stakes.values()), np.float32)
        floats = pack_floats(self.account) + pack_floats(stakes.ravel())
        return msgspec.msgpack.encode(StoredWatch(floats, self.labels))

    def take(self, data: bytes, waiting: Collection[ClassForecast]) -> None:
        """Take up what was dumped while these forecasts waited; raises any exception if it makes no sense."""
        # forecasts and hints decide which bets are paid, so they have to be sound
        for forecast in waiting:
            sides = [forecast.probability] if forecast.hint is None else [forecast.probability, forecast.hint]
            require(all(map(are_shares, sides)), "its open forecasts")
        stored = _watch.decode(data)
        numbers = [forecast.number for forecast in waiting] if self.threshold < inf else []
        account, rest = unpack_floats(stored.floats, "<f8", ACCOUNT_SIZE)
        stakes, rest = unpack_floats(rest, "<f4", N_STAKES * len(numbers))
        require(not rest, "the length of its account")
        self.account, self.labels = account, stored.labels
        rows = stakes.reshape(-1, N_STAKES)
        self.stakes = {number: row.copy() for number, row in zip(numbers, rows, strict=True)}


def are_shares(value: Any) -> bool:
    """Whether a value is a dict of names with floats in [0, 1]."""
    return isinstance(value, dict) and all(
        is_name(label) and type(p) is float and 0.0 <= p <= 1.0 for label, p in value.items()
    )


def likeliest(probabilities: dict[str, float] | None) -> tuple[str | None, float]:
    """The likeliest class, the first of equals, and its probability; None and NaN if there is none."""
    if not probabilities:
        return None, nan
    label = max(probabilities, key=probabilities.__getitem__)
    return label, probabilities[label]
