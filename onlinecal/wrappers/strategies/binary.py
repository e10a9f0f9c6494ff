"""Two labels: whether the positive one comes is the one event that is forecast.

`settle` writes the projection and the two counters, which only grow; certificates by label are made of both.
Once `labels.pair` is known, `events` has the positive label alone. A round that was asked before brings its
own event back (`present`), until it is settled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.elementary import in_turn
from onlinecal.steering.replaying import Schedule, Tapes
from onlinecal.wrappers.labels import Label, over
from onlinecal.wrappers.strategies.strategy import Answer, Bounded, Counted, Settings, Strategy


class Binary(Strategy):
    """One event: that the label is the positive one.

    While the positive label is not known, a label of the answer is forecast. Each label that is forecast has
    a projection of its own.

    The sum of the distances of all labels is twice that of the positive label, plus those of two kinds of
    rounds. A round that a third label settled was wrong about the negative label and about the third, by 1
    each. A round whose answer named other labels than the two counts as 2 for each label: it may then be
    taken out of the table.
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

    def ask(self, answer: Mapping[Label, float]) -> Answer | None:
        """Forecast the positive label; while labels are being discovered, see `_answer`."""
        pair = self.labels.direct_pair
        if pair is None:
            return super().ask(answer)
        negative, positive = pair
        p = self.events[positive].ask(answer[positive] if positive in answer else self.labels.read(answer))
        return {negative: 1.0 - p, positive: p}

    def _answer(self, answer: Mapping[Label, float], names: list[Label]) -> Answer:
        """Forecast one label; the others share the rest."""
        event = self.labels.event(names)
        projection = self.projection(event)
        self.asked = () if self.labels.pair is not None else tuple(names)
        self.events = {event: projection}
        return over(names, event, projection.ask(self.labels.probability(event, answer)))

    def settle(self, label: Label) -> None:
        """Charge the event, and note what was beside the two labels.

        While labels are being discovered, one may come that the answer did not name. Its probability was 0,
        so the round counts in full, and no table is charged for it.
        """
        labels, pair = self.labels, self.labels.pair
        if self.asked:
            ((event, projection),) = self.events.items()
            if label in self.asked:
                projection.settle(int(label == event))
            else:
                projection.surprise()
            self._strange_answers[self.asked] += 1
            if pair is not None:
                self._fix_event(pair[1])
        elif pair is not None:
            self.events[pair[1]].settle(labels.known[label])
        if pair is not None and label not in pair:
            self._strangers[label] += 1

    def note_labels(self) -> None:
        """Once there are two labels every round is of the same event."""
        if self.labels.direct_pair is not None:
            self._fix_event(self.labels.positive)

    def _fix_event(self, positive: Label) -> None:
        self.asked, self.events = (), {positive: self.projection(positive)}

    def _learn_alone(self, answer: Mapping[Label, float], names: list[Label], label: Label) -> None:
        """The projection steers by itself."""
        event = self.labels.event(names)
        self.projection(event).learn_alone(self.labels.probability(event, answer), int(label == event))

    def replay(self, table: Floats, numbers: Ints, schedule: Schedule) -> Tapes:
        """Of two labels: that of the second one, compiled."""
        tapes = self.projection(self.labels.positive).replay(table[:, 1], numbers == 1, schedule)
        return Tapes(np.column_stack([1.0 - tapes.forecasts, tapes.forecasts]), tapes.certificates)

    def over_labels(self) -> Iterable[Bounded]:
        """The projection for each label of the pair, and what happened beside these."""
        beside = self._beside().total()
        return [*2 * tuple(self.bounded()), Counted(beside, beside, beside, beside)]

    def by_label(self) -> dict[Label, float]:
        """The projection's certificate for both labels of the pair, and what happened beside these."""
        sums: dict[Label, float] = dict(self._beside())
        for label in self.labels.pair or ():
            own = in_turn(projection.certificate for projection in self.projections.values())
            sums[label] = sums.get(label, 0) + own
        return sums

    def _beside(self) -> Counter[Label]:
        """What rounds beside the two labels cost, by label."""
        costs: Counter[Label] = Counter()
        if self.labels.pair is not None:
            costs[self.labels.pair[0]] = self._strangers.total()
            costs.update(self._strangers)
            for names, number in self._strange_answers.items():
                if {*names} != {*self.labels.pair}:
                    costs.update(dict.fromkeys((*self.labels.pair, *names), 2 * number))
        return costs
