"""The probability of each label, one against the rest."""

from __future__ import annotations

from collections.abc import Mapping

from onlinecal.wrappers.labels import Label, Labels, normalised
from onlinecal.wrappers.strategies.strategy import Answer, Asked, Outlook, Strategy


class Classwise(Strategy):
    """One event for each label; the answer is their forecasts divided by their sum."""

    name = "classwise"

    def ask(self, answer: Mapping[Label, float], names: list[Label], labels: Labels) -> tuple[Asked, Answer]:
        """Each label's forecast follows the model's probability of it."""
        # for ten labels a call more for each is a tenth of a round
        found, new, mass = self.projections.get, self.projection, answer.get
        return tuple(names), normalised({k: (found(k) or new(k)).ask(mass(k, 0.0)) for k in names})

    def settle(self, asked: Asked, label: Label, labels: Labels) -> None:
        """Charge the round that is here; a label that it does not name was as good as forecast with 0."""
        projections = self.projections
        for name in asked:
            projections[name].settle(int(label == name))
        if label not in asked:
            self.projection(label).surprise()

    def outlook(self, n_labels: int, rounds: int) -> Outlook:
        """A projection for each label; without any each could be forecast as 0."""
        return Outlook(n_labels * self.promise_of_one(rounds), rounds)
