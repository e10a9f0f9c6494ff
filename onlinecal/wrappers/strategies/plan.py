"""Which strategy forecasts each round of a stream, and what all that have played are bounded by.

`strategies` is in the order of KINDS, in which bounds are added up. Rounds that wait name their strategy, so
a strategy stays as long as there may be such rounds. Once a strategy has played whose
distance is a sum over all labels, `parts` has the bounds of all strategies as such sums, for good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from onlinecal.wrappers.labels import Label
from onlinecal.wrappers.strategies.certain import Certain
from onlinecal.wrappers.strategies.choice import KINDS, StrategyName, chosen, warn_if_empty
from onlinecal.wrappers.strategies.classwise import Classwise
from onlinecal.wrappers.strategies.strategy import Answer, Bounded, Settings, Strategy, WaitingRound


class StrategyPlan:
    """The strategies of one wrapper: as labels appear, another one may take over.

    A round belongs to the strategy that forecast it, also if it is settled later.

    `current` is the strategy that will be asked next. `note_labels` writes it, which the wrapper calls when a
    label was met for the first time. `here` is the strategy whose round is settled next. The wrapper sets it
    to `current` when it asks, `ask_certain` and `present` set it to another one. `strategies` keeps all that
    have played, since their bounds add up; only where labels are declared there is one alone from the start.
    """

    def __init__(self, settings: Settings, strategy: StrategyName) -> None:
        self._settings, self._strategy = settings, strategy
        self.strategies: dict[str, Strategy] = {name: kind(settings) for name, kind in KINDS.items()}
        """By name: those that can still be needed."""
        self._by_guarantee = settings.horizon is not None or settings.moments is not None
        """Whether "auto" goes by what strategies guarantee."""
        self._is_over_labels = False
        """Whether certificates are sums over all labels, since one strategy's was."""
        self.note_labels()
        if settings.labels.declared:
            self.strategies = {self.current.name: self.current}
        self.here: Strategy = self.current
        """Who forecast the round that is here."""

    def note_labels(self) -> None:
        """Take notice of the labels that are known by now; say so if nothing is guaranteed of them."""
        labels, _, _, horizon, moments, _ = self._settings
        window = None if moments is None else moments.window
        if not self._by_guarantee:
            horizon, window = None, None
        number = len(labels.known)
        name = chosen(self._strategy, number, self.strategies.__getitem__, window, horizon)
        self.current = self.strategies[name]
        self.current.note_labels()
        self._is_over_labels |= self.current.is_over_labels
        if self._by_guarantee:
            self._by_guarantee = not warn_if_empty(self.current, number, self._settings.horizon)

    def ask_certain(self, answer: Mapping[Label, float]) -> Answer:
        """Open a round over fewer labels than the current strategy needs: what to say."""
        named = self._settings.labels.named(answer)
        self.here = self.strategies[Certain.name]
        return self.here._answer(named, self.current.names(named))

    def present(self, waiting: WaitingRound) -> None:
        """Put a round back in its place, to be settled next."""
        self.here = self.strategies[waiting.kind]
        self.here.present(waiting)

    def give_up(self, waiting: WaitingRound) -> None:
        """A round that waited will never be settled."""
        self.strategies[waiting.kind].give_up(waiting)

    def note_late(self, others: int) -> None:
        """Take into the guarantees that so many other forecasts were open at once."""
        for strategy in self.strategies.values():
            strategy.note_late(others)

    def parts(self) -> list[Bounded]:
        """Whose bounds add up to those of all rounds."""
        return [
            part
            for strategy in self.strategies.values()
            for part in (strategy.over_labels() if self._is_over_labels else strategy.bounded())
        ]

    def certificates(self) -> dict[Label, float]:
        """The certificate of each label's probabilities, once "classwise" plays; empty before."""
        sums: Counter[Label] = Counter()
        classwise = self.strategies.get(Classwise.name)
        if classwise is not None and (classwise is self.current or classwise.projections):
            for strategy in self.strategies.values():
                sums.update(strategy.by_label())
        return dict(sums)
