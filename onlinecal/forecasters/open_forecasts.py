"""The forecasts that a forecaster has issued and that wait for their outcome."""

from __future__ import annotations

import secrets
from typing import Any, Protocol


class Token(Protocol):
    """A forecast as handed out: its number, and who issued it."""

    @property
    def serial(self) -> int:
        """Its number among those of the issuer, from 0."""
        ...

    @property
    def issuer(self) -> str:
        """A name drawn by the forecaster."""
        ...


class OpenForecasts:
    """Numbers the tokens of one forecaster, and knows which of them are open; its length says how many.

    The name of the issuer is drawn with the first token; copies of a forecaster share it from then on.
    """

    def __init__(self, kind: type[Token]) -> None:
        self._kind = kind
        self._issuer = ""
        self._issued = 0
        self._open: set[int] = set()

    def __len__(self) -> int:
        return len(self._open)

    def issue(self) -> tuple[int, str]:
        """The serial number and the issuer of the next token, which is open from now on."""
        if not self._issuer:
            self._issuer = secrets.token_hex(8)
        serial = self._issued
        self._open.add(serial)
        self._issued += 1
        return serial, self._issuer

    def check(self, forecast: Any) -> None:
        """Refuse what is no token, a token of another forecaster, and one that is no longer open."""
        if not isinstance(forecast, self._kind):
            raise ValueError(
                f"forecast must be a {self._kind.__name__} that forecast() issued, got {forecast!r}"
            )
        serial, issuer = forecast.serial, forecast.issuer
        if issuer != self._issuer:
            raise ValueError(f"forecast {serial} was issued by another forecaster: {forecast!r}")
        if serial not in self._open:
            raise ValueError(f"forecast {serial} has been settled before: {forecast!r}")

    def close(self, forecast: Any) -> None:
        """A token that `check` accepts is open no longer."""
        self._open.remove(forecast.serial)
