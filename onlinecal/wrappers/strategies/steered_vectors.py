"""A model's answers over labels that are discovered, steered as vectors."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats
from onlinecal.remarks import LabelWarning
from onlinecal.steering.replaying import Schedule
from onlinecal.steering.vector import (
    new_vector_steering,
    shared_of,
    ticket_with_classes,
    vector_steering,
    with_classes,
)
from onlinecal.wrappers.labels import Label, normalised

ROUNDED = 1e-3
"""The sum of probabilities may be so far from 1: those of many classes in single precision are."""


class SteeredVectors:
    """Steering of all labels together, shared by the strategies that are asked about several.

    Attributes
    ----------
    numbers
        The labels met so far, from answers or outcomes, in the order of the state's classes.
    """

    _named: list[Label] | None = None
    """The labels of the last answer, which have been met."""
    _in_order = False
    """Whether these are all labels, in their order."""
    _strange = False
    """Whether the model has been found to answer with what is no distribution."""

    def __init__(self) -> None:
        self.numbers: dict[Label, int] = {}
        self._state = new_vector_steering(0)

    def ask(self, answer: Mapping[Label, float], names: list[Label]) -> dict[Label, float]:
        """What is made of a model's answer over these labels: probabilities that sum to 1.

        Labels that the answer leaves out have 0; an answer without any weight counts as undecided. The ticket
        stays here until the next one.
        """
        masses = dict(zip(self.numbers, self._steered(answer, names), strict=True))
        # a label that the model has named before need not be among them, unless it has come
        return masses if len(names) == len(masses) else normalised({label: masses[label] for label in names})

    def ask_in_order(self, answer: Mapping[Label, float], names: list[Label]) -> list[float]:
        """The same as a list, in the order of the labels asked about."""
        if names is self._named and self._in_order:
            return self._steered(answer, names, 7)
        return [*map(self.ask(answer, names).__getitem__, names)]

    def _steered(self, answer: Mapping[Label, float], names: list[Label], level: int = 8) -> list[float]:
        """The steered vector over all labels met so far, those of the answer among them.

        A remark is on the line so many levels up, which has asked the wrapper.
        """
        if names is not self._named:
            self._meet(names)
            self._named, self._in_order = names, names == list(self.numbers)
        row = np.fromiter(map(answer.get, self.numbers, repeat(0.0)), np.float64, len(self.numbers))
        hint = np.empty(len(row))
        total = vector_steering().hint(self._state, row, hint)
        # none at all, or nothing but zeros, is what a new model has to say
        if not abs(total - 1.0) <= ROUNDED and not self._strange and total:
            self._strange = True
            warn_of_sum(total, level)
        found: list[float] = hint.tolist()
        return found

    def learn(self, label: Label) -> None:
        """Learn the label that came after the answer whose ticket is here."""
        self._meet((label,))
        vector_steering().learn(self._state, self.numbers[label])

    def replay(
        self, table: Floats, numbers: NDArray[np.int64], labels: list[Label], schedule: Schedule
    ) -> Floats:
        """Steer every row of a table, shape (T, k), learning in between what the schedule says.

        Columns are the labels, before any other was met; `numbers`, shape (T,), are the columns that came.
        """
        self._meet(labels)
        steering, state, hints = vector_steering(), self._state, np.empty_like(table)
        shared, asked = shared_of(len(labels)), 0
        tickets: dict[int, Floats] = {}
        for row, known in zip(schedule.order.tolist(), schedule.known.tolist(), strict=True):
            while asked < known:
                steering.hint(state, table[asked], hints[asked])
                if schedule.most_late:
                    tickets[asked] = state[:shared].copy()
                asked += 1
            if schedule.most_late:
                state[:shared] = tickets.pop(row)
            steering.learn(state, numbers[row])
        return hints

    def ticket(self) -> Floats:
        """A copy of the ticket, for an answer that must wait while others are steered."""
        return self._state[: shared_of(len(self.numbers))].copy()

    def present(self, ticket: Floats) -> None:
        """Put a ticket back in its place, to be learnt from next."""
        self._state[: shared_of(len(self.numbers))] = ticket_with_classes(ticket, len(self.numbers))

    def _meet(self, labels: Iterable[Label]) -> None:
        unknown = [label for label in labels if label not in self.numbers]
        if unknown:
            self.numbers |= {label: len(self.numbers) + i for i, label in enumerate(unknown)}
            self._state = with_classes(self._state, len(self.numbers))
            self._named = None


def warn_of_sum(total: float, level: int) -> None:
    """Say that an answer was no distribution."""
    warnings.warn(
        f"classifier answers with probabilities that, moved into [0, 1], sum to {total:.6g}: they are "
        "divided by that, here and whenever it happens again",
        LabelWarning,
        stacklevel=level,
    )
