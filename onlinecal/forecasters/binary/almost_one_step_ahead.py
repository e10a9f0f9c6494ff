"""The deterministic forecaster whose distance to calibration is bounded on every outcome sequence.

The module also has the reference that it shadows, which answers after it has seen the outcome. Both classes
hold one array of integers, the memory, and call compiled rules on it (`grid`, `compiled`). The rules are in
the modules of the grids: `uniform`, `graded`, `nested` and `dyadic`. The paper's rule, which finds the valid
cell, is `full_table.make_valid`; `onlinecal.reference` has the algorithm in plain Python.

`grid` says who writes the state of either class. Here `forecast` opens a token, and may change the slack by
`_note_late`; `observe` charges its cell and closes it, in this order, so a round that is refused stays open.
A token has its cell in the units of the memory when it was issued, which `settle` brings up to date.
Properties only read, but for `window_certificate`, which forgets rounds that have left the window.
"""

from __future__ import annotations

from typing import Literal, SupportsFloat, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.decisions import decision_bound
from onlinecal.forecasters.binary.cells import NO_HINT, SCALE, ReportChoice, bias_part, certificate
from onlinecal.forecasters.binary.choice import Grid, Rule
from onlinecal.forecasters.binary.grid import GridForecaster
from onlinecal.forecasters.rules import Rules, check_expected
from onlinecal.forecasters.tokens import Announcing, BinaryForecast
from onlinecal.validation import check_probability, share_of


class AlmostOneStepAhead(Announcing, GridForecaster):
    """Forecast outcomes 0 and 1, calibrated within a proven bound whatever they are: Almost-One-Step-Ahead.

    The forecaster picks a cell, two neighbouring grid points, such that it may charge the round to the
    lower one if the outcome is 0 and to the upper one if it is 1 without any point's bias growing
    beyond a constant. It announces a point of the cell. What it announces is close to what it charges,
    and what it charges is nearly calibrated; so its distance to calibration is small, on any outcomes.

    All sums are over rounds: divide by `n_rounds` for averages.

    Parameters
    ----------
    horizon
        How many rounds will be played, if known: the grid is then the one with the best promise for so many
        rounds, the graded one from 34 on. (With hints, the sign rule or a report that is set it is uniform.)
    n_cells
        Number of cells m of a uniform grid, at least 1, instead of the one that the horizon suggests.
    grid
        "uniform" (needs horizon or n_cells); "graded" (needs a horizon or a window; finer in the middle,
        cells report their ends; made for outcomes 0 and 1); "nested" (no horizon: a graded grid whose
        cells are halved as rounds go by; with hints, the sign rule or a report that is set a uniform one);
        "adaptive" (no horizon: tunes itself, finer where few points are in use); "auto" is
        the better one of graded and uniform if it can be, else adaptive.
    rule
        When a point may be charged. "balanced" keeps every bias within the slack; "sign" is the rule
        of the paper and keeps it within 1.
    slack
        Bound on a point's bias under the balanced rule, at least 0.5. More slack follows hints more
        closely, for a weaker guarantee. None: 0.5, which has the least guarantee; with hints=True the slack
        that costs least skill, 1.5 on the grid that tunes itself and 1 on others. With hints on grids without
        a horizon it then grows with late labels, to sqrt(1 + 4 D) times as much once D other forecasts were
        open when one was issued (docs/theory.md, Theorem 15a).
    report
        What to announce: "midpoint" of the cell, its "lower" or "upper" end (as in the paper), or the
        "hint" itself, moved into the cell (the midpoint where there is none), which needs hints=True. None:
        the midpoint, on a graded grid the end that is nearer to 0 or 1, with hints=True the hint.
    window
        Keep a certificate of the last so many settled rounds, too; at most 2^24. Without horizon and n_cells
        the grid is then the fixed one that is best for windows of that length (unless `grid` asks for
        another), which bounds every one of them beforehand: W rounds in a row, at whatever time, are within
        about sqrt(W) of calibrated, 2 sqrt(2 W) with hints, by default. The guarantee of all rounds together
        then grows as fast as the rounds.
    hints
        Whether rounds may have hints, probabilities that forecasts follow as far as calibration allows. True:
        slack and report, where nobody sets them, are those for hints, and where one of them is not set the
        grid that tunes itself refines more eagerly. A round without a hint then gets the valid cell nearest
        to that of the round that was settled last, before any the cell nearest to 1/2. False: hints are
        refused.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    Examples
    --------
    >>> from onlinecal import AlmostOneStepAhead
    >>> forecaster = AlmostOneStepAhead()
    >>> for y in [True, True, False, True] * 250:
    ...     forecaster.learn_one({}, y)
    >>> round(forecaster.predict_proba_one({})[True], 2)
    0.75
    >>> forecaster.certificate < forecaster.guarantee < (3 * 1000) ** 0.5
    True

    What an average since the beginning no longer shows, a window does:

    >>> forecaster = AlmostOneStepAhead(window=1000)
    >>> _ = forecaster.replay([0, 1, 1, 0] * 25_000)
    >>> forecaster.window_certificate <= forecaster.window_guarantee <= (2 * 1000) ** 0.5
    True

    A forecast is a token that can be settled later, in any order:

    >>> forecaster = AlmostOneStepAhead(horizon=100, hints=True)
    >>> monday, tuesday = forecaster.forecast(hint=0.8), forecaster.forecast(hint=0.3)
    >>> forecaster.observe(tuesday, 0)
    >>> forecaster.observe(monday, 1)

    References
    ----------
    Arunachaleswaran, Collina, Roth and Shi (2024). An elementary predictor obtaining 2 sqrt(T) + 1
    distance to calibration. The balanced rule, the midpoint report and the self-tuning grid are
    proved in docs/theory.md.
    """

    def __init__(
        self,
        horizon: int | None = None,
        *,
        n_cells: int | None = None,
        grid: Grid = "auto",
        rule: Rule = "balanced",
        slack: float | None = None,
        report: ReportChoice | None = None,
        window: int | None = None,
        hints: bool = False,
    ) -> None:
        super().__init__(horizon, n_cells, grid, rule, slack, report, window, hints)
        self.report = report

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration of the settled rounds so far, a sum over them.

        Sum of |p - p~| from the forecasts to the charged points, plus the charged points' biases.
        """
        return float(certificate(self.memory))

    def decision_certificate(self, width: float, *, normalize: bool = False) -> float:
        """How far promised and realised costs of acting on a threshold can be apart, a sum over rounds.

        The threshold may be any; it is jittered uniformly by up to `width`/2 either way. Costs are those of
        `threshold_costs`; with normalize=True the answer is an average over rounds, as these are. Raises
        ValueError unless 0 < width <= 1. docs/theory.md, Theorem 4c.
        """
        certificate = self.certificate / (max(self.n_rounds, 1) if normalize else 1)
        return decision_bound(certificate, width)

    @property
    def guarantee(self) -> float:
        """What the certificate cannot exceed, whichever outcomes 0 and 1 come: a sum, known beforehand.

        On a graded grid the first outcome between 0 and 1 raises it, since that splits the grid's wide cells.
        For streams of such outcomes `grid="uniform"` has the smaller bound.
        On a fixed grid with a horizon this is the bound at the horizon (or at the present round,
        once that is later); otherwise the bound at the present round. If several forecasts have been open at
        once, it includes what that may cost.
        """
        return self._promise(max(self.horizon or 0, self.n_rounds))

    @property
    def window_certificate(self) -> float | None:
        """A proven upper bound on the distance to calibration of the last `window` settled rounds, a sum.

        Sum of |p - p~| over these rounds, plus for each point by how much its bias differs from what it was
        before them. With fewer rounds so far it is of all of them; None without a window.
        """
        return self._window_certificate_at(None)

    @property
    def window_guarantee(self) -> float | None:
        """What the distance of any `window` consecutive rounds cannot exceed, whatever comes: a sum.

        It bounds `window_certificate` too. Rounds are consecutive in the order in which they are settled. If
        several forecasts have been open at once, or hints let points without bias accept both outcomes, it
        includes what that may cost. None without a window, and on grids that change ("nested", "adaptive"):
        these promise nothing of windows, though `window_certificate` holds there, too.
        """
        return self._window_promise(self.window or 0)

    def _window_promise(self, rounds: int) -> float | None:
        """The same for another number of consecutive rounds."""
        return None if self.window is None else self._window_promise_of(self.memory, rounds, self._late)

    def forecast(self, hint: float | None = None) -> BinaryForecast:
        """Issue a forecast, a token; `observe` settles it, and until then it is open.

        Nothing is learnt; the more forecasts are open at once, the larger is the guarantee. With a hint, a
        probability in [0, 1], a point of the valid cell nearest to it is announced. Without one it is the
        forecast of `predict_proba_one`. Raises ValueError for any other hint, and for one to a forecaster
        that was made without hints=True.
        """
        guide = NO_HINT
        if hint is not None:
            check_expected(self.hints, "hint")
            guide = check_probability(hint, "hint")
        self._note_late(len(self._open))
        lower, step, probability = self.machine.issue(self.memory, guide)
        scale = int(self.memory[SCALE])
        ends = lower / scale, (lower + step) / scale
        return BinaryForecast(
            probability, *ends, None if hint is None else guide, *self._open.issue(), (lower, step)
        )

    def observe(self, forecast: BinaryForecast, outcome: SupportsFloat) -> None:
        """Settle a forecast with its outcome, a number in [0, 1], False or True; each once, in any order.

        The round is charged to the forecast's cell. Raises ValueError, and changes nothing, if the forecast
        is of another forecaster or was settled or withdrawn before, or if the outcome is no number in [0, 1].
        """
        self._open.check(forecast)
        self._settle(*forecast.cell, share_of(outcome, "outcome"), forecast.probability)
        self._open.close(forecast)

    @overload
    def replay(
        self,
        outcomes: ArrayLike,
        hints: ArrayLike | None = None,
        *,
        return_look_ahead: Literal[False] = False,
    ) -> NDArray[np.float64]: ...
    @overload
    def replay(
        self, outcomes: ArrayLike, hints: ArrayLike | None = None, *, return_look_ahead: Literal[True]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    def replay(
        self, outcomes: ArrayLike, hints: ArrayLike | None = None, *, return_look_ahead: bool = False
    ) -> NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Play a whole sequence in compiled code, going on from the present state.

        Parameters
        ----------
        outcomes
            Shape (T,), each 0 or 1 or boolean, or a number between: a share, a rate, a tie as 1/2.
        hints
            Shape (T,), each in [0, 1], or None; they need hints=True.
        return_look_ahead
            Also return the charged points, shape (T,): what a One-Step-Ahead on this grid would have said.

        Returns
        -------
        The forecasts in the order of the outcomes, shape (T,); with return_look_ahead a pair of these and the
        charged points. The rounds are settled then.

        Raises
        ------
        ValueError
            If outcomes or hints are no numbers in [0, 1] or differ in length, or hints are given without
            hints=True. Nothing is played then.
        """
        forecasts, charged = self._replay(outcomes, hints, return_look_ahead)
        return (forecasts, charged) if return_look_ahead else forecasts


class OneStepAhead(GridForecaster):
    """A reference that sees the outcome before it chooses between two neighbouring forecasts: One-Step-Ahead.

    It peeks, so it is no forecaster. But its answers are almost calibrated in the strict sense (expected
    calibration error, a sum, at most c (m - 1) with m cells and the slack c, for the sign rule 3m/4), and
    Almost-One-Step-Ahead stays close to them. Its answers are the look-ahead sequence of an
    AlmostOneStepAhead with the same parameters that reports midpoints. (For other reports a horizon suggests
    other grids; n_cells makes them the same.) `predict_proba_one`, which must speak before the outcome, gives
    the midpoint of the cell.

    Parameters
    ----------
    horizon, n_cells, grid, rule, slack, hints
        As in AlmostOneStepAhead: rounds to be played if known, cells of a uniform grid, the grid's kind, when
        a point may be charged, how large a bias may grow (0.5 by default), and whether rounds may have hints,
        which are given in games alone.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    Examples
    --------
    >>> from onlinecal import OneStepAhead
    >>> reference = OneStepAhead(n_cells=4)
    >>> [reference.answer(y) for y in (1, 0, 1)]
    [0.5, 0.5, 0.75]

    References
    ----------
    Arunachaleswaran, Collina, Roth and Shi (2024), section 3; after Gupta and Ramdas (2022).
    """

    def __init__(
        self,
        horizon: int | None = None,
        *,
        n_cells: int | None = None,
        grid: Grid = "auto",
        rule: Rule = "balanced",
        slack: float = 0.5,
        hints: bool = False,
    ) -> None:
        super().__init__(horizon, n_cells, grid, rule, slack, "midpoint", None, hints)
        if self.grid != "adaptive" and (self.grid != "auto" or horizon or n_cells):
            # the answers are the charged points; only the self-tuning grid trades distance for bias
            self._terms = self._terms._replace(reach=0.0)

    @property
    def _rules(self) -> Rules:
        """The functions that compiled loops drive the memory with: the certificate is that of the answers."""
        return super()._rules._replace(certificate=bias_part)

    @property
    def certificate(self) -> float:
        """The expected calibration error of the answers so far, a sum: it bounds their distance."""
        return bias_part(self.memory)

    @property
    def guarantee(self) -> float:
        """What the certificate cannot exceed, a sum over rounds.

        On a uniform or nested grid of m cells it is c (m - 1), with the slack c, and 3m/4 for the sign rule.
        On the self-tuning grid it is the bound of Almost-One-Step-Ahead.
        """
        return self._promise(max(self.horizon or 0, self.n_rounds))

    def answer(self, outcome: SupportsFloat) -> float:
        """The charged point of the next round, whose outcome in [0, 1] is given; the round is settled.

        Raises ValueError, and settles nothing, if the outcome is no number in [0, 1].
        """
        share = share_of(outcome)
        # whole numbers are checked sooner as such
        played = int(share) if share in (0.0, 1.0) else share
        return float(self._replay([played], charged=True)[1][0])

    def replay(self, outcomes: ArrayLike) -> NDArray[np.float64]:
        """The answers to a sequence of outcomes in [0, 1], shape (T,), going on from the present state.

        They have shape (T,), and the rounds are settled. Raises ValueError, and plays nothing, if an outcome
        is no number in [0, 1].
        """
        return self._replay(outcomes, charged=True)[1]
