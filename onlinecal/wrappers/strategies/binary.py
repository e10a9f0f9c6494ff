"""The probability of the positive label; any other label counts as the other outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.elementary import in_turn
from onlinecal.steering.replaying import Schedule, Tapes
from onlinecal.wrappers.labels import Label, Labels
from onlinecal.wrappers.strategies.buckets import Buckets
from onlinecal.wrappers.strategies.moments import Moments
from onlinecal.wrappers.strategies.projection import Projection
from onlinecal.wrappers.strategies.strategy import Answer, Asked, Bounded, Strategy, Waiting


class Binary(Strategy):
    """One event: that the label is the positive one, or the first one seen.

    As a sum over all labels its distance is that of the positive label, twice, and what happened beside the
    two: a round that a third label settled, or one with other labels in the answer than the two. One of the
    first kind was wrong about the negative label and about the third, by 1 each. One of the second kind may
    be taken out of the table, and counts as 2 for each label then.
    """

    name = "binary"
    norm = "of the positive class's probability"
    steers = True
    fewest = 2

    def names(self, answer: Mapping[Label, float], labels: Labels) -> list[Label]:
        """False and True while no label has come."""
        return list(labels.both(answer, 0.5))

    def __init__(
        self, slack: float | None, n_buckets: Buckets, horizon: int | None, moments: Moments | None = None
    ) -> None:
        super().__init__(slack, n_buckets, horizon, moments)
        self._strangers: Counter[Label] = Counter()
        self._strange_answers: Counter[frozenset[Label]] = Counter()

    def ask(self, answer: Mapping[Label, float], names: list[Label], labels: Labels) -> tuple[Asked, Answer]:
        """The labels but the positive one share what it leaves."""
        asked: Asked = (None,) if labels.pair is not None else (None, *names)
        return asked, labels.both(answer, self.projection(None).ask(labels.read(answer)))

    def take(self, asked: Asked) -> Waiting:
        """The open round with its one ticket."""
        return super().take(asked[:1])._replace(asked=asked)

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
        if len(asked) > 1:
            self._strange_answers[frozenset(asked[1:])] += 1
        if labels.pair is not None and label not in labels.pair:
            self._strangers[label] += 1

    def learn_alone(
        self, answer: Mapping[Label, float], names: list[Label], label: Label, labels: Labels
    ) -> None:
        """The projection steers by itself."""
        self.projection(None).learn_alone(labels.read(answer), int(label == labels.positive))

    def replay(self, table: Floats, numbers: Ints, labels: Labels, schedule: Schedule) -> Tapes:
        """Of two labels: that of the second one, compiled."""
        if labels.pair is None:
            return super().replay(table, numbers, labels, schedule)
        tapes = self.projection(None).replay(table[:, 1], numbers == 1, schedule)
        return Tapes(np.column_stack([1.0 - tapes.forecasts, tapes.forecasts]), tapes.certificates)

    def over_labels(self, labels: Labels) -> Iterable[Bounded]:
        """The projection for each label of the pair, and what happened beside these."""
        projections = list(self.projections.values())
        return [*projections, *projections, Beside(sum(self._beside(labels).values()))]

    def by_label(self, labels: Labels) -> dict[Label, float]:
        """The projection's certificate for both labels of the pair, and what happened beside these."""
        found: dict[Label, float] = dict(self._beside(labels))
        for label in labels.pair or ():
            own = in_turn(projection.certificate for projection in self.projections.values())
            found[label] = found.get(label, 0) + own
        return found

    def _beside(self, labels: Labels) -> Counter[Label]:
        """What rounds beside the two labels cost, by label."""
        found: Counter[Label] = Counter()
        if labels.pair is None:
            return found
        negative, _ = labels.pair
        found[negative] = self._strangers.total()
        found.update(self._strangers)
        for names, number in self._strange_answers.items():
            if names != set(labels.pair):
                found.update(dict.fromkeys(names.union(labels.pair), 2 * number))
        return found


class Beside(NamedTuple):
    """Distance that no table is charged for, of which windows count all."""

    certificate: float

    @property
    def guarantee(self) -> float:
        """The same."""
        return self.certificate

    @property
    def window_certificate(self) -> float:
        """The same."""
        return self.certificate

    @property
    def window_guarantee(self) -> float:
        """The same."""
        return self.certificate
