"""One event: that the label is the most probable one, whichever that is.

There is one projection, whatever the label. `asked` and `events` say which label the open round is about.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.steering.replaying import Schedule, Tapes
from onlinecal.wrappers.labels import Label, spread_top
from onlinecal.wrappers.strategies.strategy import Answer, Strategy

LEAST_ON_TOP = 1.0 + 1e-9
"""The least probability of the top one of k >= 2 labels, times k: every other label can have less.

It is part of answers."""


class TopLabel(Strategy):
    """One event: that the label is the one with the greatest hint, whichever that is.

    That label is also the one with the greatest probability of the answer: it is given a little more than
    1/k at least, of k labels, and all others less than it has. Being the greatest, its hint may be off where
    those of single labels are not: it is steered once more.
    """

    name = "top-label"
    norm = "of the probability of the class on top"
    steers = True
    fewest = 2

    def _answer(self, answer: Mapping[Label, float], names: list[Label]) -> Answer:
        """The others share what the top label leaves."""
        hints = self.steering.ask(answer, names)
        masses = {label: hints[label] for label in names}
        best = max(masses, key=masses.__getitem__)
        projection = self.projection(None)
        given = max(projection.ask(masses[best]), LEAST_ON_TOP / len(names))
        projection.give(given)
        self.asked, self.events = (best,), {None: projection}
        return spread_top(masses, best, given)

    def forecasts(self) -> Answer:
        """That of the top label."""
        return {self.asked[0]: self.projection(None).given}

    def settle(self, label: Label) -> None:
        """Charge whether it was the top label."""
        self.projection(None).settle(int(label == self.asked[0]))
        self.steering.learn(label)

    def replay(self, table: Floats, numbers: Ints, schedule: Schedule) -> Tapes:
        """One column, compiled: the greatest hints, and whether their labels came."""
        hints = self.steering.replay(table, numbers, list(self.labels.known), schedule)
        tops, projection, k = hints.argmax(axis=1), self.projection(None), table.shape[1]
        tapes = projection.replay(hints.max(axis=1), tops == numbers, schedule, traced=True)
        given = np.maximum(tapes.forecasts, LEAST_ON_TOP / k)
        answers = np.empty_like(table)
        for row, (masses, best) in enumerate(zip(hints.tolist(), tops.tolist(), strict=True)):
            said = spread_top(dict(enumerate(masses)), best, float(given[row]))
            answers[row] = [said[label] for label in range(k)]
        return Tapes(answers, projection.book(tapes, given, schedule))
