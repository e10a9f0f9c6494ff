"""The probability of each label, one against the rest."""

from __future__ import annotations

from collections.abc import Mapping

from onlinecal.steering.replaying import Schedule, Tapes
from onlinecal.wrappers.labels import Label, Labels, normalised, normalised_rows
from onlinecal.wrappers.strategies.strategy import Answer, Asked, Floats, Ints, Outlook, Strategy


class Classwise(Strategy):
    """One event for each label; the answer is their forecasts divided by their sum."""

    name = "classwise"

    def ask(self, answer: Mapping[Label, float], names: list[Label], labels: Labels) -> tuple[Asked, Answer]:
        """Each label's forecast follows the model's probability of it."""
        return tuple(names), normalised({k: self.projection(k).ask(answer.get(k, 0.0)) for k in names})

    def settle(self, asked: Asked, label: Label, labels: Labels) -> None:
        """Charge the round that is here; a label that it does not name was as good as forecast with 0."""
        super().settle(asked, label, labels)
        if label not in asked:
            self.projection(label).surprise()

    def replay(self, table: Floats, numbers: Ints, labels: Labels, schedule: Schedule) -> Tapes:
        """Column by column, compiled: labels have nothing to do with each other before answers are made."""
        forecasts, certificates = self.replay_columns(table, numbers, labels, schedule)
        return Tapes(normalised_rows(forecasts), certificates)

    def outlook(self, n_labels: int, rounds: int) -> Outlook:
        """A projection for each label; without any each could be forecast as 0."""
        return Outlook(n_labels * self.promise_of_one(rounds), rounds)
