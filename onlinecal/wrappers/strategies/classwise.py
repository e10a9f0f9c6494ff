"""The probability of each label, one against the rest.

The probability of the top label.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.steering.replaying import Schedule, Tapes
from onlinecal.wrappers.labels import Label, Labels, completed, completed_rows, spread_top
from onlinecal.wrappers.strategies.projection import Projection, ask_each, give_each, settle_each
from onlinecal.wrappers.strategies.strategy import Answer, Asked, Outlook, Strategy


class Classwise(Strategy):
    """One event for each label; the answer is the distribution nearest to these, towards the hints.

    What is certified are the answers: by how much these are farther from the charged points than the
    forecasts counts, too.
    """

    name = "classwise"
    norm = "a sum over the classes, each one against the rest"
    is_over_labels = True
    _last_round: tuple[Asked, list[Projection]] = ((), [])
    """What it asked about, and the projections of these labels."""
    _named_last: list[Label] | None = None

    def ask(self, answer: Mapping[Label, float], names: list[Label], labels: Labels) -> tuple[Asked, Answer]:
        """Each label's forecast follows its hint."""
        if names is not self._named_last:
            self._named_last = names
            self._last_round = tuple(names), [self.projection(label) for label in names]
        asked, projections = self._last_round
        assert self.steering is not None
        hints = self.steering.ask_in_order(answer, names)
        given = completed(ask_each(projections, hints), hints)
        give_each(projections, given)
        return asked, dict(zip(names, given, strict=True))

    def settle(self, asked: Asked, label: Label, labels: Labels) -> None:
        """Charge the round that is here; a label that it does not name was as good as forecast with 0."""
        last, projections = self._last_round
        if asked is not last:
            projections = [self.projections[name] for name in asked]
        settle_each(projections, [1 if label == name else 0 for name in asked])
        if label not in asked:
            self.projection(label).surprise()
        self.learn(label)

    def replay(self, table: Floats, numbers: Ints, labels: Labels, schedule: Schedule) -> Tapes:
        """Column by column, compiled: labels have nothing to do with each other but in hints and answers."""
        hints = self.replay_hints(table, numbers, labels, schedule)
        tapes = [
            self.projection(label).replay(hints[:, number], numbers == number, schedule, traced=True)
            for number, label in enumerate(labels.known)
        ]
        answers = completed_rows(np.column_stack([each.forecasts for each in tapes]), hints)
        certificates = np.zeros(len(table))
        for label, each, given in zip(labels.known, tapes, answers.T, strict=True):
            certificates += self.projection(label).book(each, given, schedule)
        return Tapes(answers, certificates)

    def by_label(self, labels: Labels) -> dict[Label, float]:
        """The certificate of each label's probabilities."""
        return {label: projection.certificate for label, projection in self.projections.items()}

    def outlook(self, n_labels: int, rounds: int) -> Outlook:
        """A projection for each label; without any each could be forecast as 0."""
        return Outlook(n_labels * self.promise_of_one(rounds), rounds)

    def window_outlook(self, n_labels: int, window: int) -> Outlook | None:
        """The same of any window."""
        return Outlook(n_labels * self.window_promise_of_one(), window)


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
