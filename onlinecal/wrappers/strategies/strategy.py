"""What a strategy is: which events of a round it forecasts, and how their forecasts become an answer.

A wrapper reaches strategies by way of its `StrategyPlan`; `recalibrate_stream` has one for each group, which
it has replay all rows. A `WaitingRound` has all that settling needs, under the name of its strategy, and is
in pickles of wrappers. `Settings` never change, but what they refer to does: the wrapper writes `labels` and
`moments.now`, strategies write the shared `steering`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.elementary import in_turn
from onlinecal.forecasters import SimplexAlmostOneStepAhead, SimplexForecast
from onlinecal.forecasters.rules import SLACK_ON_FIXED_GRIDS
from onlinecal.forecasters.simplex.input import plain
from onlinecal.steering.replaying import Schedule, Tapes
from onlinecal.wrappers.labels import Label, Labels
from onlinecal.wrappers.strategies.projection import Projection, Ticket
from onlinecal.wrappers.strategies.vectors import SteeredVectors
from onlinecal.wrappers.strategies.windows import WindowMoments

Answer = dict[Label, float]


class WaitingRound(NamedTuple):
    """A round that waits for its label: its strategy's name, the labels it names, the events' tickets."""

    kind: str
    asked: tuple[Label, ...]
    tickets: dict[Hashable, Ticket]
    steered: Floats | None
    """The ticket of the steering of vectors."""
    joint: SimplexForecast | None = None
    """The forecast of all labels together."""


class Counted(NamedTuple):
    """Distance that no table is charged for. It is counted as it happens: both bounds are the count."""

    certificate: float
    guarantee: float
    window_certificate: float
    window_guarantee: float


Bounded = Projection | Counted | SimplexAlmostOneStepAhead
"""A part of a wrapper whose distance to calibration is bounded, by sums over its rounds.

`certificate` bounds it after the rounds, `guarantee` before them. `window_certificate` and `window_guarantee`
do the same for the rounds in a window; they are None or 0 without one.
"""


class Settings(NamedTuple):
    """What strategies are made of: `labels` are those met so far, `moments` belong to the window.

    The strategies of one wrapper share a `steering`, which makes hints of the model's answers.
    """

    labels: Labels
    slack: float | None
    n_buckets: int
    horizon: int | None
    moments: WindowMoments | None = None
    steering: SteeredVectors | None = None


class Strategy(ABC):
    """Forecasts events of a round, each by a projection, and answers with a distribution of the labels.

    A round is opened by `ask`; it is settled next, or taken out to wait (`take`) and put back (`present`)
    before it is settled.

    `ask` and `present` write `asked` and `events`, as far as a strategy uses them, which say what the round
    that is here forecasts; `settle` reads them. (`Binary` need not write them in every round.)
    `projections` has all that were ever made, by event. What a stream has taught is in the projections and in
    `steering`, which the strategies of one wrapper share.
    """

    name: ClassVar[str]
    """What it is called as a parameter, and in rounds that wait."""
    norm: ClassVar[str]
    """What its certificates are of, in words."""
    is_over_labels: ClassVar[bool] = False
    """Whether that is a sum over all labels."""
    fewest: ClassVar[int] = 1
    """It forecasts nothing while there are fewer labels."""
    steers: ClassVar[bool] = False
    """Whether its projections steer the probabilities that they are asked about."""
    steers_vectors: ClassVar[bool] = True
    """Whether the model's whole answer is steered, over all labels together."""

    def __init__(self, settings: Settings) -> None:
        has_length = settings.horizon is not None or settings.moments is not None
        if settings.slack is None and has_length:
            # the grids are then made for so many rounds, where others tune themselves
            settings = settings._replace(slack=SLACK_ON_FIXED_GRIDS)
        self._settings, self.labels = settings, settings.labels
        self.steering = settings.steering or SteeredVectors()
        self.projections: dict[Hashable, Projection] = {}
        """By event, made when first needed."""
        self.asked: tuple[Label, ...] = ()
        """The labels that the round that is here names."""
        self.events: dict[Hashable, Projection] = {}
        """The projections that forecast it."""

    def projection(self, event: Hashable) -> Projection:
        """The projection that forecasts an event."""
        projection = self.projections.get(event)
        if projection is None:
            projection = self.projections[event] = self._new_projection()
        return projection

    def _new_projection(self) -> Projection:
        _, slack, n_buckets, horizon, moments, _ = self._settings
        return Projection(slack, n_buckets, horizon, moments, self.steers)

    def names(self, answer: Mapping[Label, float]) -> list[Label]:
        """The labels of a round: those of the model's answer, then the others that are known."""
        return list(dict.fromkeys([*map(plain, answer), *self.labels.known]))

    def ask(self, answer: Mapping[Label, float]) -> Answer | None:
        """Open a round from the model's answer: what to say; None if there are too few labels."""
        named = self.labels.named(answer)
        names = self.names(named)
        return self._answer(named, names) if len(names) >= self.fewest else None

    @abstractmethod
    def _answer(self, answer: Mapping[Label, float], names: list[Label]) -> Answer:
        """Open a round over these labels from the model's answer, which is `named`: what to say."""

    def forecasts(self) -> Answer:
        """The probabilities of the open round that certificates speak of, as they were given."""
        return {event: projection.given for event, projection in self.events.items()}

    @abstractmethod
    def settle(self, label: Label) -> None:
        """Charge the round that is here with its label, and learn to steer from it."""

    def note_labels(self) -> None:
        """Take notice of the labels that are known by now, one more than before."""
        return

    def learn_alone(self, answer: Mapping[Label, float], label: Label) -> None:
        """Learn to steer from a model's answer that nobody was given; the tickets that were here are gone."""
        named = self.labels.named(answer)
        names = self.names(named)
        if len(names) >= self.fewest:
            self._learn_alone(named, names, label)

    def _learn_alone(self, answer: Mapping[Label, float], names: list[Label], label: Label) -> None:
        """The same from an answer that is `named`, over enough labels."""
        self.steering.ask(answer, names)
        self.steering.learn(label)

    def take(self) -> WaitingRound:
        """The open round, to wait for its label elsewhere."""
        tickets = {event: projection.ticket() for event, projection in self.events.items()}
        steered = self.steering.ticket() if self.steers_vectors else None
        return WaitingRound(self.name, self.asked, tickets, steered)

    def present(self, waiting: WaitingRound) -> None:
        """Put a round back in its place, to be settled next."""
        self.asked = waiting.asked
        self.events = {event: self.projection(event) for event in waiting.tickets}
        for event, ticket in waiting.tickets.items():
            self.events[event].present(ticket)
        if waiting.steered is not None:
            self.steering.present(waiting.steered)

    def give_up(self, waiting: WaitingRound) -> None:
        """Note that a round that waited will never be settled. Projections reserve nothing for it."""
        return

    def replay(self, table: Floats, numbers: Ints, schedule: Schedule) -> Tapes:
        """Play a model's answers and labels, settling in between what the schedule says, row by row.

        Columns of the table, shape (T, k), are the labels in the order in which all of them were declared;
        `numbers`, shape (T,), says which of these came. What comes out are answers (T, k), and the sum of
        `bounded` certificates after each settled round (n,). Subclasses do the same faster.
        """
        classes = list(self.labels.known)
        tapes = Tapes(np.empty_like(table), np.empty(len(schedule.order)))
        for row, settled, waiting in schedule.turns(self.take, self.present):
            if settled is None:
                if waiting:
                    self.note_late(waiting)
                raw: dict[Label, float] = dict(zip(classes, table[row].tolist(), strict=True))
                answer = self._answer(raw, self.names(raw))
                tapes.forecasts[row] = [answer[label] for label in classes]
                if not schedule.waits[row]:
                    self.give_up(self.take())
            else:
                self.settle(classes[numbers[row]])
                tapes.certificates[settled] = in_turn(part.certificate for part in self.bounded())
        return tapes

    def note_late(self, others: int) -> None:
        """Take into the guarantees that so many other forecasts were open at once."""
        for projection in self.projections.values():
            projection.note_late(others)

    def outlook(self, n_labels: int, rounds: int, is_window: bool = False) -> tuple[float, float]:
        """What it could guarantee for so many labels and rounds, and the trivial guarantee: sums over rounds.

        The trivial guarantee is the largest distance of forecasts that never change. Both are of one event
        here. With `is_window` they are of any window of so many rounds, which must be this strategy's.
        """
        return self.promise_of_one(rounds, is_window), rounds / 2

    def promise_of_one(self, rounds: int, is_window: bool) -> float:
        """What one projection could guarantee for rounds that its buckets share evenly, or of a window."""
        projection = self._new_projection()
        return projection.window_guarantee if is_window else projection.promise(rounds)

    def bounded(self) -> Iterable[Bounded]:
        """The parts whose bounds add up to those of this strategy's rounds, in its own norm."""
        return self.projections.values()

    def over_labels(self) -> Iterable[Bounded]:
        """The parts whose bounds add up to those of its rounds, as a sum over all labels."""
        return self.bounded()

    def by_label(self) -> dict[Label, float]:
        """The certificate of each label's probabilities in its rounds; empty for strategies without them."""
        return {}
