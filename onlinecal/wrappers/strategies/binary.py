"""The probability of the positive label; any other label counts as the other outcome."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.steering.replaying import Schedule, Tapes
from onlinecal.wrappers.labels import Label, Labels
from onlinecal.wrappers.strategies.projection import Projection
from onlinecal.wrappers.strategies.strategy import Answer, Asked, Strategy


class Binary(Strategy):
    """One event: that the label is the positive one, or the first one seen."""

    name = "binary"
    steers = True
    fewest = 2

    def names(self, answer: Mapping[Label, float], labels: Labels) -> list[Label]:
        """False and True while no label has come."""
        return list(labels.both(answer, 0.5))

    def ask(self, answer: Mapping[Label, float], names: list[Label], labels: Labels) -> tuple[Asked, Answer]:
        """The labels but the positive one share what it leaves."""
        return (None,), labels.both(answer, self.projection(None).ask(labels.read(answer)))

    def sole(self, labels: Labels) -> Projection | None:
        """There is one as soon as both labels are known."""
        return None if labels.pair is None else self.projection(None)

    def forecasts(self, asked: Asked, labels: Labels) -> Answer:
        """That of the positive label, True while none has come."""
        positive = True if labels.positive is None else labels.positive
        return {positive: self.projection(None).ticket().probability}

    def settle(self, asked: Asked, label: Label, labels: Labels) -> None:
        """Charge the round that is here with its label."""
        self.projection(None).settle(int(label == labels.positive))

    def learn_alone(
        self, answer: Mapping[Label, float], names: list[Label], label: Label, labels: Labels
    ) -> None:
        """The projection steers by itself."""
        self.projection(None).learn_alone(labels.read(answer), int(label == labels.positive))

    def replay(self, table: Floats, numbers: Ints, labels: Labels, schedule: Schedule) -> Tapes:
        """Of two labels: that of the second one, compiled."""
        if labels.pair is None:
            return super().replay(table, numbers, labels, schedule)
        p, certificates = self.projection(None).replay(table[:, 1], numbers == 1, schedule)
        return Tapes(np.column_stack([1.0 - p, p]), certificates)
