"""Which grid a forecaster plays on: its settings are checked, and the memory that they ask for is made.

Four questions decide. Does the grid stay, since the number of rounds, of cells or of a window's rounds is
known? Are rounds served by hints? Is the report or the rule set by the user? Was a kind of grid asked for?

Nothing here has a state: settings never change, and the memory is new at each call. Which grid is chosen
decides every answer of a forecaster, also of those that are saved and checked again (`soundness`). So a
choice changes only where changed answers are meant.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

from onlinecal.arrays import Ints
from onlinecal.forecasters.binary import dyadic, graded, nested, uniform
from onlinecal.forecasters.binary.cells import REPORTS, ReportChoice
from onlinecal.forecasters.binary.graded import MOST_HALF, best_half, graded_points
from onlinecal.forecasters.binary.guarantees import Biases, Terms, cells_for, reach_of
from onlinecal.forecasters.binary.windows import MOST_WINDOW
from onlinecal.forecasters.rules import (
    REPORT_WITH_HINTS,
    REPORT_WITHOUT_HINTS,
    SLACK_ON_FIXED_GRIDS,
    SLACK_WITH_HINTS,
    SLACK_WITHOUT_HINTS,
    check_hints,
)
from onlinecal.validation import check_choice, check_count, check_number

Grid = Literal["auto", "uniform", "graded", "nested", "adaptive"]
Rule = Literal["balanced", "sign"]
GRIDS: tuple[Grid, ...] = get_args(Grid)
RULES: tuple[Rule, ...] = get_args(Rule)
MOST_SLACK = 1000.0
MOST_CELLS = 1 << 28


def check_slack(slack: Any) -> None:
    """Refuse a slack below 1/2, where no valid cell need exist, or one that is no number."""
    check_number(slack, "slack", 0.5, MOST_SLACK)


class GridSettings(NamedTuple):
    """The parameters of a forecaster as its user set them; None leaves the choice to the forecaster."""

    horizon: int | None
    n_cells: int | None
    grid: Grid
    rule: Rule
    slack: float | None
    report: ReportChoice | None
    window: int | None
    hints: bool

    def checked(self) -> GridSettings:
        """The same with counts as int; ValueError if a value is out of range or excludes another one."""
        check_choice(self.grid, GRIDS, "grid")
        check_choice(self.rule, RULES, "rule")
        check_choice(REPORT_WITHOUT_HINTS if self.report is None else self.report, REPORTS, "report")
        check_hints(self.hints, self.report)
        settings = self._replace(
            horizon=None if self.horizon is None else check_count(self.horizon, "horizon"),
            n_cells=None if self.n_cells is None else check_count(self.n_cells, "n_cells", most=MOST_CELLS),
            window=None if self.window is None else check_count(self.window, "window", most=MOST_WINDOW),
            hints=bool(self.hints),
        )
        if self.slack is not None:
            check_slack(self.slack)
        settings._check_grid()
        return settings

    def _check_grid(self) -> None:
        """ValueError if the kind of grid does not go with the other settings."""
        grid = self.grid
        if grid in ("uniform", "graded") and not self._size_is_known:
            needed = "a horizon, n_cells or a window" if grid == "uniform" else "a horizon or a window"
            raise ValueError(
                f"grid {grid!r} needs {needed}, got none: give one, or use grid 'adaptive' or 'nested'"
            )
        if grid == "graded" and (self.hints or self.rule == "sign" or self.report is not None):
            raise ValueError(
                "grid 'graded' needs rule='balanced', report=None and hints=False, got "
                f"rule={self.rule!r}, report={self.report!r}, hints={self.hints}: set them so, or use "
                "grid 'uniform'"
            )
        if grid in ("graded", "nested", "adaptive") and self.n_cells is not None:
            raise ValueError(
                f"n_cells={self.n_cells} fixes a uniform grid; it does not go with grid {grid!r}: leave out "
                "one of the two"
            )

    @property
    def _size_is_known(self) -> bool:
        """Whether a parameter says beforehand how fine the grid is to be."""
        return self.horizon is not None or self.n_cells is not None or self.window is not None

    @property
    def grid_stays(self) -> bool:
        """Whether the grid is the same for all rounds."""
        return self.grid in ("uniform", "graded") or (self.grid == "auto" and self._size_is_known)

    @property
    def slack_in_use(self) -> float:
        """The slack that is played with: the user's, else the forecaster's choice."""
        if self.slack is not None:
            return float(self.slack)
        if not self.hints:
            return SLACK_WITHOUT_HINTS
        return SLACK_ON_FIXED_GRIDS if self.grid_stays or self.grid == "nested" else SLACK_WITH_HINTS

    @property
    def report_in_use(self) -> ReportChoice:
        """The user's report or the forecaster's choice, on a grid whose cells do not report their ends."""
        return self.report or (REPORT_WITH_HINTS if self.hints else REPORT_WITHOUT_HINTS)

    @property
    def terms(self) -> Terms:
        """The bound on biases and the reach, on which promises rest besides the grid."""
        return Terms(Biases.under(self.rule, self.slack_in_use), reach_of(self.report_in_use))

    @property
    def _may_be_graded(self) -> bool:
        """Whether cells may report their ends: nothing asks for a uniform grid or for another report."""
        asks_for_uniform = self.grid == "uniform" or self.n_cells is not None
        return not (asks_for_uniform or self.hints or self.rule == "sign" or self.report is not None)

    def new_memory(self) -> Ints:
        """The memory before the first round."""
        if self.grid == "nested" and self._may_be_graded:
            return nested.new_memory(self.slack_in_use)
        if self.grid_stays:
            return self._memory_that_stays()
        slack_is_left = self.slack is None and self.rule == "balanced"
        follows_hints = self.hints and (slack_is_left or self.report is None)
        tuned = 0 if self.grid == "nested" else dyadic.ADAPTIVE_BIT | dyadic.EAGER_BIT * follows_hints
        slack_grows = self.hints and slack_is_left
        return dyadic.new_memory(
            self.rule, self.slack_in_use, self.report_in_use, tuned, self.hints, slack_grows
        )

    def _memory_that_stays(self) -> Ints:
        """A memory on the better one of a graded and a uniform grid, or on the one that is possible.

        The number of cells is the best for the horizon, or else for the window. Hints do not change it: where
        neither slack nor report is set, c and d are both twice as much with hints, and the best number for
        c/d is the same.
        """
        for_window = self.horizon is None and self.window is not None
        rounds = (self.window if for_window else self.horizon) or 1
        biases = Biases.under(self.rule, float(self.slack or SLACK_WITHOUT_HINTS))
        reach = reach_of(self.report or REPORT_WITHOUT_HINTS)
        weight = biases.length if for_window else biases.worst
        m = self.n_cells or cells_for(rounds, weight, reach)
        if self._may_be_graded:
            # one cell less, where that has the smaller bound
            m -= m * (m - 1) * weight > reach * rounds
            half = best_half(rounds, weight)
            if self.grid == "graded" or half <= MOST_HALF - 3:
                memory = graded.new_memory(graded_points(half), self.slack_in_use)
                uniform_bound = reach * rounds / m + weight * (m - 1)
                if self.grid == "graded" or graded.bound(memory, weight, rounds, 0) < uniform_bound:
                    return memory
        return uniform.new_memory(m, self.rule, self.slack_in_use, self.report_in_use, self.hints)
