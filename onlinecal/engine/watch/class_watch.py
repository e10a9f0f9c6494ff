"""A key of several classes under watch: bets are on whether the likeliest one comes."""

from __future__ import annotations

from math import fsum, inf, nan
from typing import Any

from onlinecal.arrays import Floats
from onlinecal.engine.events import is_name
from onlinecal.engine.keys.class_labels import ClassOutcome, parts_of
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.watch.account import HINTED, UNHINTED, Ticket, log_cost, settle_bets
from onlinecal.engine.watch.key_watch import Counts, KeyWatch, is_share
from onlinecal.forecasters.binary.soundness import require


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
        account, place = self.account, HINTED if hinted else UNHINTED
        account[place] += 1.0
        # in the place of the squares of outcomes that are numbers
        account[place + 2] += spread_of(soft)
        for label, y in soft.items():
            counts, came = self.labels.get(label, (0, 0)), 1 if y == 1.0 else y
            self.labels[label] = (counts[0], counts[1] + came) if hinted else (counts[0] + came, counts[1])
        add_class_losses(account, place + 3, issued.probability, soft)
        if hinted:
            add_class_losses(account, place + 5, issued.hint, soft)
        bets = self._probabilities(issued)
        for whose, told in enumerate((issued.probability, issued.hint)):
            if self.threshold < inf and bets[whose] == bets[whose]:
                came = soft.get(likeliest(told)[0] or "", 0.0)
                asked, threshold = issued.number, self.threshold
                if settle_bets(account, ticket, whose, bets[whose], came, asked, number, threshold):
                    self._raise(whose)

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


def spread_of(soft: dict[str, float]) -> float:
    """How far a soft label is from one class: 1 less the sum of its squares."""
    return max(0.0, 1.0 - fsum(y * y for y in soft.values()))


def add_class_losses(account: Floats, place: int, told: dict[str, float], soft: dict[str, float]) -> None:
    """Add a round's squared error, over all classes, and its log loss."""
    given = fsum(y * told.get(label, 0.0) for label, y in soft.items())
    squares = fsum(p * p for p in told.values()) - 2.0 * given + (1.0 - spread_of(soft))
    account[place] += max(0.0, squares)
    account[place + 1] += fsum(y * log_cost(told.get(label, 0.0)) for label, y in soft.items())
