"""One against the rest: a forecaster of two outcomes for each label.

A round writes every projection that it asked, and the steering that all strategies share. What was given may
differ from what a projection said, which it is told by `give`, before it is settled, or in a replay by
`book`. A label that was not named has its own projection charged by `surprise`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.steering.replaying import Schedule, Tapes
from onlinecal.wrappers.labels import Label, completed
from onlinecal.wrappers.strategies.strategy import Answer, Strategy


class Classwise(Strategy):
    """One event for each label; the answer is the distribution nearest to these, towards the hints.

    The certificate is of the answers. To make a distribution of the forecasts may move them away from the
    charged points, and this distance is added.
    """

    name = "classwise"
    norm = "a sum over the classes, each one against the rest"
    is_over_labels = True

    def _answer(self, answer: Mapping[Label, float], names: list[Label]) -> Answer:
        """Each label's forecast follows its hint."""
        asked = self.steering.ask(answer, names)
        hints = [asked[name] for name in names]
        self.events = {name: self.projection(name) for name in names}
        projections = self.events.values()
        said = [projection.ask(hint) for projection, hint in zip(projections, hints, strict=True)]
        given = completed(np.array([said]), np.array([hints]))[0].tolist()
        for projection, probability in zip(projections, given, strict=True):
            projection.give(probability)
        return dict(zip(names, given, strict=True))

    def settle(self, label: Label) -> None:
        """Charge each label; one that is not named was as good as forecast with 0."""
        for name, projection in self.events.items():
            projection.settle(int(label == name))
        self.steering.learn(label)
        if label not in self.events:
            self.projection(label).surprise()

    def replay(self, table: Floats, numbers: Ints, schedule: Schedule) -> Tapes:
        """Column by column, compiled: labels have nothing to do with each other but in hints and answers."""
        hints = self.steering.replay(table, numbers, list(self.labels.known), schedule)
        tapes = [
            self.projection(label).replay(hints[:, number], numbers == number, schedule, traced=True)
            for number, label in enumerate(self.labels.known)
        ]
        answers = completed(np.column_stack([each.forecasts for each in tapes]), hints)
        certificates = np.zeros(len(schedule.order))
        for label, each, given in zip(self.labels.known, tapes, answers.T, strict=True):
            certificates += self.projection(label).book(each, given, schedule)
        return Tapes(answers, certificates)

    def by_label(self) -> dict[Label, float]:
        """Of each label's projection."""
        return {label: projection.certificate for label, projection in self.projections.items()}

    def outlook(self, n_labels: int, rounds: int, is_window: bool = False) -> tuple[float, float]:
        """A projection for each label; without any each could be forecast as 0."""
        return n_labels * self.promise_of_one(rounds, is_window), rounds
