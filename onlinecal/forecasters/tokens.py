"""A forecast as a token: issued now, settled when its outcome is known."""

from __future__ import annotations

from dataclasses import dataclass

from onlinecal.html import Bar, Shown, Table


@dataclass(frozen=True, slots=True)
class Forecast(Shown):
    """What a forecaster announced in one round, and the cell that the round will be charged to.

    Attributes
    ----------
    probability
        The announced probability of outcome 1.
    lower, upper
        The ends of the reported cell: outcome 0 charges the round to `lower`, outcome 1 to `upper`.
    hint
        The hint that the forecast was asked with, or None.
    serial
        How many forecasts its forecaster had issued before.
    issuer
        Which forecaster it belongs to; copies of a forecaster share it.
    cell
        The ends' exact form, (lower end, width) in the forecaster's own units.
    """

    probability: float
    lower: float
    upper: float
    hint: float | None
    serial: int
    issuer: str
    cell: tuple[int, int]

    def __float__(self) -> float:
        return self.probability

    def _shown(self) -> Table:
        rows = [
            ("probability", self.probability, Bar(0.0, self.probability)),
            ("hint", self.hint, "" if self.hint is None else Bar(0.0, self.hint)),
            ("charged to", (self.lower, self.upper), Bar(self.lower, self.upper)),
        ]
        return Table(f"Forecast {self.serial:,}", (), rows)
