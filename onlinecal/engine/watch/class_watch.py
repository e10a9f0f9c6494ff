"""A key of several classes under watch: bets are on whether the likeliest one comes."""

from __future__ import annotations

from math import fsum, inf, nan
from typing import Any

from onlinecal.engine.events import is_name
from onlinecal.engine.keys.lanes import Issued
from onlinecal.engine.watch.account import HINTED, UNHINTED, Floats, Ticket, log_cost, settle_bets
from onlinecal.engine.watch.key_watch import KeyWatch, is_share
from onlinecal.forecasters.binary.soundness import require


class ClassWatch(KeyWatch):
    """That of several classes: bets are on whether the likeliest one comes.

    Attributes
    ----------
    labels
        How often each class came: after a forecast without a hint, and with one.
    """

    __slots__ = ("labels",)

    def __init__(self, alpha: float | None) -> None:
        super().__init__(alpha)
        self.labels: dict[str, tuple[int, int]] = {}

    def _is_forecast(self, told: Any) -> bool:
        return isinstance(told, dict) and all(map(is_name, told)) and all(map(is_share, told.values()))

    def _probabilities(self, issued: Issued) -> tuple[float, float]:
        forecast, hint = likeliest(issued.probability)[1], likeliest(issued.hint)[1]
        # without a class that was met there is nothing to bet on
        return forecast, hint if forecast == forecast else nan

    def _settle(self, ticket: Ticket, issued: Issued, outcome: str, number: int) -> None:
        hinted = issued.hint is not None
        account, place = self.account, HINTED if hinted else UNHINTED
        account[place] += 1.0
        counts = self.labels.get(outcome, (0, 0))
        self.labels[outcome] = (counts[0], counts[1] + 1) if hinted else (counts[0] + 1, counts[1])
        add_class_losses(account, place + 3, issued.probability, outcome)
        if hinted:
            add_class_losses(account, place + 5, issued.hint, outcome)
        bets = self._probabilities(issued)
        for whose, told in enumerate((issued.probability, issued.hint)):
            if self.threshold < inf and bets[whose] == bets[whose]:
                came = float(likeliest(told)[0] == outcome)
                asked, threshold = issued.number, self.threshold
                if settle_bets(account, ticket, whose, bets[whose], came, asked, number, threshold):
                    self._raise(whose)

    def _constants(self, mean: float, square: float) -> tuple[float, float]:
        place = bool(self.account[HINTED])
        counts = [both[place] for both in self.labels.values() if both[place]]
        shares = [count / sum(counts) for count in counts]
        return 1.0 - fsum(share * share for share in shares), fsum(
            share * log_cost(share) for share in shares
        )

    def _labels(self) -> dict[str, tuple[int, int]] | None:
        return self.labels

    def _take_labels(self, labels: dict[str, tuple[int, int]] | None) -> None:
        require(labels is not None and all(map(is_name, labels)), "its classes")
        assert labels is not None
        for place, group in enumerate((UNHINTED, HINTED)):
            counts = [one[place] for one in labels.values()]
            require(min(counts, default=0) >= 0 and sum(counts) == self.account[group], "its classes")
        self.labels = labels


def likeliest(told: dict[str, float] | None) -> tuple[str | None, float]:
    """The likeliest class, the first of equals, and its probability; None and NaN if there is none."""
    if not told:
        return None, nan
    label = max(told, key=told.__getitem__)
    return label, told[label]


def add_class_losses(account: Floats, place: int, told: dict[str, float], outcome: str) -> None:
    """Add a round's squared error, over all classes, and its log loss."""
    given = told.get(outcome, 0.0)
    account[place] += max(0.0, fsum(p * p for p in told.values()) - 2.0 * given + 1.0)
    account[place + 1] += log_cost(given)
