"""What the windows of a wrapper's parts have in common: how many rounds the wrapper has settled."""

from __future__ import annotations

from collections import deque


class Moments:
    """The length of the windows, and the number of the round that is settled now; the parts share one."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.now = 0


class Surprises:
    """Rounds of a distance of 1 that no table is charged for; those in the window."""

    def __init__(self) -> None:
        self._moments: deque[int] = deque()

    def note(self, moments: Moments) -> None:
        """One in the present round."""
        self._moments.append(moments.now)
        self.within(moments)

    def within(self, moments: Moments) -> int:
        """How many there are in the window."""
        while self._moments and self._moments[0] <= moments.now - moments.window:
            self._moments.popleft()
        return len(self._moments)
