"""While a single label is known its probability can only be 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from onlinecal.wrappers.labels import Label
from onlinecal.wrappers.strategies.strategy import Answer, Bounded, Counted, Settings, Strategy
from onlinecal.wrappers.strategies.windows import Recent


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

    def _answer(self, answer: Mapping[Label, float], names: list[Label]) -> Answer:
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
