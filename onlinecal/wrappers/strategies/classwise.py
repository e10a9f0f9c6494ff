"""The probability of each label, one against the rest."""

from __future__ import annotations

from collections.abc import Mapping

from onlinecal.wrappers.labels import Label, Labels, completed, normalised
from onlinecal.wrappers.strategies.strategy import Answer, Asked, Strategy


class Classwise(Strategy):
    """One event for each label; the answer is their forecasts divided by their sum."""

    name = "classwise"

    def ask(self, answer: Mapping[Label, float], names: list[Label], labels: Labels) -> tuple[Asked, Answer]:
        """Each label's forecast follows its hint."""
        hints = self.hints(answer, names)
        forecasts = {k: self.projection(k).ask(hints.get(k, 0.0)) for k in names}
        if self.steering is None:
            return tuple(names), normalised(forecasts)
        return tuple(names), completed(forecasts, hints)

    def settle(self, asked: Asked, label: Label, labels: Labels) -> None:
        """Charge the round that is here; a label that it does not name was as good as forecast with 0."""
        super().settle(asked, label, labels)
        if label not in asked:
            self.projection(label).surprise()
