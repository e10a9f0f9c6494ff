"""A forecast of several classes as a token: issued now, settled when its outcome is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from onlinecal.html import Bar, Shown, Table


class Cell(NamedTuple):
    """The cell that was announced, exactly: in units of 1/scale, and of 1/(k scale) for the sums."""

    scale: int
    sums: tuple[int, ...]
    vertices: tuple[tuple[int, ...], ...]
    """By class: a round whose outcome is class j will be charged to vertices[j]."""


@dataclass(frozen=True, slots=True)
class SimplexForecast(Shown):
    """What a forecaster announced in one round, and the cell that the round will be charged to.

    Attributes
    ----------
    classes
        The classes known when the forecast was issued.
    vector
        The announced probability of each of them.
    hint
        The hint that the forecast was asked with, in the order of the classes, or None.
    serial
        How many forecasts its forecaster had issued before.
    issuer
        Which forecaster it belongs to; copies of a forecaster share it.
    cell
        The cell's exact form, or None if no class was known.
    """

    classes: tuple[Any, ...]
    vector: tuple[float, ...]
    hint: tuple[float, ...] | None
    serial: int
    issuer: str
    cell: Cell | None

    @property
    def probabilities(self) -> dict[Any, float]:
        """The announced probabilities by class."""
        return dict(zip(self.classes, self.vector, strict=True))

    def __getitem__(self, label: Any) -> float:
        return self.probabilities[label]

    def _shown(self) -> Table:
        hints = self.hint or (None,) * len(self.classes)
        rows = [
            (str(label), p, Bar(0.0, p), hint)
            for label, p, hint in zip(self.classes, self.vector, hints, strict=True)
        ]
        return Table(f"Forecast {self.serial:,}", ("class", "probability", "", "hint"), rows)
