"""The window of the last rounds: which round is settled now, and what no table has of them."""

from __future__ import annotations

from collections import deque


class Moments:
    """The length of the windows, and the number of the round that is settled now; the parts share one."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.now = 0


class Recent:
    """Distance that no table is charged for, in the rounds of the window, if there is one."""

    most = 0.0
    """The largest sum that any window had so far."""

    def __init__(self, moments: Moments | None) -> None:
        self._moments = moments
        self._amounts: deque[tuple[int, float]] = deque()
        self._sum = 0.0

    def note(self, amount: float) -> None:
        """So much, a whole number, in the present round."""
        if amount and self._moments is not None:
            self._amounts.append((self._moments.now, amount))
            self._sum += amount
            self.most = max(self.most, self.within())

    def within(self) -> float:
        """How much there is in the window."""
        moments = self._moments
        while moments is not None and self._amounts and self._amounts[0][0] <= moments.now - moments.window:
            self._sum -= self._amounts.popleft()[1]
        return self._sum
