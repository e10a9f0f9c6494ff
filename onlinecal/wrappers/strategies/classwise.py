"""The probability of each label, one against the rest."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onlinecal.steering.replaying import Schedule, Tapes
from onlinecal.wrappers.labels import Label, Labels, completed, completed_rows, normalised, normalised_rows
from onlinecal.wrappers.strategies.projection import Projection
from onlinecal.wrappers.strategies.strategy import Answer, Asked, Floats, Ints, Outlook, Strategy


class Classwise(Strategy):
    """One event for each label; the answer is the distribution nearest to these, towards the hints."""

    name = "classwise"
    _pairs: tuple[list[Label], list[tuple[Label, Projection]]] = ([], [])
    """The labels of the last round, and each with its projection."""

    def ask(self, answer: Mapping[Label, float], names: list[Label], labels: Labels) -> tuple[Asked, Answer]:
        """Each label's forecast follows its hint."""
        hints = self.hints(answer, names)
        if names is not self._pairs[0]:
            self._pairs = names, [(label, self.projection(label)) for label in names]
        hint = hints.get
        # for ten labels a call more for each is a tenth of a round
        forecasts = {label: projection.ask(hint(label, 0.0)) for label, projection in self._pairs[1]}
        if self.steering is None:
            return tuple(names), normalised(forecasts)
        return tuple(names), completed(forecasts, hints)

    def settle(self, asked: Asked, label: Label, labels: Labels) -> None:
        """Charge the round that is here; a label that it does not name was as good as forecast with 0."""
        projections = self.projections
        for name in asked:
            projections[name].settle(1 if label == name else 0)
        if label not in asked:
            self.projection(label).surprise()
        self.learn(label)

    def replay(self, table: Floats, numbers: Ints, labels: Labels, schedule: Schedule) -> Tapes:
        """Column by column, compiled: labels have nothing to do with each other but in hints and answers."""
        hints = self.replay_hints(table, numbers, labels, schedule)
        forecasts, certificates = np.empty_like(table), np.zeros(len(table))
        for number, label in enumerate(labels.known):
            tapes = self.projection(label).replay(hints[:, number], numbers == number, schedule)
            forecasts[:, number] = tapes.forecasts
            certificates += tapes.certificates
        complete = normalised_rows(forecasts) if self.steering is None else completed_rows(forecasts, hints)
        return Tapes(complete, certificates)

    def outlook(self, n_labels: int, rounds: int) -> Outlook:
        """A projection for each label; without any each could be forecast as 0."""
        return Outlook(n_labels * self.promise_of_one(rounds), rounds)

    def window_outlook(self, n_labels: int, window: int) -> Outlook | None:
        """The same of any window."""
        return Outlook(n_labels * self.window_promise_of_one(), window)
