"""What the windows of a wrapper's parts have in common: how many rounds the wrapper has settled."""

from __future__ import annotations

from collections import deque


class Moments:
    """The length of the windows, and the number of the round that is settled now; the parts share one."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.now = 0


class Recent:
    """Distance that no table is charged for, in the rounds of the window.

    Attributes
    ----------
    most
        The largest sum that any window had so far.
    """

    def __init__(self) -> None:
        self._amounts: deque[tuple[int, float]] = deque()
        self._sum = self.most = 0.0

    def note(self, moments: Moments, amount: float) -> None:
        """So much, a whole number, in the present round."""
        if amount:
            self._amounts.append((moments.now, amount))
            self._sum += amount
            self.most = max(self.most, self.within(moments))

    def within(self, moments: Moments) -> float:
        """How much there is in the window."""
        while self._amounts and self._amounts[0][0] <= moments.now - moments.window:
            self._sum -= self._amounts.popleft()[1]
        return self._sum
