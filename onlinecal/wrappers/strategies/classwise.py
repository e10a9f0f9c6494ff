"""The probability of each label, one against the rest."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.steering.replaying import Schedule, Tapes
from onlinecal.wrappers.labels import Label, Labels, completed, completed_rows
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
