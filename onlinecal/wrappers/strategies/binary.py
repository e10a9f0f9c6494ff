"""One event: that the label is the positive one of two. And what is said while a single label is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.elementary import in_turn
from onlinecal.steering.replaying import Schedule, Tapes
from onlinecal.wrappers.labels import Label, over
from onlinecal.wrappers.strategies.projection import Projection
from onlinecal.wrappers.strategies.strategy import Answer, Bounded, Counted, Settings, Strategy
from onlinecal.wrappers.strategies.windows import Recent


class Binary(Strategy):
    """One event: that the label is the positive one.

    While that is not known a label of the answer is forecast. Each label that is forecast has a projection of
    its own.

    As a sum over all labels its distance is that of the positive label, twice, and what happened beside the
    two: a round that a third label settled, or one with other labels in the answer than the two. One of the
    first kind was wrong about the negative label and about the third, by 1 each. One of the second kind may
    be taken out of the table, and counts as 2 for each label then.
    """

    name = "binary"
    norm = "of the positive class's probability"
    steers = True
    steers_vectors = False
    fewest = 2

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._strangers: Counter[Label] = Counter()
        self._strange_answers: Counter[tuple[Label, ...]] = Counter()

    def names(self, answer: Mapping[Label, float]) -> list[Label]:
        """False and True while no label has come."""
        return list(self.labels.names(answer))

    def ask(self, answer: Mapping[Label, float], names: list[Label]) -> Answer:
        """The labels but the one that is forecast share what it leaves."""
        event = self.labels.event(names)
        projection = self.projection(event)
        self.asked = () if self.labels.pair is not None else tuple(names)
        self.events = {event: projection}
        return over(names, event, projection.ask(self.labels.probability(event, answer)))

    def settle(self, label: Label) -> None:
        """Charge the event, and note what was beside the two labels.

        While labels are being discovered one may come that the answer did not name. Such a round counts in
        full, and no table is charged for it: whoever looks at the probability of that label in all answers
        finds 0 in this one.
        """
        ((event, projection),) = self.events.items()
        if self.asked and label not in self.asked:
            projection.surprise()
        else:
            projection.settle(int(label == event))
        if self.asked:
            self._strange_answers[self.asked] += 1
        if self.labels.pair is not None and label not in self.labels.pair:
            self._strangers[label] += 1
        self.rest()

    def rest(self) -> Projection | None:
        """Once there are two labels every round is of the same event: what forecasts it, else None."""
        self.asked = ()
        if self.labels.pair is None:
            return None
        positive = self.labels.pair[1]
        self.events = {positive: self.projection(positive)}
        return self.events[positive]

    def learn_alone(self, answer: Mapping[Label, float], names: list[Label], label: Label) -> None:
        """The projection steers by itself."""
        event = self.labels.event(names)
        self.projection(event).learn_alone(self.labels.probability(event, answer), int(label == event))

    def replay(self, table: Floats, numbers: Ints, schedule: Schedule) -> Tapes:
        """Of two labels: that of the second one, compiled."""
        projection = self.rest()
        assert projection is not None
        tapes = projection.replay(table[:, 1], numbers == 1, schedule)
        return Tapes(np.column_stack([1.0 - tapes.forecasts, tapes.forecasts]), tapes.certificates)

    def over_labels(self) -> Iterable[Bounded]:
        """The projection for each label of the pair, and what happened beside these."""
        beside = self._beside().total()
        return [*2 * tuple(self.bounded()), Counted(beside, beside, beside, beside)]

    def by_label(self) -> dict[Label, float]:
        """The projection's certificate for both labels of the pair, and what happened beside these."""
        found: dict[Label, float] = dict(self._beside())
        for label in self.labels.pair or ():
            own = in_turn(projection.certificate for projection in self.projections.values())
            found[label] = found.get(label, 0) + own
        return found

    def _beside(self) -> Counter[Label]:
        """What rounds beside the two labels cost, by label."""
        found: Counter[Label] = Counter()
        if self.labels.pair is not None:
            found[self.labels.pair[0]] = self._strangers.total()
            found.update(self._strangers)
            for names, number in self._strange_answers.items():
                if {*names} != {*self.labels.pair}:
                    found.update(dict.fromkeys((*self.labels.pair, *names), 2 * number))
        return found


class Certain(Strategy):
    """Says what goes without saying. Each round that another label follows adds 1 to the distance.

    Of all labels together that is 2: one for the label that was named, one for that which came.
    """

    name = "certain"
    norm = "of the probability of the only class"
    steers_vectors = False
    fewest = 0

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._surprises: Counter[Label] = Counter()
        self._recent = Recent(settings.moments)

    def ask(self, answer: Mapping[Label, float], names: list[Label]) -> Answer:
        """The only label, or nothing."""
        self.asked = tuple(names)
        return self.forecasts()

    def forecasts(self) -> Answer:
        """The same."""
        return dict.fromkeys(self.asked, 1.0)

    def settle(self, label: Label) -> None:
        """Count a surprise."""
        for name in self.asked:
            if name != label:
                self._surprises.update((name, label))
                self._recent.note(1)

    def bounded(self) -> Iterable[Bounded]:
        """The surprises: all of them, and the most that any window had."""
        number = self._surprises.total() / 2
        return (Counted(number, number, self._recent.within(), self._recent.most),)

    def over_labels(self) -> Iterable[Bounded]:
        """Once for the label that was named, once for that which came."""
        return 2 * tuple(self.bounded())

    def by_label(self) -> dict[Label, float]:
        """How often each was named or came in a surprise."""
        return {label: float(number) for label, number in self._surprises.items()}
