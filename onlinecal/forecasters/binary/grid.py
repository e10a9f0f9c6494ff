"""What AlmostOneStepAhead and OneStepAhead share: parameters, memory, replay and the river face."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from river import base

from onlinecal.forecasters.binary import guarantees
from onlinecal.forecasters.binary.cells import (
    FORMAT,
    LOWER,
    MIDPOINT,
    MOVED,
    NO_HINT,
    REPORT,
    REPORTS,
    ROUNDS,
    STEP,
    Report,
    report,
)
from onlinecal.forecasters.binary.compiled import FULL, MACHINES, certain_rounds, enlarged
from onlinecal.forecasters.binary.defaults import REPORT_WITHOUT_HINTS, SLACK_WITHOUT_HINTS, unset_bits
from onlinecal.forecasters.binary.grids import dyadic, uniform
from onlinecal.forecasters.binary.grids.dyadic_accounts import BY_EXACT_ACCOUNTS, EAGER, TUNED_BY
from onlinecal.forecasters.binary.look_ahead import LookAhead, look_ahead_of
from onlinecal.forecasters.binary.promises import Terms
from onlinecal.forecasters.binary.replaying import play, play_with_window
from onlinecal.forecasters.binary.soundness import check_grid_memory, require
from onlinecal.forecasters.binary.windowing.windows import MOST_WINDOW, Window
from onlinecal.forecasters.open_forecasts import OpenForecasts
from onlinecal.forecasters.rules import Rules
from onlinecal.forecasters.tokens import Forecast
from onlinecal.validation import (
    OUTCOMES,
    check_choice,
    check_count,
    check_number,
    check_probabilities,
    check_same_length,
    check_shares,
    share_of,
)

Grid = Literal["auto", "uniform", "nested", "adaptive"]
Rule = Literal["balanced", "sign"]
GRIDS: tuple[Grid, ...] = get_args(Grid)
RULES: tuple[Rule, ...] = get_args(Rule)
MOST_SLACK = 1000.0
MOST_CELLS = 1 << 28


def check_slack(slack: Any) -> None:
    """Refuse a slack below 1/2, where no valid cell need exist, or one that is no number."""
    check_number(slack, "slack", 0.5, MOST_SLACK)


class GridForecaster(base.Classifier):
    """A forecaster on a grid machine; subclasses say what it reports and what it promises."""

    window: int | None = None
    _window: Window | None = None

    def __init__(
        self,
        horizon: int | None,
        n_cells: int | None,
        grid: Grid,
        rule: Rule,
        slack: float | None,
        report: Report | None,
        window: int | None = None,
    ) -> None:
        check_choice(grid, GRIDS, "grid")
        check_choice(rule, RULES, "rule")
        unset = unset_bits(rule, slack, report)
        report = REPORT_WITHOUT_HINTS if report is None else report
        check_choice(report, REPORTS, "report")
        counts = ("horizon", horizon, None), ("n_cells", n_cells, MOST_CELLS), ("window", window, MOST_WINDOW)
        for name, count, most in counts:
            if count is not None:
                check_count(count, name, most=most)
        if slack is not None:
            check_slack(slack)
        fixed = horizon is not None or n_cells is not None or window is not None
        if grid == "uniform" and not fixed:
            raise ValueError(
                "grid 'uniform' needs a horizon or n_cells (or a window): without, use 'adaptive' or 'nested'"
            )
        if grid in ("nested", "adaptive") and n_cells is not None:
            raise ValueError(f"n_cells={n_cells} fixes a uniform grid; it does not go with grid {grid!r}")
        self.horizon, self.n_cells, self.grid, self.rule, self.slack = horizon, n_cells, grid, rule, slack
        self._reach = 0.5 if report == "midpoint" else 1.0
        self._open = OpenForecasts(Forecast)
        self._late = 0
        begun = rule, SLACK_WITHOUT_HINTS if slack is None else float(slack), report
        if grid == "uniform" or (grid == "auto" and fixed):
            biases = guarantees.Biases.under(*begun[:2])
            if window is not None and horizon is n_cells is None:
                m = guarantees.window_cells(window, biases, self._reach)
            else:
                m = n_cells or guarantees.cells_for(horizon or 1, biases.worst, self._reach)
            self._adopt(uniform.new_memory(m, *begun, unset))
            if horizon is not None and horizon > self.most_rounds:
                raise ValueError(
                    f"horizon must be at most {self.most_rounds}, which is what the integers of a grid of "
                    f"{m} cells bear, got {horizon!r}"
                )
        else:
            self._adopt(dyadic.new_memory(*begun, 0 if grid == "nested" else BY_EXACT_ACCOUNTS, unset))
        if window is not None:
            self.window = window
            self._window = Window(window, self.memory)

    def _adopt(self, memory: NDArray[np.int64]) -> None:
        self.memory = memory
        self.machine = MACHINES[int(memory[FORMAT])]
        self._probability = 0.5
        self.resume()

    def slack_of(self, memory: NDArray[np.int64]) -> float:
        """The slack by now of a memory that began as a copy of this forecaster's."""
        return float(self.machine.rules.slack_by_default(memory) if self.slack is None else self.slack)

    def _terms(self, memory: NDArray[np.int64]) -> Terms:
        """What holds for such a memory."""
        reach = self._reach if memory[REPORT] == MIDPOINT else 1.0
        return Terms(guarantees.Biases.under(self.rule, self.slack_of(memory)), reach)

    @property
    def rules(self) -> Rules:
        """The functions that compiled loops drive the memory with."""
        return self.machine.playable

    def draws(self, number: int) -> NDArray[np.float64]:
        """A deterministic forecaster draws nothing, whatever `number` is asked for."""
        return np.empty(0)

    def grow(self) -> None:
        """Double the memory: for whoever drives it with compiled loops and found it full."""
        self.memory = enlarged(self.memory)

    def resume(self) -> None:
        """Take up the memory again after a compiled loop has played on it."""
        # the current cell's report, without waiting for a kernel that looks for cells
        lower, step = int(self.memory[LOWER]), int(self.memory[STEP])
        self._probability = float(report(self.memory, lower, step, NO_HINT))

    def expect_hints(self) -> None:
        """Say that there will be hints: what the first of them changes, `guarantee` too, changes now."""
        self.machine.rules.expect_hints(self.memory)
        self.resume()

    def refine_eagerly(self) -> None:
        """From before the first round on, let a self-tuning grid go finer sooner, for hints that are good.

        The valid cell nearest to a hint is then the nearest by odds.
        """
        tuned, memory = int(self.memory[dyadic.TUNED]), self.memory
        if memory[FORMAT] == dyadic.FORMAT_DYADIC and tuned & TUNED_BY:
            begun = self.rule, self.slack_of(memory), REPORTS[memory[REPORT]]
            self._adopt(dyadic.new_memory(*begun, tuned | EAGER))

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["machine"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        check_grid_memory(self.memory, type(self)(**self._get_params()))
        if self.window is not None:
            require(isinstance(self._window, Window), "its window")
            self._window.check(self.window, self.memory)  # type: ignore[union-attr]
        self.machine = MACHINES[int(self.memory[FORMAT])]

    def settle(self, lower: int, step: int, outcome: float, forecast: float) -> None:
        """Charge a round that was reported as `forecast` in the cell (lower, lower + step).

        The outcome is an int, 0 or 1, or a float in [0, 1].
        """
        if outcome in (0, 1):
            settle, outcome = self.machine.settle, int(outcome)
        else:
            settle = self.machine.settle_share
            self._expect_shares()
        moved = 0 if self._window is None else self.memory[MOVED]
        while (p := settle(self.memory, lower, step, outcome, forecast)) == FULL:
            self.grow()
        self._probability = p
        if self._window is not None:
            lower, step = self.machine.rules.in_units(self.memory, lower, step)
            self._window.follow(self.memory, lower, step, outcome, moved)

    def _expect_shares(self) -> None:
        """Make the memory ready for outcomes that are neither 0 nor 1."""
        memory = self.machine.rules.refined(self.memory, self.slack_of(self.memory))
        if memory is not self.memory:
            self.memory = memory
            if self._window is not None:
                self._window.suit(memory)

    def learn_one(self, x: Any, y: Any) -> None:
        """Settle the round that `predict_proba_one` answers; the features x are not looked at.

        Raises ValueError, and learns nothing, when y is not 0, 1, False, True or a number between.
        """
        try:
            outcome = OUTCOMES[y]
        except (KeyError, TypeError):
            share = share_of(y, "y")
            self.note_late(len(self._open))
            self.settle(int(self.memory[LOWER]), int(self.memory[STEP]), share, self._probability)
            return
        if self._open:
            self.note_late(len(self._open))
        if self._window is not None:
            self.settle(self.memory[LOWER], self.memory[STEP], outcome, self._probability)
            return
        p = self.machine.advance(self.memory, outcome)
        while p == FULL:
            self.grow()
            p = self.machine.advance(self.memory, outcome)
        self._probability = p

    def predict_proba_one(self, x: Any) -> dict[bool, float]:
        """The forecast of the coming round, as the probabilities of False and True."""
        p = self._probability
        return {False: 1.0 - p, True: p}

    def _replay(
        self, outcomes: ArrayLike, hints: ArrayLike | None = None, charged: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Play a whole sequence: the forecasts, and the charged points if wanted (else empty)."""
        played = check_shares(outcomes)
        advice = np.empty(0) if hints is None else check_probabilities(hints, "hints")
        if hints is not None:
            check_same_length(advice, played, "hints and outcomes")
            self.expect_hints()
        if played.dtype != np.uint8:
            self._expect_shares()
        forecasts = np.empty(len(played))
        points = np.empty(len(played) if charged else 0)
        tapes = played, advice, np.empty(0), forecasts, points
        # where the accumulators might not bear it all, what is played is a copy
        fits = len(played) <= certain_rounds(self.memory)
        memory = self.memory if fits else self.memory.copy()
        self.note_late(len(self._open))
        try:
            if self._window is None:
                memory = play(memory, tapes)
            else:
                window = self._window if fits else deepcopy(self._window)
                memory = play_with_window(memory, window, tapes)
                self._window = window
            self.memory = memory
        finally:
            self.resume()
        return forecasts, points

    def note_late(self, others: int) -> None:
        """Take into the guarantee that so many `others` were open when a forecast was issued."""
        self._late = max(self._late, others)

    def promise(self, rounds: int) -> float:
        """The a-priori bound on distance plus bias after so many rounds, a sum."""
        return self.promise_for(self.memory, rounds, self._late)

    def window_promise_for(
        self, memory: NDArray[np.int64], late: int, rounds: int | None = None
    ) -> float | None:
        """The bound on any so many consecutive rounds (None: `window`) of such a memory, if it has one."""
        if self.window is None:
            return None
        return self._terms(memory).window_promise(memory, self.window if rounds is None else rounds, late)

    def promise_for(self, memory: NDArray[np.int64], rounds: int, late: int) -> float:
        """The same for a memory that began as a copy of this forecaster's, with so many forecasts late."""
        return self._terms(memory).promise(memory, rounds, late)

    @property
    def most_rounds(self) -> int:
        """How many rounds this setting bears in all, whatever comes; the one after that may be refused.

        Its accumulators are integers of 64 bits. On a uniform grid of m cells they bear about 2^31 m rounds
        (2^32 m with the midpoint); grids without a horizon 2^43, unless slack or late labels are so great
        that the guarantee passes 2^25 before.
        """
        return self._terms(self.memory).most_rounds(self.memory, self._late)

    @property
    def n_rounds(self) -> int:
        """How many rounds have been settled."""
        return int(self.memory[ROUNDS])

    @property
    def look_ahead(self) -> LookAhead:
        """The bias table: what One-Step-Ahead would have reported so far, and its bias at each point."""
        return look_ahead_of(self.memory)
