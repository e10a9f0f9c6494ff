"""Steering of a model's whole answers, over all labels together.

A label gets a number when it is met, and keeps it; the state then has one class more. `ask` leaves a ticket
in the state and `learn` takes in its label, as `steering/vector.py` says. Tickets that wait are made longer
when they come back. The state is in pickles, laid out as `steering/vector.py` has it. Rounds are asked and
learnt by the strategy of the round that is here; there is one ticket, whichever strategy asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import repeat

import numpy as np

from onlinecal.arrays import Floats, Ints
from onlinecal.restoring import Restored
from onlinecal.steering import vector
from onlinecal.steering.replaying import Schedule
from onlinecal.wrappers.labels import Label, no_probability, normalised


class SteeredVectors(Restored):
    """Steering of all labels together, shared by the strategies that are asked about several."""

    def __init__(self) -> None:
        self.numbers: dict[Label, int] = {}
        """The labels met so far, from answers or outcomes, in the order of the state's classes."""
        self._state = vector.new_vector_steering(0)

    def ask(self, answer: Mapping[Label, float], names: list[Label]) -> dict[Label, float]:
        """What is made of a model's answer over these labels, with sum 1; its ticket stays until the next."""
        self._meet(names)
        said = map(answer.get, self.numbers, repeat(0.0))
        try:
            row = np.fromiter(said, np.float64, len(self.numbers))
        except (TypeError, ValueError):
            # to ask of each whether it is a number would take as long as the rest
            raise no_probability(dict(answer)) from None
        hint = np.empty(len(row))
        vector.hint(self._state, row, hint)
        masses = dict(zip(self.numbers, hint.tolist(), strict=True))
        # a label that the model has named before need not be among them, unless it has come
        return masses if len(names) == len(masses) else normalised({label: masses[label] for label in names})

    def learn(self, label: Label) -> None:
        """Learn the label that came after the answer whose ticket is here."""
        self._meet((label,))
        vector.learn_label(self._state, self.numbers[label])

    def replay(self, table: Floats, numbers: Ints, labels: list[Label], schedule: Schedule) -> Floats:
        """Steer a table over these labels, shape (T, k), row by row; learn in between what is due."""
        self._meet(labels)
        state, hints = self._state, np.empty_like(table)
        for row, settled, _ in schedule.turns(self.ticket, self.present):
            if settled is None:
                vector.hint(state, table[row], hints[row])
            else:
                vector.learn_label(state, numbers[row])
        return hints

    def ticket(self) -> Floats:
        """A copy of the ticket, for an answer that must wait while others are steered."""
        return self._state[: vector.shared_of(len(self.numbers))].copy()

    def present(self, ticket: Floats) -> None:
        """Put a ticket back in its place, to be learnt from next."""
        k = len(self.numbers)
        self._state[: vector.shared_of(k)] = vector.ticket_with_classes(ticket, k)

    def _meet(self, labels: Iterable[Label]) -> None:
        unknown = [label for label in labels if label not in self.numbers]
        if unknown:
            self.numbers |= {label: len(self.numbers) + i for i, label in enumerate(unknown)}
            self._state = vector.with_classes(self._state, len(self.numbers))
