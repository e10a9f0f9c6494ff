"""While a single label is known its probability can only be 1.

`settle` counts, and nothing else here is learnt. `StrategyPlan.ask_certain` opens its rounds; it is never the
current strategy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from onlinecal.wrappers.labels import Label
from onlinecal.wrappers.strategies.strategy import Answer, Bounded, Counted, Settings, Strategy
from onlinecal.wrappers.strategies.windows import Recent


class Certain(Strategy):
    """Names the only label with probability 1. Each round that another label follows adds 1 to the distance.

    Summed over all labels it is 2: 1 for the label that was named, and 1 for the one that came.
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
        """The answer itself."""
        return dict.fromkeys(self.asked, 1.0)

    def settle(self, label: Label) -> None:
        """Count a surprise if another label came."""
        for name in self.asked:
            if name != label:
                self._surprises.update((name, label))
                self._recent.note(1)

    def bounded(self) -> Iterable[Bounded]:
        """The number of surprises, and the most that any window had."""
        number = self._surprises.total() / 2
        return (Counted(number, number, self._recent.within(), self._recent.most),)

    def over_labels(self) -> Iterable[Bounded]:
        """Each surprise counts for the label that was named, and for the one that came."""
        return 2 * tuple(self.bounded())

    def by_label(self) -> dict[Label, float]:
        """How often each was named or came in a surprise."""
        return {label: float(number) for label, number in self._surprises.items()}
