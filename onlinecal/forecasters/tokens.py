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
    """A token: what a forecaster announced in one round, and the cell that the round will be charged to.

    It never changes, and `float(token)` is its probability. Whether it is open the forecaster knows alone.

    Attributes
    ----------
    probability
        The announced probability of outcome 1.
    lower, upper
        The ends of the cell that it was made in, two neighbouring points of the forecaster's grid. When the
        outcome is known the round is charged to `lower` for 0, to `upper` for 1, and for a number between to
        the point of the cell that is nearest to it.
    hint
        The hint that the forecast was asked with, a probability in [0, 1], or None.
    serial
        How many forecasts its forecaster had issued before.
    issuer
        A random name of the forecaster that it belongs to; copies of the forecaster share it.
    cell
        The cell again, exactly: (lower end, width) in whole numbers of the forecaster's own units.
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
    """A token: what a forecaster announced in one round, and the cell that the round will be charged to.

    It never changes, and `token[label]` is the probability of a label, KeyError if that was not known then.
    Whether it is open the forecaster knows alone.

    Attributes
    ----------
    classes
        The labels of the k classes known when the forecast was issued, in the order of the forecaster's
        `classes`; empty if there were none.
    vector
        The announced probability of each of them, k floats in their order.
    hint
        The hint that the forecast was asked with, k floats in the order of the classes, or None.
    serial
        How many forecasts its forecaster had issued before.
    issuer
        A random name of the forecaster that it belongs to; copies of the forecaster share it.
    cell
        The cell in the forecaster's own exact form, which only the forecaster reads; None if no class was
        known.
    """

    classes: tuple[Any, ...]
    vector: tuple[float, ...]
    hint: tuple[float, ...] | None
    serial: int
    issuer: str
    cell: Cell | None

    @property
    def probabilities(self) -> dict[Any, float]:
        """The announced probabilities as a new dict by label, in the order of `classes`; {} without any."""
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
        """How many forecasts are open: `forecast` issued them, and they are neither settled nor withdrawn."""
        return len(self._open)

    def withdraw(self, forecast: Any) -> None:
        """Give up an open forecast, a token of `forecast`, whose outcome will never be known.

        It never counts as a round, neither in certificates nor in `n_rounds`; but a guarantee that rose while
        it was open stays so. Raises ValueError, and changes nothing, if it is no token, is of another
        forecaster, or was settled or withdrawn before.
        """
        self._open.check(forecast)
        self._open.close(forecast)
