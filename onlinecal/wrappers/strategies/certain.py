"""Rounds that no table is charged for: a single label is known, whose probability can only be 1, or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onlinecal.wrappers.labels import Label, Labels
from onlinecal.wrappers.strategies.moments import Moments, Surprises
from onlinecal.wrappers.strategies.strategy import Answer, Asked, Bounded, Strategy, Waiting, Windowed


class Certain(Strategy):
    """Says what goes without saying. Each round that another label follows adds 1 to the distance."""

    name = "certain"
    fewest = 0

    _moments: Moments | None = None

    def __init__(self, moments: Moments | None = None) -> None:
        super().__init__(1.0, 1, None)
        self.surprises = 0
        self._moments, self._recent = moments, Surprises()

    def ask(self, answer: Mapping[Label, float], names: list[Label], labels: Labels) -> tuple[Asked, Answer]:
        """The only label, or nothing."""
        return tuple(names), dict.fromkeys(names, 1.0)

    def forecasts(self, asked: Asked, labels: Labels) -> Answer:
        """The same."""
        return dict.fromkeys(asked, 1.0)

    def settle(self, asked: Asked, label: Label, labels: Labels) -> None:
        """Count a surprise."""
        surprised = sum(label != name for name in asked)
        self.surprises += surprised
        if self._moments is not None and surprised:
            self._recent.note(self._moments)

    def take(self, asked: Asked) -> Waiting:
        """There are no tickets."""
        return Waiting(self.name, asked, {})

    def bounded(self) -> Iterable[Bounded]:
        """The surprises."""
        return (self,)

    @property
    def certificate(self) -> float:
        """The number of surprises."""
        return self.surprises

    @property
    def guarantee(self) -> float:
        """The same."""
        return self.surprises

    def windowed(self) -> Iterable[Windowed]:
        """The surprises."""
        return (self,)

    @property
    def window_certificate(self) -> float:
        """The number of surprises in the window."""
        return 0.0 if self._moments is None else self._recent.within(self._moments)

    @property
    def window_guarantee(self) -> float:
        """The number of all."""
        return self.surprises
