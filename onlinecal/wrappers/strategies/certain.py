"""Rounds that no table is charged for: a single label is known, whose probability can only be 1, or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onlinecal.wrappers.labels import Label, Labels
from onlinecal.wrappers.strategies.strategy import Answer, Asked, Bounded, Strategy, Waiting


class Certain(Strategy):
    """Says what goes without saying. Each round that another label follows adds 1 to the distance."""

    name = "certain"
    fewest = 0

    def __init__(self) -> None:
        super().__init__(1.0, 1, None)
        self.surprises = 0

    def ask(self, answer: Mapping[Label, float], names: list[Label], labels: Labels) -> tuple[Asked, Answer]:
        """The only label, or nothing."""
        return tuple(names), dict.fromkeys(names, 1.0)

    def forecasts(self, asked: Asked, labels: Labels) -> Answer:
        """The same."""
        return dict.fromkeys(asked, 1.0)

    def settle(self, asked: Asked, label: Label, labels: Labels) -> None:
        """Count a surprise."""
        self.surprises += sum(label != name for name in asked)

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
