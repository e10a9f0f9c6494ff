"""What AlmostOneStepAhead and OneStepAhead share: parameters, memory, replay and the methods for river.

Invariant: `memory` belongs to `machine`. Without hints `_probability` is the forecast of the memory's coming
round; with hints `_coming` works it out anew when it is asked for. Whoever lets a compiled loop play on the
memory calls `_resume` afterwards. If something fails while a sequence is played, memory and window are as
they were before.

Who lets loops play: `_play` here, duels (`simulations/games/duel.py`) and projections of the wrappers
(`wrappers/strategies/projection.py`), which also settle single rounds by `_charge` and never ask for
`_probability`. They may put another memory in place of `memory` (`_grow`), so it is not kept from call to
call. A round is `_note_late` with the number of other open forecasts, then the forecast, and when the outcome
is known `_settle`, which also has the window follow. `_late` and `_open` are not in the memory: they are what
the guarantee and the tokens need besides. `__setstate__` checks a memory that comes from a pickle
(`soundness`); the machine is not in it, but is found by FORMAT.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from river import base

from onlinecal.forecasters.binary import cells
from onlinecal.forecasters.binary.cells import LOWER, NO_HINT, ROUNDS, STEP, TABLE, ReportChoice
from onlinecal.forecasters.binary.choice import Grid, GridSettings, Rule
from onlinecal.forecasters.binary.compiled import enlarged, machine_of
from onlinecal.forecasters.binary.full_table import cells_of
from onlinecal.forecasters.binary.soundness import check_grid_memory
from onlinecal.forecasters.binary.windows import NO_TABLE, Window
from onlinecal.forecasters.rules import (
    NO_ROOM,
    Rules,
    check_expected,
)
from onlinecal.forecasters.tokens import BinaryForecast, OpenForecasts
from onlinecal.restoring import Restored, require
from onlinecal.tables.columns import check_probabilities, check_same_length, check_shares
from onlinecal.validation import OUTCOMES, share_of


class LookAhead(NamedTuple):
    """The points of a grid and their biases, two float64 arrays of shape (V,) for V points.

    `points` are in [0, 1] and ascending. `biases` has for each point the sum of (point - outcome) over the
    rounds that were charged to it, which is 0.0 for a point without rounds.
    """

    points: NDArray[np.float64]
    biases: NDArray[np.float64]


class GridForecaster(Restored, base.Classifier):
    """A forecaster on a grid machine; subclasses say what it reports and what it promises."""

    _window: Window | None = None

    def __init__(
        self,
        horizon: int | None,
        n_cells: int | None,
        grid: Grid,
        rule: Rule,
        slack: float | None,
        report: ReportChoice | None,
        window: int | None = None,
        hints: bool = False,
    ) -> None:
        settings = GridSettings(horizon, n_cells, grid, rule, slack, report, window, hints).checked()
        self.horizon, self.n_cells, self.grid = settings.horizon, settings.n_cells, settings.grid
        self.rule, self.slack = settings.rule, settings.slack
        self.window, self.hints = settings.window, settings.hints
        self._slack, self._terms = settings.slack_in_use, settings.terms
        self._open = OpenForecasts(BinaryForecast)
        self._late = 0
        self._adopt(settings.new_memory())
        if settings.grid_stays and self.horizon is not None and self.horizon > self._most_rounds:
            raise ValueError(
                f"horizon must be at most {self._most_rounds}, as many rounds as the integers of a grid of "
                f"{cells_of(self.memory)} cells bear, got {self.horizon!r}"
            )
        if self.window is not None:
            self._window = Window(self.window, self.memory)

    def _adopt(self, memory: NDArray[np.int64]) -> None:
        self.memory = memory
        self.machine = machine_of(memory)
        self._probability = 0.5
        self._resume()

    @property
    def _rules(self) -> Rules:
        """The functions that compiled loops drive the memory with."""
        return self.machine.rules_for(self.hints)

    def _draws(self, number: int) -> NDArray[np.float64]:
        """A deterministic forecaster draws nothing, whatever `number` is asked for."""
        return np.empty(0)

    def _grow(self) -> None:
        """Double the memory, when a compiled loop has found it full."""
        self.memory = enlarged(self.memory)

    def _resume(self) -> None:
        """Take up the memory again after a compiled loop has played on it."""
        # the current cell's report is plain Python: nobody shall wait for a kernel to be compiled here
        lower, step = int(self.memory[LOWER]), int(self.memory[STEP])
        self._probability = float(cells.report(self.memory, lower, step, NO_HINT))

    def _refined(self, memory: NDArray[np.int64]) -> NDArray[np.int64]:
        """A memory that began as a copy of this forecaster's, ready for outcomes that are neither 0 nor 1."""
        return self.machine.rules.refined(memory, self._slack)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["machine"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        like = type(self)(**self._get_params())
        check_grid_memory(self.memory, like.memory, like._slack)
        if self.window is not None:
            require(isinstance(self._window, Window), "its window")
            self._window.check(self.window, self.memory)  # type: ignore[union-attr]
        self.machine = machine_of(self.memory)

    def _settle(self, lower: int, step: int, outcome: float, forecast: float) -> None:
        """Charge a round that was reported as `forecast` in the cell (lower, lower + step).

        The outcome is an int, 0 or 1, or a float in [0, 1].
        """
        if outcome not in (0, 1):
            self._expect_shares()
        round_played = lower, step, float(outcome), forecast
        if self._window is None:
            self._probability = self._charge(self.machine.settle, *round_played)
        else:
            settle = self.machine.settle
            self._probability = self._charge_in_window(None, lower, step, outcome, settle, *round_played)

    def _charge(self, entry: Callable[..., float], *arguments: Any) -> float:
        """Have an entry point charge a round, once there is room for it, and give back its answer.

        The entry point gets the memory and these arguments.
        """
        while (answer := entry(self.memory, *arguments)) == NO_ROOM:
            self._grow()
        return answer

    def _charge_in_window(
        self,
        now: int | None,
        lower: int,
        step: int,
        outcome: float,
        entry: Callable[..., float],
        *arguments: Any,
    ) -> float:
        """`_charge` a round of the cell (lower, lower + step), and let the window follow.

        `now` is the round's moment in the window; None: how many rounds this forecaster has settled.
        """
        moved = self.memory[cells.MOVED]
        answer = self._charge(entry, *arguments)
        lower, step = self.machine.rules.in_units(self.memory, lower, step)
        self._window.follow(self.memory, lower, step, outcome, moved, now)  # type: ignore[union-attr]
        return answer

    def _expect_shares(self) -> None:
        """Make the memory ready for outcomes that are neither 0 nor 1."""
        memory = self._refined(self.memory)
        if memory is not self.memory:
            self.memory = memory
            if self._window is not None:
                self._window.suit(memory)

    def learn_one(self, x: Any, y: Any) -> None:
        """Settle the coming round, whose forecast is that of `predict_proba_one`, with the outcome y.

        y is 0, 1, False, True or a number between. `predict_proba_one` need not have been called, and the
        features x are not looked at. Open tokens of `forecast` stay open. Raises ValueError, and learns
        nothing, for any other y.
        """
        try:
            outcome: float = OUTCOMES[y]
        except (KeyError, TypeError):
            outcome = share_of(y, "y")
        self._note_late(len(self._open))
        if self.hints or self._window is not None or outcome not in (0, 1):
            self._settle(*self._coming(), outcome, self._probability)
            return
        # this is `_charge` without the call, which would take a fifth of such an event
        while (probability := self.machine.advance(self.memory, outcome)) == NO_ROOM:
            self._grow()
        self._probability = probability

    def _coming(self) -> tuple[int, int]:
        """The cell of the coming round if it has no hint; `_probability` becomes its forecast."""
        if not self.hints:
            return int(self.memory[LOWER]), int(self.memory[STEP])
        lower, step, self._probability = self.machine.issue(self.memory, NO_HINT)
        return lower, step

    def predict_proba_one(self, x: Any) -> dict[bool, float]:
        """The forecast of the coming round, as a dict with the probabilities of False and True.

        Asking again answers the same until a round is settled or a forecast is issued, and the features x are
        not looked at. `learn_one` settles that round.
        """
        if self.hints:
            self._note_late(len(self._open))
            self._coming()
        p = self._probability
        return {False: 1.0 - p, True: p}

    def _replay(
        self, outcomes: ArrayLike, hints: ArrayLike | None = None, charged: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Play a whole sequence, or nothing of it: the forecasts, and if wanted the charged points."""
        played = check_shares(outcomes)
        advice = np.full(len(played) if self.hints else 0, NO_HINT)
        if hints is not None:
            check_expected(self.hints, "hints")
            advice = check_probabilities(hints, "hints")
            check_same_length(advice, played, "hints and outcomes")
        self._note_late(len(self._open))
        forecasts, points = np.empty(len(played)), np.empty(len(played) if charged else 0)
        tapes: tuple[NDArray[Any], ...] = played, advice, forecasts, points
        first_share = len(played)
        if played.dtype != np.uint8 and not self.machine.rules.takes_shares(self.memory):
            first_share = int(np.argmax((played > 0.0) & (played < 1.0)))
        memory, table = self.memory.copy(), NO_TABLE if self._window is None else self._window.table.copy()
        try:
            self._play(*(tape[:first_share] for tape in tapes))
            if first_share < len(played):
                self._play_share(*(tape[first_share:] for tape in tapes))
                self._play(*(tape[first_share + 1 :] for tape in tapes))
        except BaseException:
            self.memory = memory
            if self._window is not None:
                self._window.table = table
            raise
        finally:
            self._resume()
        return forecasts, points

    def _play(self, *tapes: NDArray[Any]) -> None:
        """Play outcomes and hints, and fill forecasts and charged points, as in `compile_replay`."""
        outcomes, hints, *_ = tapes
        machine, window, beside, done = self.machine, self._window, NO_TABLE, 0
        replay, guide = machine.replay, None
        if window is not None or outcomes.dtype != np.uint8:
            # one kernel serves both kinds of outcomes
            replay, tapes = machine.replay_shares, (outcomes.astype(np.float64, copy=False), *tapes[1:])
        elif len(hints) and machine.guide is not None:
            replay, guide = machine.replay_hinted, machine.guide
            beside = guide.new_guide(self.memory, len(outcomes))
        while True:
            if window is not None:
                beside = window.table
            done = replay(self.memory, beside, *tapes, done)
            if done == len(outcomes):
                break
            if not machine.rules.has_room(self.memory):
                self._grow()
            if window is not None:
                window.prepare(self.memory, self.n_rounds, self.n_rounds + 1)
        if guide is not None:
            guide.leave(self.memory)

    def _play_share(self, *tapes: NDArray[Any]) -> None:
        """Play the first of these outcomes, which is the first share: its forecast comes before `refined`."""
        outcomes, hints, forecasts, charged = tapes
        lower, step, forecast = self.machine.issue(self.memory, hints[0] if len(hints) else NO_HINT)
        ends = lower / self.memory[cells.SCALE], (lower + step) / self.memory[cells.SCALE]
        forecasts[:1], charged[:1] = forecast, np.clip(outcomes[0], *ends)
        self._settle(lower, step, float(outcomes[0]), forecast)

    def _window_certificate_at(self, now: int | None) -> float | None:
        """A proven bound on the distance of the rounds in the window of this moment, a sum; None without one.

        `now` is as in `_charge_in_window`.
        """
        return None if self._window is None else self._window.certificate(self.memory, now)

    def _note_late(self, others: int) -> None:
        """Allow in the guarantee for so many `others` that were open when a forecast was issued."""
        self._late = max(self._late, others)
        if self.memory[cells.GROWING_SLACK] and others > self.memory[cells.LATE]:
            self.machine.rules.note_late(self.memory, others)

    def _promise(self, rounds: int) -> float:
        """The bound on distance plus bias after so many rounds that is known beforehand, a sum."""
        return self._promise_of(self.memory, rounds, self._late)

    def _promise_of(self, memory: NDArray[np.int64], rounds: int, late: int) -> float:
        """The same for a memory that began as a copy of this forecaster's, with so many labels late."""
        return float(self.machine.rules.promise(memory, self._terms, rounds, late))

    def _window_promise_of(self, memory: NDArray[np.int64], rounds: int, late: int) -> float | None:
        """The bound on so many consecutive rounds of such a memory; None on a grid that promises none."""
        return self.machine.rules.window_promise(memory, self._terms, rounds, late)

    @property
    def _most_rounds(self) -> int:
        """How many rounds this setting bears in all, whatever comes; the one after that may be refused.

        Its accumulators are integers of 64 bits. On a uniform grid of m cells they bear about 2^31 m rounds
        (2^32 m with the midpoint). On grids without a horizon they bear 2^43, unless slack or late labels are
        so great that the guarantee exceeds 2^25 before.
        """
        return self.machine.rules.most_rounds(self.memory, self._terms, self._late)

    @property
    def n_rounds(self) -> int:
        """How many rounds have been settled."""
        return int(self.memory[ROUNDS])

    @property
    def look_ahead(self) -> LookAhead:
        """The points of the grid, ascending, and their biases, as of the settled rounds so far.

        A round is charged to the point of its cell that is nearest to the outcome: to the lower end for 0, to
        the upper end for 1. The bias of a point is the sum of (point - outcome) over the rounds charged to
        it; an outcome within its cell adds to none. It is a new pair of arrays `points` and `biases`, which
        later rounds do not change.
        """
        memory = self.memory
        scale = int(memory[cells.SCALE])
        points, sums = memory[TABLE : memory[cells.END] : 2], memory[TABLE + 1 : memory[cells.END] : 2]
        return LookAhead(points / scale, (sums - memory[cells.TILT] * points) / scale)
