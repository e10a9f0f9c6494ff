"""Whether rounds may have hints, said when a forecaster is made; and its settings where nobody sets them.

Slack 1/2 and the midpoint have the least guarantee, but with hints they cost skill. So a forecaster that
follows hints has more slack, reports the hints themselves, and a grid that tunes itself refines more eagerly
(docs/theory.md, Theorem 12a). What is set is never changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onlinecal.forecasters.binary.cells import Report

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
