"""What a wrapper's strategies prove together: their distances add up (Fact 4 of docs/theory.md)."""

from __future__ import annotations

from onlinecal.summing import in_turn
from onlinecal.wrappers.strategies.strategy import Bounded, Strategy, Windowed


class Certified:
    """The certificates and guarantees of all strategies by which rounds were played."""

    window: int | None = None
    _strategies: dict[str, Strategy]

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration so far, a sum over the settled rounds.

        With "simplex" and "classwise" also a sum over the labels, with "tree" over its nodes; `certificates`
        has those of "classwise" one by one.
        """
        return in_turn(part.certificate for part in self._parts())

    @property
    def guarantee(self) -> float:
        """What the certificate cannot exceed, whatever the labels."""
        return in_turn(part.guarantee for part in self._parts())

    @property
    def window_certificate(self) -> float | None:
        """A proven upper bound on the distance of the last `window` settled rounds, as `certificate` sums it.

        None without a window.
        """
        if self.window is None:
            return None
        return in_turn(part.window_certificate for part in self._windowed())

    @property
    def window_guarantee(self) -> float | None:
        """What the distance of ANY `window` consecutive settled rounds cannot exceed.

        None without a window.
        """
        if self.window is None:
            return None
        return in_turn(part.window_guarantee for part in self._windowed())

    def _parts(self) -> list[Bounded]:
        return [part for strategy in self._strategies.values() for part in strategy.bounded()]

    def _windowed(self) -> list[Windowed]:
        return [part for strategy in self._strategies.values() for part in strategy.windowed()]
