"""What compiled loops need to know of a forecaster: six plain functions over one flat memory.

Duels and replays drive every forecaster through these, so that any of them can meet any adversary in one
compiled loop. Grid machines (`cells`) and mixing machines (`mixing`) come as `Rules`; whatever else can
be said of a forecaster stays with its class.

Whether rounds may have hints, said when a forecaster is made; and its settings where nobody sets them.

Slack 1/2 and the midpoint have the least guarantee, but with hints they cost skill. So a forecaster that
follows hints has more slack, reports the hints themselves, and a grid that tunes itself refines more eagerly
(docs/theory.md, Theorem 12a). What is set is never changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from onlinecal.compiling import kernel_part
from onlinecal.forecasters.binary.cells import Report

NO_ROOM, DONE = -1, 0
"""How an entry point says that a memory has no room for the round: it answers NO_ROOM, a negative number, and
has changed nothing. Whoever called lets the memory grow and calls again. Else it answers what it is for,
which is never negative; DONE if that is nothing. A replay answers how many rounds it has played by then."""


@kernel_part
def ignore_late(memory: Any, others: int) -> None:
    """For forecasters that late labels do not change."""


class Rules(NamedTuple):
    """A forecaster's rules; all of them can be compiled (`register_jitable`).

    has_room(memory) -> bool
        Whether one more round can be settled before the memory has to grow.
    announce(memory, hint, u) -> (a, b, forecast, shown)
        The coming round: two integers that `settle` wants back, the forecast, and what somebody sees who
        does not see its draw (the mean forecast). hint < 0 means there is none; u is a uniform draw in
        [0, 1), which deterministic forecasters leave alone.
    settle(memory, a, b, outcome, forecast) -> None
        Learn the outcome of a round.
    point(memory, a, b, outcome, forecast) -> float
        The value that the round is charged to; for most forecasters their forecast.
    certificate_rises(memory, a, b, forecast, seen) -> (rise_zero, rise_one)
        By how much the certificate would rise with either outcome; the expected rise unless the draw is seen.
    certificate(memory) -> float
        A proven upper bound on the distance to calibration so far, a sum over rounds.
    note_late(memory, others) -> None
        Before a round is announced: so many other forecasts are open.
    """

    has_room: Callable[..., bool]
    announce: Callable[..., tuple[int, int, float, float]]
    settle: Callable[..., None]
    point: Callable[..., float]
    certificate_rises: Callable[..., tuple[float, float]]
    certificate: Callable[..., float]
    note_late: Callable[..., None] = ignore_late


SLACK_WITHOUT_HINTS = 0.5
REPORT_WITHOUT_HINTS: Report = "midpoint"

SLACK_WITH_HINTS, SLACK_ON_FIXED_GRIDS = 1.5, 1.0
"""1.5 costs the self-tuning grid least skill for its certificate; 1 is enough on a grid that does not depend
on what comes, and suits the number of cells that is best for slack 1/2 and the midpoint: c/d is the same."""
REPORT_WITH_HINTS: Report = "hint"


def check_hints(hints: Any, report: Any) -> None:
    """Refuse what is neither True nor False, and a report that follows hints where there are none."""
    if not isinstance(hints, (bool, np.bool_)):
        raise ValueError(f"hints must be True or False, got {hints!r}")
    if report == REPORT_WITH_HINTS and not hints:
        raise ValueError(f"report={report!r} needs hints: make the forecaster with hints=True")


def check_expected(hints: bool, name: str) -> None:
    """Refuse hints, called `name`, that are given to a forecaster which was made without."""
    if not hints:
        raise ValueError(f"{name} must be None for a forecaster without hints: make it with hints=True")
