"""What a kind of grid consists of: the contract that `uniform`, `graded`, `nested` and `dyadic` keep.

A grid is a module of small functions over a *memory*, the flat sequence of int64 that `cells` describes. The
first group is compiled into replays, duels and single events. On a plain list the interpreter runs the same
source, which is how the tests check compiled code. The second group is asked between rounds.

The shortest example is `graded`. A new one is entered in `MACHINES` of `compiled`, with a FORMAT of its own.

Of these functions `note_late`, `charge` and `charge_inside` alone change a memory, and `refined` answers with
a new one where it must; the rest only reads. (`cells` says who else writes one.) A round is `note_late`,
`propose`, and later `has_room` and one of the two charges; other rounds may come in between. Names and order
of parameters are what compiled callers rely on. The classes here are for type checkers alone: no object is
made of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from onlinecal.arrays import Ints
from onlinecal.forecasters.binary.cells import Memory
from onlinecal.forecasters.binary.guarantees import Terms


class GridModule(Protocol):
    """A module of a kind of grid; `self` stands for the module."""

    @property
    def SETTINGS(self) -> Sequence[int]:
        """The fields of its own header that stay as they were before the first round."""

    @property
    def ACCUMULATORS(self) -> Sequence[int]:
        """The fields that must stay below BRIM; none of them grows by 2^GAIN_BITS in a round."""

    @property
    def PROMISED_BY(self) -> Sequence[int]:
        """The fields on which the promise depends."""

    def __hash__(self) -> int:
        """Modules are hashable: entry points are compiled once for each."""

    # compiled

    def bears(self, memory: Memory) -> bool:
        """Whether no accumulator can wrap in one more round."""

    def has_room(self, memory: Memory) -> bool:
        """Whether it bears a round, and the table can take the points that the round may need."""

    def note_late(self, memory: Memory, others: int) -> None:
        """Called before a cell is proposed, with the number of other forecasts that are open."""

    def propose(self, memory: Memory, hint: float) -> tuple[int, int]:
        """The valid cell to report, its lower end and its width.

        It is the current one, or in a memory that has hints the one nearest to the hint. hint < 0 means that
        there is none; then it is the one nearest to LAST_MIDDLE.
        """

    def charge(self, memory: Memory, lower: int, step: int, above: int, y: int, reported: float) -> None:
        """Settle a round that was reported in that cell, while `has_room`.

        Its outcome y, an integer from 0 to SCALE, lies below the cell (above = 0) or above it (1).
        """

    def charge_inside(self, memory: Memory, lower: int, step: int, y: int, reported: float) -> None:
        """The same for an outcome y strictly inside the cell."""

    def takes_shares(self, memory: Memory) -> bool:
        """Whether it is `refined`: outcomes may be neither 0 nor 1."""

    def in_units(self, memory: Memory, lower: int, step: int) -> tuple[int, int]:
        """A reported cell in today's units, should they have changed."""

    def certificate_rises(
        self, memory: Memory, lower: int, step: int, reported: float, seen: bool
    ) -> tuple[float, float]:
        """By how much the certificate would rise with outcome 0 and with outcome 1."""

    # asked between rounds

    def refined(self, memory: Ints, slack: float) -> Ints:
        """The memory, ready for outcomes that are neither 0 nor 1; the same one if it is ready."""

    def room_of(self, memory: Ints) -> int:
        """How many integers a memory takes up in all, with room for points to come."""

    def promise(self, memory: Memory, terms: Terms, rounds: int, late: int) -> float:
        """The bound beforehand on distance plus bias, a sum over so many rounds.

        `late` is the most other forecasts that were open when one was asked for.
        """

    def window_promise(self, memory: Memory, terms: Terms, rounds: int, late: int) -> float | None:
        """The bound on any so many consecutive rounds, a sum; None if there is none."""

    def most_rounds(self, memory: Memory, terms: Terms, late: int) -> int:
        """How many rounds the accumulators bear in all, whatever comes."""

    def check_grid(self, memory: Ints, like: Ints) -> None:
        """ValueError unless points and current cell can be those of a forecaster that began as `like`."""

    def is_cell(self, memory: Ints, lower: int, step: int) -> bool:
        """Whether a round may wait that was reported in this cell."""


class GuideModule(Protocol):
    """A module for replays with hints on a kind of grid, which find valid cells at once (`marks`)."""

    def new_guide(self, memory: Ints, rounds: int) -> Ints:
        """The guide of a memory for so many more rounds."""

    def propose(self, memory: Memory, guide: Memory, hint: float) -> tuple[int, int]:
        """`propose` of the grid, with the guide beside the memory."""

    def charge(
        self, memory: Memory, guide: Memory, lower: int, step: int, outcome: int, reported: float
    ) -> None:
        """`charge` of the grid, with the guide, for an outcome 0 or 1."""

    def leave(self, memory: Memory) -> None:
        """Do what `charge` put off."""
