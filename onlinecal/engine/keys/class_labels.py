"""Hints and outcomes of several classes, as the engine's lanes of either kind take them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from onlinecal.engine.events import LONGEST_NAME, is_name
from onlinecal.forecasters.simplex.input import MOST_CLASSES, check_distributions


class ClassLabels:
    """The classes that outcomes may name: those given, or any."""

    def __init__(self, classes: tuple[str, ...] | None) -> None:
        self.classes = None if classes is None else frozenset(classes)

    def hint_of(self, hint: Any) -> dict[str, float] | None:
        """Probabilities by class; classes that a lane has not met yet are allowed if they are discovered."""
        if hint is None:
            return None
        if not isinstance(hint, dict) or not hint:
            raise ValueError(f"hint must be an object with the classes' probabilities, got {hint!r}")
        for label in hint:
            self.outcome_of(label, "the labels of hint")
        values = check_distributions(list(hint.values()), (len(hint),), "hint")
        return dict(zip(hint, values.tolist(), strict=True))

    def outcome_of(self, value: Any, name: str = "value") -> str:
        """The label of a class."""
        if not is_name(value):
            raise ValueError(
                f"{name} must be a class label, a text of 1 to {LONGEST_NAME} characters without NUL, "
                f"got {value!r}"
            )
        if self.classes is not None and value not in self.classes:
            raise ValueError(f"{name} must be one of the classes {sorted(self.classes)!r}, got {value!r}")
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

    def admits(self, outcome: str) -> bool:
        """Whether the class is known, or one more can be told apart; it is known from now on."""
        if outcome not in self.labels and len(self.labels) >= MOST_CLASSES:
            return False
        self.labels.add(outcome)
        return True

    def window_certificate(self, now: int) -> float:
        """There is none."""
        return 0.0

    def window_promise(self, late: int, rounds: int) -> float | None:
        """Nothing is promised."""
        return None
