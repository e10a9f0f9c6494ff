"""The probability of the top label."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.steering.replaying import Schedule, Tapes
from onlinecal.wrappers.labels import Label, Labels, spread_top
from onlinecal.wrappers.strategies.projection import Projection
from onlinecal.wrappers.strategies.strategy import Answer, Asked, Strategy


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

    def projection(self, label: Label | None) -> Projection:
        """One for all labels."""
        return self.projections.get(None) or super().projection(None)

    def ask(self, answer: Mapping[Label, float], names: list[Label], labels: Labels) -> tuple[Asked, Answer]:
        """The others share what the top label leaves; a model that says nothing counts as undecided."""
        hints = self.hints(answer, names)
        masses = {label: hints.get(label, 0.0) for label in names} if hints else dict.fromkeys(names, 1.0)
        best = max(masses, key=masses.__getitem__)
        raw = masses[best] if hints else 1.0 / len(names)
        projection = self.projection(best)
        given = max(projection.ask(raw), least_on_top(len(names)))
        projection.give(given)
        return (best,), spread_top(masses, best, given)

    def replay(self, table: Floats, numbers: Ints, labels: Labels, schedule: Schedule) -> Tapes:
        """One column, compiled: the greatest hints, and whether their labels came."""
        hints = self.replay_hints(table, numbers, labels, schedule)
        tops, projection = hints.argmax(axis=1), self.projection(None)
        tapes = projection.replay(hints.max(axis=1), tops == numbers, schedule, traced=True)
        given = np.maximum(tapes.forecasts, least_on_top(table.shape[1]))
        answers = np.empty_like(table)
        for row, (masses, best, p) in enumerate(
            zip(hints.tolist(), tops.tolist(), given.tolist(), strict=True)
        ):
            said = spread_top(dict(enumerate(masses)), best, p)
            answers[row] = [said[label] for label in range(len(masses))]
        return Tapes(answers, projection.book(tapes, given, schedule))


def least_on_top(n_labels: int) -> float:
    """So much that every other label can have less."""
    return min((1.0 + 1e-9) / n_labels, 1.0)
