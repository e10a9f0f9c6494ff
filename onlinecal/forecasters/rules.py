"""What compiled loops need to know of a forecaster: `Rules`, a few plain functions over one flat memory.

Duels and replays drive every forecaster of one event through these, so that any of them can meet any
adversary in one compiled loop. Grid machines (`binary.cells`) and mixing machines (`baselines.mixing`) come
as `Rules`. Whatever else can be said of a forecaster stays with its class.

This module also has the slack and the report of a forecaster whose user sets none, with and without hints.
Slack 1/2 and the midpoint have the least guarantee, but with hints they cost skill. So a forecaster that
follows hints has more slack and reports the hints themselves, and a grid that tunes itself refines more
eagerly (docs/theory.md, Theorem 12a). What a user sets is never changed.

Rules have no state: a loop keeps the memory and hands it to each of them. A round is `note_late` where
forecasts may be late, `has_room`, `announce`, perhaps `certificate_rises` and `point`, and `settle`, which
gets the two integers and the forecast that `announce` gave out. Only `note_late`, `announce` and `settle` may
write; the others read. In a round that waits `has_room` is asked when it is settled. The slacks and reports
below decide forecasts, so to change one changes answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from onlinecal.compiling import kernel_part
from onlinecal.forecasters.binary.cells import ReportChoice
from onlinecal.validation import check_flag

NO_ROOM, DONE = -1, 0
"""What entry points answer. NO_ROOM means that the memory has no room for the round, and that nothing was
changed: the caller lets the memory grow and calls again. All other answers are results, which are never
negative; DONE is the answer of an entry point without a result. A replay answers how many rounds it has
played before there was no room."""


@kernel_part
def ignore_late(memory: Any, others: int) -> None:
    """For forecasters that late labels do not change."""


class Rules(NamedTuple):
    """A forecaster's rules; all of them can be compiled (`kernel_part` or `inlined`).

    has_room(memory) -> bool
        Whether one more round can be settled before the memory has to grow.
    announce(memory, hint, u) -> (a, b, forecast, shown)
        The coming round: two integers that `settle` wants back, the forecast, and the mean forecast, which
        somebody sees who does not see the draw. hint < 0 means that there is none; u is a uniform draw in
        [0, 1), which deterministic forecasters leave alone.
    settle(memory, a, b, outcome, forecast) -> None
        Learn the outcome of a round.
    point(memory, a, b, outcome, forecast) -> float
        The value that the round is charged to; for most forecasters their forecast.
    certificate_rises(memory, a, b, forecast, seen) -> (rise_zero, rise_one)
        By how much the certificate would rise with either outcome; unless the draw is `seen`, on average.
    certificate(memory) -> float
        A proven upper bound on the distance to calibration so far, a sum over rounds.
    note_late(memory, others) -> None
        Called before a round is announced, with the number of other forecasts that are open.
    """

    has_room: Callable[..., bool]
    announce: Callable[..., tuple[int, int, float, float]]
    settle: Callable[..., None]
    point: Callable[..., float]
    certificate_rises: Callable[..., tuple[float, float]]
    certificate: Callable[..., float]
    note_late: Callable[..., None] = ignore_late


SLACK_WITHOUT_HINTS = 0.5
REPORT_WITHOUT_HINTS: ReportChoice = "midpoint"

SLACK_WITH_HINTS, SLACK_ON_FIXED_GRIDS = 1.5, 1.0
"""On the self-tuning grid 1.5 is the best exchange of skill for certificate. On a fixed grid 1 is enough, and
suits the number of cells that is best for slack 1/2 and the midpoint, since c/d is the same."""
REPORT_WITH_HINTS: ReportChoice = "hint"


def check_hints(hints: Any, report: Any) -> None:
    """Refuse what is neither True nor False, and a report that follows hints where there are none."""
    if not check_flag(hints, "hints") and report == REPORT_WITH_HINTS:
        raise ValueError(f"report={report!r} needs hints: make the forecaster with hints=True")


def check_expected(hints: bool, name: str) -> None:
    """Refuse hints, in the argument `name`, for a forecaster that was made without them."""
    if not hints:
        raise ValueError(f"{name} must be None for a forecaster without hints: make it with hints=True")
