"""What slack and report are where nobody sets them: one thing without hints, another from the first hint on.

Slack 1/2 and the midpoint have the least guarantee, but with hints they cost skill. So the first hint raises
the slack, has the hints themselves reported, and lets a grid that tunes itself refine more eagerly
(docs/theory.md, Theorem 12a). What was set is never changed.
"""

from __future__ import annotations

from onlinecal.forecasters.binary.cells import REPORTS, Report

SLACK_WITHOUT_HINTS = 0.5
REPORT_WITHOUT_HINTS: Report = "midpoint"

SLACK_WITH_HINTS, SLACK_ON_FIXED_GRIDS = 1.5, 1.0
"""1.5 costs the self-tuning grid least skill for its certificate; 1 is enough on a grid that does not depend
on what comes, and suits the number of cells that is best for slack 1/2 and the midpoint: c/d is the same."""
REPORT_WITH_HINTS: Report = "hint"
KIND_WITH_HINTS = REPORTS.index(REPORT_WITH_HINTS)

# What a memory keeps of it, in bits: whether the first hint will change slack and report, or has done so.
UNSET_SLACK, UNSET_REPORT, FOLLOWING = 1, 2, 4
UNSET = UNSET_SLACK | UNSET_REPORT


def unset_bits(rule: str, slack: float | None, report: str | None) -> int:
    """What the first hint will change; the sign rule has no slack."""
    return UNSET_SLACK * (slack is None and rule == "balanced") + UNSET_REPORT * (report is None)
