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
from onlinecal.validation import check_flag, check_probability, share_of


class AlmostOneStepAhead(Announcing, GridForecaster):
    """Forecast outcomes 0 and 1, calibrated within a proven bound whatever they are: Almost-One-Step-Ahead.

    Each forecast lies in a cell, between two neighbouring points of a grid on [0, 1]. Once the outcome is
    known the round is *charged* to the point of the cell that is nearest to it: to the lower end for 0, to
    the upper end for 1. The bias of a point is the sum of (point - outcome) over the rounds charged to it.
    The forecaster picks cells such that no bias grows beyond a constant. So the charged points are nearly
    calibrated, and the forecasts are close to them: their distance to calibration, which is the least sum of
    |forecast - q| to numbers q that are perfectly calibrated, is small on any outcomes.

    All sums are over rounds: divide by `n_rounds` for averages.

    Parameters
    ----------
    horizon
        How many rounds will be played, if known, at least 1: the grid is then the one with the smallest
        guarantee for so many rounds, the graded one from 34 on. (With hints, the sign rule or a report that
        is set it is uniform.) More rounds may be played, for a larger guarantee.
    n_cells
        Number of cells m of a uniform grid, from 1 to 2^28, instead of the one that the horizon suggests. A
        horizon beside it, or beside the grid "nested" or "adaptive", only says for how many rounds
        `guarantee` speaks.
    grid
        "uniform" (needs horizon, n_cells or window); "graded" (needs a horizon or a window; finer in the
        middle, cells report their ends; made for outcomes 0 and 1); "nested" (no horizon needed: a graded
        grid whose cells are halved as rounds go by; with hints, the sign rule or a report that is set a
        uniform one); "adaptive" (no horizon needed: tunes itself, finer where few points are in use). "auto"
        is the better one of graded and uniform if horizon, n_cells or window is given, else adaptive.
    rule
        When a point may be charged. "balanced": as long as its bias stays within the slack. "sign", the rule
        of the paper: with 0 while its bias is not above 0, with 1 while it is not below 0; biases stay
        within 1, and the slack is not used.
    slack
        Bound on a point's bias under the balanced rule, from 0.5 to 1000. More slack follows hints more
        closely, for a weaker guarantee. None: 0.5, which has the least guarantee; with hints=True the slack
        that costs least skill, 1.5 on the adaptive grid and 1 on others. With slack None and hints=True on
        the nested and the adaptive grid it then grows with late labels, to sqrt(1 + 4 D) times as much once
        D other forecasts were open when one was issued (docs/theory.md, Theorem 15a).
    report
        Which point of the cell to announce: its "midpoint", its "lower" or "upper" end (as in the paper), or
        the "hint" itself, moved into the cell (the midpoint where there is none), which needs hints=True.
        None: the midpoint, on a graded grid the end that is nearer to 0 or 1, with hints=True the hint.
    window
        Keep a certificate of the last so many settled rounds, too, from 1 to 2^24. Without horizon and
        n_cells the grid is then the fixed one that is best for windows of that length (unless `grid` asks
        for another), which bounds every one of them beforehand: W rounds in a row, at whatever time, are
        within about sqrt(W) of calibrated, 2 sqrt(2 W) with hints, by default. The guarantee of all rounds
        together then grows as fast as the rounds. None: there is none.
    hints
        Whether `forecast` and `replay` take hints, probabilities of outcome 1 that forecasts follow as far as
        calibration allows. True: slack and report, where they are None, are those for hints, and where one of
        them is None the adaptive grid refines more eagerly. A round without a hint then gets the permitted
        cell nearest to that of the round that was settled last, before any the cell nearest to 1/2. False:
        hints are refused.

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
        """A proven upper bound on the distance to calibration of the settled rounds, a sum over rounds.

        The distance is the least sum of |forecast - q| to numbers q that are perfectly calibrated. When a
        round is settled it is charged to the point of its cell that is nearest to the outcome: to the lower
        end for 0, to the upper end for 1. The bound is the sum over rounds of |forecast - point charged|,
        plus the sum over points of |bias|, where a bias is the sum of (point - outcome) over the rounds
        charged to the point. It is 0.0 before the first round.
        """
        return float(certificate(self.memory))

    def decision_certificate(self, width: float, *, normalize: bool = False) -> float:
        """How far promised and realised costs of acting on a threshold can be apart, a sum over rounds.

        Who acts where forecast >= threshold + U, with U uniform in [-`width`/2, `width`/2], pays the
        threshold if the outcome is then 0; who does not act pays 1 - threshold if it is 1. For any threshold
        in [0, 1] the mean costs over U, as the forecasts promise them and as outcomes made them, differ in
        sum over the settled rounds by at most the number that is returned, (1 + 1/width) times `certificate`.
        With normalize=True that is divided by the number of rounds, since the costs of `threshold_costs` are
        averages. It is 0.0 before the first round. Raises ValueError unless 0 < width <= 1. docs/theory.md,
        Theorem 4c.
        """
        certificate = self.certificate / (max(self.n_rounds, 1) if check_flag(normalize, "normalize") else 1)
        return decision_bound(certificate, width)

    @property
    def guarantee(self) -> float:
        """What `certificate` cannot exceed, whichever outcomes 0 and 1 come: a sum over rounds.

        With a horizon it is the bound after `horizon` rounds, or after `n_rounds` once these are more;
        otherwise the bound after `n_rounds`, which grows with them. It allows for the most forecasts that
        were ever open at once, also if they were withdrawn.

        The first outcome between 0 and 1 raises it: by a trifle, or on a graded grid by more, since that
        splits the grid's wide cells. For streams of such outcomes `grid="uniform"` has the smaller bound.
        """
        return self._promise(max(self.horizon or 0, self.n_rounds))

    @property
    def window_certificate(self) -> float | None:
        """A proven upper bound on the distance to calibration of the last `window` settled rounds, a sum.

        It is the sum over these rounds of |forecast - point charged|, where a round is charged to the point
        of its cell that is nearest to the outcome, plus the sum over points of |change of the bias in these
        rounds|. With fewer rounds so far it is of all of them, 0.0 before the first. None if the forecaster
        was made without a window.
        """
        return self._window_certificate_at(None)

    @property
    def window_guarantee(self) -> float | None:
        """What the distance to calibration of any `window` rounds in a row cannot exceed, a sum over them.

        It bounds `window_certificate` too, whatever outcomes come. Rounds are in a row in the order in which
        they are settled. It includes what hints and forecasts that were open at once may cost. None if the
        forecaster was made without a window, and on grids that change ("nested", "adaptive"), which promise
        nothing of windows, though `window_certificate` holds there, too.
        """
        return self._window_promise(self.window or 0)

    def _window_promise(self, rounds: int) -> float | None:
        """The same for another number of consecutive rounds."""
        return None if self.window is None else self._window_promise_of(self.memory, rounds, self._late)

    def forecast(self, hint: float | None = None) -> BinaryForecast:
        """Issue a forecast, a token that is open until `observe` settles it or `withdraw` gives it up.

        Its `probability` is that of outcome 1, and several tokens may be open. Nothing is learnt, but the
        more are open at once, the larger the guarantee becomes. `hint` is a probability of outcome 1, in [0,
        1]. The forecast lies in the cell nearest to it of those that keep all biases bounded. With None the
        forecast is that of `predict_proba_one`. Raises ValueError for any other hint, and for every hint if
        the forecaster was made without hints=True.
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

        The round then counts in `n_rounds` and in the certificates. Raises ValueError, and changes nothing,
        if the forecast is no token, is of another forecaster, or was settled or withdrawn before, or if the
        outcome is no number in [0, 1].
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
        """Forecast and settle a whole sequence of rounds in compiled code, going on from the present state.

        The same as a forecast and its outcome, round by round. Forecasts that are open stay so.

        Parameters
        ----------
        outcomes
            Shape (T,), T at least 1, each 0 or 1 or boolean, or a number between: a share, a rate, a tie as
            1/2.
        hints
            Shape (T,), for each round a probability of outcome 1, in [0, 1]; they need hints=True. None: no
            round has a hint.
        return_look_ahead
            Also return for each round the point that it was charged to, the one of its cell that is nearest
            to the outcome: the lower end for 0, the upper end for 1.

        Returns
        -------
        The forecasts in the order of the outcomes, float64 of shape (T,), each made before its outcome was
        seen; with return_look_ahead a pair of these and the charged points, also of shape (T,).

        Raises
        ------
        ValueError
            If outcomes or hints are no numbers in [0, 1], are empty or differ in length, or hints are given
            without hints=True. Nothing is played then.
        """
        check_flag(return_look_ahead, "return_look_ahead")
        forecasts, charged = self._replay(outcomes, hints, return_look_ahead)
        return (forecasts, charged) if return_look_ahead else forecasts


class OneStepAhead(GridForecaster):
    """A reference that sees the outcome before it chooses between two neighbouring forecasts: One-Step-Ahead.

    It peeks, so it is no forecaster. Before each outcome it fixes a cell, between two neighbouring points of
    a grid on [0, 1]; its answer is the point of the cell that is nearest to the outcome. The sum over points
    of |sum of (answer - outcome)|, the expected calibration error, is at most slack (m - 1) on m cells of a
    uniform grid without hints, under the sign rule less than 3m/4. The answers are the points that an
    AlmostOneStepAhead with the same parameters and report="midpoint" charges, and its forecasts stay within
    half a cell of them. `predict_proba_one`, which must speak before the outcome, gives the midpoint of the
    cell, and `learn_one` settles a round as `answer` does.

    Parameters
    ----------
    horizon
        How many rounds will be played, if known, at least 1: the grid is then the uniform one that suits
        forecasts of so many rounds. None: the grid that tunes itself, unless `n_cells` or `grid` says more.
        With `n_cells`, and on the grids "nested" and "adaptive", it only says for how many rounds `guarantee`
        speaks.
    n_cells
        Number of cells m of a uniform grid, at least 1, instead of the one that the horizon suggests.
    grid
        "uniform" (needs horizon or n_cells), "nested" (cells are halved as rounds go by), "adaptive" (tunes
        itself, finer where few points are in use), or "auto": uniform with horizon or n_cells, else adaptive.
    rule
        When a point may be an answer. "balanced": as long as its bias, the sum of (point - outcome) over its
        rounds, stays within the slack. "sign": to the outcome 0 while its bias is not above 0, to the outcome
        1 while it is not below 0.
    slack
        Bound on a point's bias under the balanced rule, from 0.5 to 1000.
    hints
        Whether rounds may have hints, probabilities near which cells are chosen. Only games against
        adversaries (`onlinecal.simulations`) give any: `answer` and `replay` take none.

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
        if grid == "graded":
            raise ValueError(
                "grid must be one of auto, uniform, nested, adaptive, got 'graded', whose cells report their "
                "ends, where a OneStepAhead reports midpoints"
            )
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
        """The expected calibration error of the answers so far, a sum over rounds, 0.0 before the first.

        It is the sum over points of |sum of (point - outcome) over the rounds that were answered with it|,
        and it bounds the distance to calibration of the answers.
        """
        return bias_part(self.memory)

    @property
    def guarantee(self) -> float:
        """What `certificate` cannot exceed, whatever outcomes come: a sum over rounds.

        On a uniform grid of m cells it is slack (m - 1), with hints=True at most 1 more, and under the sign
        rule less than 3m/4, at any time. On a nested grid it is the same for the finest grid so far. On the
        adaptive grid it is the guarantee of an AlmostOneStepAhead with the same parameters. On both it is
        that after `horizon` rounds until these are played.
        """
        return self._promise(max(self.horizon or 0, self.n_rounds))

    def answer(self, outcome: SupportsFloat) -> float:
        """Play the next round, whose outcome is a number in [0, 1], False or True, and return the answer.

        The answer is a number in [0, 1], the point of the round's cell that is nearest to the outcome. The
        round is settled. Raises ValueError, and settles nothing, if the outcome is no number in [0, 1].
        """
        share = share_of(outcome)
        # whole numbers are checked sooner as such
        played = int(share) if share in (0.0, 1.0) else share
        return float(self._replay([played], charged=True)[1][0])

    def replay(self, outcomes: ArrayLike) -> NDArray[np.float64]:
        """Play a sequence of outcomes, shape (T,) with T at least 1, each in [0, 1], and return the answers.

        They are float64 of shape (T,), in the order of the outcomes. It goes on from the present state, and
        the rounds are settled. Raises ValueError, and plays nothing, if outcomes are empty or one is no
        number in [0, 1].
        """
        return self._replay(outcomes, charged=True)[1]
