"""Rounds that no table is charged for: a single label is known, whose probability can only be 1, or none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from onlinecal.wrappers.labels import Label, Labels
from onlinecal.wrappers.strategies.moments import Moments, Recent
from onlinecal.wrappers.strategies.strategy import Answer, Asked, Bounded, Strategy, Waiting


class Certain(Strategy):
    """Says what goes without saying. Each round that another label follows adds 1 to the distance.

    Of all labels together that is 2: one for the label that was named, one for that which came.
    """

    name = "certain"
    norm = "of the probability of the only class"
    fewest = 0

    _moments: Moments | None = None

    def __init__(self, moments: Moments | None = None) -> None:
        super().__init__(1.0, 1, None)
        self._surprises: Counter[Label] = Counter()
        self._moments, self._recent = moments, Recent()

    def ask(self, answer: Mapping[Label, float], names: list[Label], labels: Labels) -> tuple[Asked, Answer]:
        """The only label, or nothing."""
        return tuple(names), dict.fromkeys(names, 1.0)

    def forecasts(self, asked: Asked, labels: Labels) -> Answer:
        """The same."""
        return dict.fromkeys(asked, 1.0)

    def settle(self, asked: Asked, label: Label, labels: Labels) -> None:
        """Count a surprise."""
        for name in asked:
            if name != label:
                self._surprises.update((name, label))
                if self._moments is not None:
                    self._recent.note(self._moments, 1)

    def take(self, asked: Asked) -> Waiting:
        """There are no tickets."""
        return Waiting(self.name, asked, {})

    def bounded(self) -> Iterable[Bounded]:
        """The surprises."""
        return (self,)

    def over_labels(self, labels: Labels) -> Iterable[Bounded]:
        """Once for the label that was named, once for that which came."""
        return (self, self)

    def by_label(self, labels: Labels) -> dict[Label, float]:
        """How often each was named or came in a surprise."""
        return {label: float(number) for label, number in self._surprises.items()}

    @property
    def certificate(self) -> float:
        """The number of surprises."""
        return self._surprises.total() / 2

    @property
    def guarantee(self) -> float:
        """The same."""
        return self.certificate

    @property
    def window_certificate(self) -> float:
        """The number of surprises in the window."""
        return 0.0 if self._moments is None else self._recent.within(self._moments)

    @property
    def window_guarantee(self) -> float:
        """The most that any window had."""
        return self._recent.most
