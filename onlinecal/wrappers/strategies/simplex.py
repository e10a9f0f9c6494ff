"""The probabilities of all labels together, as a vector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from onlinecal.arrays import Floats, Ints
from onlinecal.steering.replaying import Schedule, Tapes
from onlinecal.wrappers.labels import Label, Labels
from onlinecal.wrappers.strategies.buckets import Buckets
from onlinecal.wrappers.strategies.joint_projection import JointProjection
from onlinecal.wrappers.strategies.steered_vectors import SteeredVectors
from onlinecal.wrappers.strategies.strategy import (
    Answer,
    Asked,
    Bounded,
    Outlook,
    Strategy,
    Waiting,
)


class Simplex(Strategy):
    """A joint forecast near to the steered vector.

    Attributes
    ----------
    joint
        Makes the joint forecasts.
    """

    name = "simplex"
    norm = "of all classes together, a sum over the classes (l1)"
    is_over_labels = True

    def __init__(
        self,
        slack: float | None,
        n_buckets: Buckets,
        horizon: int | None,
        declared: Sequence[Label] = (),
        steering: SteeredVectors | None = None,
        window: int | None = None,
    ) -> None:
        super().__init__(1.0, n_buckets, horizon, steering=steering)
        self.joint = JointProjection(slack, horizon, declared, window)

    def ask(self, answer: Mapping[Label, float], names: list[Label], labels: Labels) -> tuple[Asked, Answer]:
        """The answer is the joint forecast as it is."""
        return (), self.joint.ask(dict(self.hints(answer, names)))

    def forecasts(self, asked: Asked, labels: Labels) -> Answer:
        """The joint forecast."""
        return self.joint.announced

    def settle(self, asked: Asked, label: Label, labels: Labels) -> None:
        """Charge the joint forecast that is here; the hints learn."""
        super().settle(asked, label, labels)
        self.joint.settle(label)

    def take(self, asked: Asked) -> Waiting:
        """The open round with its joint forecast."""
        return super().take(asked)._replace(joint=self.joint.take())

    def present(self, waiting: Waiting) -> None:
        """Put a round back in its place, with its joint forecast."""
        super().present(waiting)
        assert waiting.joint is not None
        self.joint.present(waiting.joint)

    def give_up(self, waiting: Waiting) -> None:
        """Its joint forecast will never be charged."""
        assert waiting.joint is not None
        self.joint.forecaster.withdraw(waiting.joint)

    def replay(self, table: Floats, numbers: Ints, labels: Labels, schedule: Schedule) -> Tapes:
        """Compiled while no label is late."""
        if schedule.most_late:
            return super().replay(table, numbers, labels, schedule)
        return self.joint.replay(self.replay_hints(table, numbers, labels, schedule), numbers)

    def bounded(self) -> Iterable[Bounded]:
        """The joint forecasts alone; where labels are discovered it plays no rounds if there is a window."""
        return (self.joint,)

    def outlook(self, n_labels: int, rounds: int) -> Outlook:
        """In l1 over the labels; the same probability for each is 2 - 2/k from each corner."""
        return Outlook(self.joint.promise(n_labels, rounds), rounds * (2.0 - 2.0 / n_labels))

    def window_outlook(self, n_labels: int, window: int) -> Outlook | None:
        """The same of any window, where all labels are declared."""
        promised = self.joint.window_promise()
        return None if promised is None else Outlook(promised, window * (2.0 - 2.0 / n_labels))
