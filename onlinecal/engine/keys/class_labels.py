"""Hints and outcomes of several classes, as the engine's lanes of either kind take them.

An outcome is kept as the label of its class; a soft label as its probabilities above zero, by class.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from onlinecal.engine.events import LONGEST_NAME, is_name
from onlinecal.forecasters.simplex.input import MOST_CLASSES, check_distributions, shown

ClassOutcome = str | dict[str, float]


def parts_of(outcome: ClassOutcome) -> dict[str, float]:
    """How much of an outcome each class is, but for those that are nothing of it."""
    return {outcome: 1.0} if isinstance(outcome, str) else outcome


class ClassLabels:
    """The classes that outcomes may name: those given, or any."""

    def __init__(self, classes: tuple[str, ...] | None) -> None:
        self.classes = None if classes is None else frozenset(classes)

    def hint_of(self, hint: Any) -> dict[str, float] | None:
        """Probabilities by class; classes that a lane has not met yet are allowed if they are discovered."""
        if hint is None:
            return None
        if not isinstance(hint, dict) or not hint:
            raise ValueError(f"hint must be an object with the classes' probabilities, got {shown(hint)}")
        return self._distribution(hint, "hint")

    def outcome_of(self, value: Any) -> ClassOutcome:
        """A class, or a soft label of several; ValueError if it is neither."""
        if not isinstance(value, dict):
            return self.label_of(value, "value")
        if not value:
            raise ValueError(
                f"value must be a class label, or an object of probabilities, got {shown(value)}"
            )
        soft = {label: p for label, p in self._distribution(value, "value").items() if p > 0.0}
        return soft if len(soft) > 1 else next(iter(soft))

    def _distribution(self, told: dict[Any, Any], name: str) -> dict[str, float]:
        for label in told:
            self.label_of(label, f"the labels of {name}")
        values = check_distributions(list(told.values()), (len(told),), name)
        return dict(zip(told, values.tolist(), strict=True))

    def numbered(self, labels: list[str]) -> dict[str, int]:
        """The classes of a state, numbered; ValueError if they cannot be."""
        return {self.label_of(label, "its classes"): number for number, label in enumerate(labels)}

    def label_of(self, value: Any, name: str) -> str:
        """The label of a class; ValueError if it is none."""
        if not is_name(value):
            raise ValueError(
                f"{name} must be a class label, a text of 1 to {LONGEST_NAME} characters without NUL, "
                f"got {shown(value)}"
            )
        if self.classes is not None and value not in self.classes:
            raise ValueError(
                f"{name} must be one of the classes {shown(sorted(self.classes))}, got {shown(value)}"
            )
        return value


class ClassLane:
    """What lanes of several classes share: the classes they know, and no windows unless they say so.

    Attributes
    ----------
    labels
        The classes, with those of outcomes that wait for their step.
    """

    __slots__ = ("labels",)

    def __init__(self, labels: Iterable[str]) -> None:
        self.labels = set(labels)

    def admits(self, outcome: ClassOutcome, late: int) -> bool:
        """Whether the classes are known, or as many more can be told apart; they are known from now on."""
        new = [label for label in parts_of(outcome) if label not in self.labels]
        if len(self.labels) + len(new) > MOST_CLASSES:
            return False
        self.labels.update(new)
        return True

    def looks_at_itself(self, outcome: ClassOutcome) -> bool:
        """Whether it depends on the steps before if it admits that outcome: it does not."""
        return False

    def window_certificate(self, now: int) -> float:
        """There is none."""
        return 0.0

    def window_promise(self, late: int, rounds: int) -> float | None:
        """Nothing is promised."""
        return None
