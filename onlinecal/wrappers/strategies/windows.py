"""The window of the last rounds: which round is settled now, and the distance that no table counts.

`Recent` is written by `note`, and `within` drops what has left the window. Amounts are whole numbers, of
rounds or of parts (`PARTS`), so that a sum from which the oldest are taken away stays exact.
"""

from __future__ import annotations

from collections import deque


class WindowMoments:
    """The window's length, and the number of the round that is settled now; a wrapper's parts share one.

    The wrapper writes `now` before it settles a round. All others only read.
    """

    def __init__(self, window: int) -> None:
        self.window = window
        self.now = 0


class Recent:
    """The distance in the window's rounds that no table is charged for; nothing is kept without a window."""

    most = 0.0
    """The largest sum that any window had so far."""

    def __init__(self, moments: WindowMoments | None) -> None:
        self._moments = moments
        self._amounts: deque[tuple[int, float]] = deque()
        self._sum = 0.0

    def note(self, amount: float) -> None:
        """Note an amount, a whole number, in the present round."""
        if amount and self._moments is not None:
            self._amounts.append((self._moments.now, amount))
            self._sum += amount
            self.most = max(self.most, self.within())

    def within(self) -> float:
        """The sum of the amounts in the window."""
        moments = self._moments
        while moments is not None and self._amounts and self._amounts[0][0] <= moments.now - moments.window:
            self._sum -= self._amounts.popleft()[1]
        return self._sum
