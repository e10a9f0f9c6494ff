"""What a recalibration did for each group: two reports side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.measures.groups.report import MulticalibrationReport, multicalibration_report


@dataclass(frozen=True)
class GroupRepair:
    """Each group before and after; print it for a table, the group that was worst first.

    Attributes
    ----------
    before, after
        The reports, with the groups in the same order and level sets of the same width.

    """

    before: MulticalibrationReport
    after: MulticalibrationReport

    def rows(self) -> list[dict[str, Any]]:
        """One flat dictionary for each group, ready for a data frame."""
        return [
            {
                "group": old.name,
                "count": old.count,
                "mass": old.mass,
                "outcome": old.outcome,
                "forecast_before": old.forecast,
                "forecast_after": new.forecast,
                "violation_before": old.violation,
                "violation_after": new.violation,
                "chance": new.noise,
                "squared_error_before": old.squared_error,
                "squared_error_after": new.squared_error,
            }
            for old, new in zip(self.before.lines, self.after.lines, strict=True)
        ]

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len("group"), *(len(row["group"]) for row in rows))
        head = f"{'group':{width}} {'rounds':>9} {'mass':>6} {'outcome':>8}"
        out = [f"{head} {'forecast':>17} {'mu K2':>21} {'brier':>17}"]
        for row in sorted(rows, key=lambda row: -row["violation_before"]):
            text = f"{row['group']:{width}} {row['count']:9d} {row['mass']:6.3f} {row['outcome']:8.4f}"
            text += f" {row['forecast_before']:8.4f}>{row['forecast_after']:8.4f}"
            text += f" {row['violation_before']:10.6f}>{row['violation_after']:10.6f}"
            text += f" {row['squared_error_before']:8.4f}>{row['squared_error_after']:8.4f}"
            out.append(text)
        return "\n".join(out)


def repair_of(
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    y: Any,
    members: NDArray[Any],
    n_levels: int | None,
    names: list[str],
) -> GroupRepair:
    """The repair of forecasts (n,) of outcomes (n,), in groups (n, G) of bytes."""
    inside = members.view(np.bool_)
    return GroupRepair(*(multicalibration_report(p, y, inside, n_levels, names) for p in (before, after)))
