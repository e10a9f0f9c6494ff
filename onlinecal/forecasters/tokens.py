"""A forecast as a token, which is issued now and settled when its outcome is known.

A forecaster numbers its tokens and knows which of them are open, that is neither settled nor withdrawn. Each
token can be settled or withdrawn once.

A token itself never changes, and does not know whether it is open: that is in `OpenForecasts`, which its
owner alone writes, a forecaster or a wrapper. `issue` opens a token; `check` and then `close`, behind the
change that the outcome makes, close it. So an outcome that is refused leaves its token open. Wrappers have a
subclass (`wrappers/waiting.py`), which also notes under the serial number where a forecast waits. Pickles
keep all of this; a token's fields are given out to users, too.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from onlinecal.forecasters.simplex.machine.cells import Cell
from onlinecal.html import Shown


@dataclass(frozen=True, slots=True)
class BinaryForecast(Shown):
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


@dataclass(frozen=True, slots=True)
class SimplexForecast(Shown):
    """What a forecaster announced in one round, and the cell that the round will be charged to.

    Attributes
    ----------
    classes
        The classes known when the forecast was issued.
    vector
        The announced probability of each of them, in their order.
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


class OpenForecasts:
    """Numbers the tokens of one forecaster, and knows which of them are open; its length says how many.

    The name of the issuer is drawn with the first token; copies of a forecaster share it from then on.
    """

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._issuer = ""
        self._issued = 0
        self._open: dict[int, Any] = {}
        """By serial number: what whoever gave the token out keeps of it, or None."""

    def __len__(self) -> int:
        return len(self._open)

    def issue(self) -> tuple[int, str]:
        """The serial number and the issuer of the next token, which is open from now on."""
        if not self._issuer:
            self._issuer = secrets.token_hex(8)
        serial = self._issued
        self._open[serial] = None
        self._issued += 1
        return serial, self._issuer

    def check(self, forecast: Any) -> None:
        """ValueError for anything but an open token of this forecaster."""
        if not isinstance(forecast, self._kind):
            # only its type is shown: it may hold the features of a row
            got = type(forecast).__name__
            raise ValueError(f"forecast must be a {self._kind.__name__} that forecast() issued, got {got}")
        serial, issuer = forecast.serial, forecast.issuer
        if issuer != self._issuer:
            raise ValueError(
                f"forecast {serial} was issued by another forecaster, which has to settle it: {forecast!r}"
            )
        if serial not in self._open:
            raise ValueError(
                f"forecast {serial} has been settled, withdrawn or expired before, and each is settled once: "
                f"{forecast!r}"
            )

    def close(self, forecast: Any) -> None:
        """Close a token that `check` accepts."""
        del self._open[forecast.serial]


class Announcing:
    """A forecaster whose forecasts are tokens that wait for their outcomes."""

    _open: OpenForecasts

    @property
    def n_open(self) -> int:
        """How many forecasts wait for their outcome."""
        return len(self._open)

    def withdraw(self, forecast: Any) -> None:
        """Give up a forecast whose outcome will never be known: it is then never charged, and no round.

        Raises ValueError, and changes nothing, if the forecast is of another forecaster, or was settled or
        withdrawn before.
        """
        self._open.check(forecast)
        self._open.close(forecast)
