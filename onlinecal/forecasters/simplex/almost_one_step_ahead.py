"""SimplexAlmostOneStepAhead: the forecaster of several classes, played online, as a river classifier.

What the forecaster has learnt is in `_run` (`simplex/run.py`), and which tokens are open in `_open`. All its
other fields are settings, which never change. `forecast` writes both, and so does `observe`; `withdraw`
writes `_open`; `learn_one` and `replay` write `_run`, which `replay` plays on in a copy. To answer,
`predict_proba_one` may go on to the next grid, if that is due: this changes `_run`, but no answer. What a
method refuses for its arguments leaves both as they were. Pickles have all of it, and `SimplexRun` checks its
part when it comes back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from river import base

from onlinecal.forecasters.binary.windows import MOST_WINDOW
from onlinecal.forecasters.rules import check_expected, check_hints
from onlinecal.forecasters.simplex.guarantees import MOST_CELLS, reach
from onlinecal.forecasters.simplex.input import (
    MOST_CLASSES,
    ClassOutcomes,
    Soft,
    check_distributions,
    check_labels,
    check_slack,
    hint_of,
    outcome_of,
    outcomes_of,
)
from onlinecal.forecasters.simplex.machine.memory import POINT, SCALE, most_rounds, records_of
from onlinecal.forecasters.simplex.run import SimplexRun, replayed
from onlinecal.forecasters.tokens import Announcing, OpenForecasts, SimplexForecast
from onlinecal.remarks import GuaranteeWarning, vacuous_remarks, warn_of
from onlinecal.tables.frames import as_array
from onlinecal.validation import check_choice, check_count, check_flag, check_order

SimplexReport = Literal["barycentre", "hint"]
SIMPLEX_REPORTS: tuple[SimplexReport, ...] = get_args(SimplexReport)
SimplexGrid = Literal["nested", "adaptive"]
NO_HINT_VECTOR = np.empty(0)
NO_HINTS = np.empty((0, 0))


class SimplexLookAhead(NamedTuple):
    """Points that rounds were charged to and their biases, two float64 arrays of shape (V, k) for V points.

    Columns are in the order of the forecaster's `classes`. `points` has the points' probabilities. `biases`
    has for each class the sum over the point's rounds of (probability - y), with y 1 if the class came and 0
    if not.
    """

    points: NDArray[np.float64]
    biases: NDArray[np.float64]


class SimplexAlmostOneStepAhead(Announcing, base.Classifier):
    """Forecast one of k classes, calibrated within a proven bound whatever the classes are.

    A forecast gives each class a probability. It lies in a cell of a grid on the simplex of all such vectors.
    The cell has k corners, which carry the k classes as labels; once the class is known the round is
    *charged* to the corner with its label. A point has a bias for each class: the sum over its rounds of (the
    point's probability - y), with y 1 if the class came and 0 if not. Distances are in l1, summed over the
    classes: with two classes, twice those of `AlmostOneStepAhead`. All sums are over rounds.

    Parameters
    ----------
    n_classes
        k, from 1 to 1,024: the labels are 0, ..., k - 1. Without n_classes and labels, classes are
        discovered: any hashable label may come, and one never met before adds at most 2 to the certificate,
        once.
    n_cells
        Fixes the grid, m, from 1 to 2^20: its points have probabilities that are multiples of 1/m.
    horizon
        How many rounds will be played, if known, at least 1: the grid is the one with the smallest guarantee
        for so many (m is a power of two while classes are being discovered). If that guarantee is no better
        than that of equal probabilities in every round, there is a GuaranteeWarning. Without n_cells and
        horizon grids are nested, m = 1, 2, 4, ..., and the guarantee holds at all times.
    slack
        How far a point's biases may go to follow a hint, from 1 - 1/(2k - 2) (1 if classes are discovered) to
        1000. None: hints do not change which corner carries which class, and the guarantee is the smallest.
        But with hints=True, unless a report is named, the slack then is 4 sqrt(1 + D), where D is the most
        other forecasts that were open when one was issued.
    labels
        The labels, a list of different hashables, if known in advance and not 0, ..., n_classes - 1.
    report
        Which point of the cell to announce: its "barycentre", the mean of its corners; or the "hint" itself,
        and if that is not in the cell the point of the cell whose log loss is least if the hint is right,
        which needs hints=True. None: the barycentre, and with hints=True the hint; with slack None grids are
        then finer, too.
    grid
        Without n_cells, horizon and window: "nested", or "adaptive", which is finer where few points are in
        use. That has far smaller certificates, and a guarantee that is larger by 2k + 4 for k classes in all,
        and by what classes that join later leave behind. It is nested once labels are late.
    window
        Keep a certificate of the last so many settled rounds, too, from 1 to 2^24; it needs n_classes or
        labels. Without n_cells and horizon the grid is then the fixed one that is best for windows of that
        length, and the guarantee of all rounds together grows as fast as the rounds. None: there is none.
    hints
        Whether `forecast` and `replay` take hints, probabilities of the classes that forecasts follow as far
        as calibration allows. True: slack, report and grids that nobody sets are chosen such that hints lose
        least skill, from the first round on, for a larger guarantee. A round without a hint is announced as
        without hints=True: as the barycentre of the current cell, which at first is near equal probabilities.
        False: hints are refused.

    Raises
    ------
    ValueError
        For a bad parameter; the message names it and the value.

    Examples
    --------
    >>> from onlinecal import SimplexAlmostOneStepAhead
    >>> forecaster = SimplexAlmostOneStepAhead()
    >>> forecaster.predict_proba_one({})
    {}
    >>> for y in ["sun", "sun", "rain", "snow"] * 2500:
    ...     forecaster.learn_one({}, y)
    >>> {label: round(p, 1) for label, p in forecaster.predict_proba_one({}).items()}
    {'sun': 0.6, 'rain': 0.2, 'snow': 0.2}
    >>> forecaster.certificate < forecaster.guarantee
    True

    Forecasts can be settled later, in any order:

    >>> forecaster = SimplexAlmostOneStepAhead(labels=["a", "b", "c"], horizon=1000, hints=True)
    >>> monday = forecaster.forecast(hint={"a": 0.7, "b": 0.2, "c": 0.1})
    >>> tuesday = forecaster.forecast()
    >>> forecaster.observe(tuesday, "b")
    >>> forecaster.observe(monday, "a")

    References
    ----------
    Arunachaleswaran, Collina, Roth and Shi (2024), two classes. Tijdeman (1980). The chairman assignment
    problem: the labels. docs/theory-simplex.md has the proofs.
    """

    # on the class, too, since they are public names of it (`tests.corpus` lists them)
    grid: SimplexGrid = "nested"
    window: int | None = None

    def __init__(
        self,
        n_classes: int | None = None,
        *,
        n_cells: int | None = None,
        horizon: int | None = None,
        slack: float | None = None,
        labels: Sequence[Any] | None = None,
        report: SimplexReport | None = None,
        grid: SimplexGrid = "nested",
        window: int | None = None,
        hints: bool = False,
    ) -> None:
        check_choice(SIMPLEX_REPORTS[0] if report is None else report, SIMPLEX_REPORTS, "report")
        check_hints(hints, report)
        check_choice(grid, get_args(SimplexGrid), "grid")
        if n_classes is not None:
            n_classes = check_count(n_classes, "n_classes", most=MOST_CLASSES)
        if n_cells is not None:
            n_cells = check_count(n_cells, "n_cells", most=MOST_CELLS)
        if horizon is not None:
            horizon = check_count(horizon, "horizon")
        if window is not None:
            window = check_count(window, "window", most=MOST_WINDOW)
        known = () if labels is None else check_labels(labels, "labels")
        if labels is not None and n_classes not in (None, len(known)):
            raise ValueError(
                f"n_classes must be {len(known)}, the number of labels, or None, got {n_classes}"
            )
        known = known or tuple(range(n_classes or 0))
        check_slack(slack, len(known))
        if window is not None and not known:
            raise ValueError(f"window={window} needs n_classes or labels, got neither")
        if grid == "adaptive" and (n_cells is not None or horizon is not None or window is not None):
            named = {"n_cells": n_cells, "horizon": horizon, "window": window}
            given = ", ".join(f"{name}={value!r}" for name, value in named.items() if value is not None)
            raise ValueError(
                f"grid 'adaptive' tunes itself: it does not go with {given}; leave out grid, or the rest"
            )
        self.n_classes, self.n_cells, self.horizon, self.window = n_classes, n_cells, horizon, window
        self.slack, self.labels, self.report, self.grid, self.hints = slack, labels, report, grid, hints
        self._known = known
        self._run = self._new_run()
        if horizon is not None and (k := len(known)) > 2:
            remarks = vacuous_remarks(self.guarantee, float(horizon * reach(k, 1)), k, horizon)
            warn_of(remarks, GuaranteeWarning)
        self._open = OpenForecasts(SimplexForecast)

    def _new_run(self) -> SimplexRun:
        """A run before its first round, with this forecaster's parameters."""
        return SimplexRun(self._known, self)

    @property
    def _multiclass(self) -> bool:
        return True

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """The forecast of the coming round, as a dict with the probability of each class known so far.

        It is {} while no class is known. Asking again answers the same until a round is settled or a forecast
        is issued, and the features x are not looked at. `learn_one` settles that round.
        """
        return dict(zip(self._run.numbers, self._run.current(), strict=True))

    def learn_one(self, x: Any, y: Any) -> None:
        """Settle the coming round, whose forecast is that of `predict_proba_one`, with the label y that came.

        y is a label (hashable, neither missing nor infinite), or a soft label: probabilities over the classes
        with a sum within 1e-6 of 1, as a dict by label (missing: 0), or a list or array in the order of
        `classes`. A new label is taken in if classes are being discovered. `predict_proba_one` need not have
        been called, and the features x are not looked at. Raises ValueError, and learns nothing, for any
        other y.
        """
        run = self._run
        try:
            number = run.numbers[y]
        except (KeyError, TypeError):
            outcome = outcome_of(y, run.numbers, run.fixed, "y")
            if isinstance(outcome, Soft):
                newcomers = {0: outcome.newcomers} if outcome.newcomers else {}
                replayed(run, ClassOutcomes.of_vectors(outcome.vector[None], newcomers), NO_HINTS, False)
            elif outcome in run.numbers:
                run.advance(run.numbers[outcome])
            else:
                run.observe(None, (), outcome)
        else:
            run.advance(number)
        run.note_late(len(self._open))

    def forecast(self, hint: Mapping[Any, float] | Sequence[float] | None = None) -> SimplexForecast:
        """Issue a forecast, a token that is open until `observe` settles it or `withdraw` gives it up.

        Nothing is learnt, but the more are open at once, the larger the guarantee becomes. `hint` has one
        probability for each class (a dict by label, missing: 0; or a sequence in the order of `classes`),
        with a sum within 1e-6 of 1, by which it is divided: a point of a cell near it is announced. None, or
        {} while no class is known: the round has no hint. Raises ValueError for any other hint, for every
        hint if the forecaster was made without hints=True, and if so many forecasts are open that its
        integers of 64 bits might overflow.
        """
        run = self._run
        empty = hint is None or (not run.numbers and hasattr(hint, "__len__") and len(hint) == 0)
        if not empty:
            check_expected(self.hints, "hint")
        guide = NO_HINT_VECTOR if empty else hint_of(hint, run.numbers)
        if len(self._open) >= run.most_open:
            raise ValueError(
                f"{len(self._open)} forecasts are open, as many as may be: settle or withdraw some first"
            )
        run.note_late(len(self._open))
        cell, vector = run.announce(guide)
        wished = None if empty else tuple(guide.tolist())
        return SimplexForecast(tuple(run.numbers), tuple(vector), wished, *self._open.issue(), cell)

    def observe(self, forecast: SimplexForecast, outcome: Any) -> None:
        """Settle a forecast with the label of the class that came; each forecast once, in any order.

        The outcome may also be a soft label: probabilities over the classes with a sum within 1e-6 of 1, as a
        dict by label (missing: 0), or a list or array in the order of `classes`. A new label is taken in if
        classes are being discovered. Raises ValueError, and changes nothing, if the forecast is no token, is
        of another forecaster, or was settled or withdrawn before, or for any other outcome.
        """
        self._open.check(forecast)
        run = self._run
        run.observe(forecast.cell, forecast.vector, outcome_of(outcome, run.numbers, run.fixed, "outcome"))
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
            T labels, T at least 1. In a list some may be soft labels: a dict of probabilities by label
            (missing: 0), or a list or array in the order of `classes`. Or an array (T, k), a soft label in
            each row. Probabilities have a sum within 1e-6 of 1.
        hints
            Shape (T, k), in each row probabilities of the k classes that are known at the end, in the order
            of `classes` (new ones behind, as they first come); they need hints=True. None: no round has a
            hint.
        return_look_ahead
            Also return for each round the point that it was charged to, the corner of its cell that carries
            the class that came; not with soft labels, which may have several.

        Returns
        -------
        The forecasts in the order of the outcomes, float64 of shape (T, k), each made before its outcome was
        seen, with columns in the order of `classes`. A class that was not known yet has 0. With
        return_look_ahead a pair of these and the charged points, also of shape (T, k).

        Raises
        ------
        ValueError
            For empty or bad outcomes, for bad hints or such without hints=True, and for more classes or
            rounds than integers of 64 bits bear. Nothing is changed then.
        """
        check_flag(return_look_ahead, "return_look_ahead")
        # played on a copy: a late row may be one that the integers do not bear
        run = self._run.copied()
        played = outcomes_of(outcomes, run.numbers, run.fixed)
        if return_look_ahead and len(played.vectors):
            raise ValueError(
                "return_look_ahead=True needs labels as outcomes, since soft ones may be charged to several "
                "points: give labels, or leave it out"
            )
        guide = NO_HINTS
        if hints is not None:
            check_expected(self.hints, "hints")
            rounds, k = len(played.numbers), played.vectors.shape[1]
            guide = as_array(hints, "hints", "an array", f"of shape {rounds, k}")
            if guide.ndim == 2 and len(guide) != rounds:
                named = f"{rounds} and {len(guide)}"
                raise ValueError(f"outcomes and hints must have the same length, got {named}")
            guide = check_distributions(hints, (rounds, k), "hints")
        run.note_late(len(self._open))
        forecasts, charged = replayed(run, played, guide, return_look_ahead)
        self._run = run
        return (forecasts, charged) if return_look_ahead else forecasts

    @property
    def memory(self) -> NDArray[np.int64]:
        """The forecaster's state, a flat int64 array in a layout of its own; empty while no class is known.

        It is the array that the forecaster plays on, no copy: who writes to it breaks the forecaster.
        """
        return self._run.memory

    @property
    def classes(self) -> list[Any]:
        """The labels of the classes known so far, a new list in the order of the columns of `replay`.

        It is that of `labels`, or 0, ..., n_classes - 1, or the order in which classes were first met.
        """
        return list(self._run.numbers)

    @property
    def n_rounds(self) -> int:
        """How many rounds have been settled."""
        return self._run.rounds

    @property
    def _most_rounds(self) -> int:
        """How many rounds this setting bears in all, whatever comes; the one after that may be refused.

        About 2^32 in any setting, for 64 bits; about 2^62/(k m) with known classes, reported barycentres and
        a grid that n_cells or a horizon fixes.
        """
        return most_rounds(self.memory, self._run.changing)

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration of the settled rounds, a sum over rounds.

        The distance, in l1 over the classes, is the least sum of |forecast - q|_1 to vectors q that are
        perfectly calibrated. When a round is settled it is charged to the corner of its cell that carries the
        class that came. The bound is the sum over rounds of |forecast - point charged|_1, plus the sum over
        points and classes of |bias|. A bias is the sum over the point's rounds of (probability - y), with y 1
        if the class came and 0 if not. A round that was announced without any class counts 2. With soft
        labels a round is divided, and its parts may go to several corners (docs/theory-simplex.md, section
        15). It is 0.0 before the first round.
        """
        return self._run.certificate

    @property
    def guarantee(self) -> float:
        """What `certificate` cannot exceed, whatever comes, if no further class appears: a sum over rounds.

        With a horizon it is the bound after `horizon` rounds, or after `n_rounds` once these are more;
        otherwise the bound after `n_rounds`, which grows with them. It includes what outcomes may cost that
        come while other forecasts are open.
        """
        return self._run.guarantee

    @property
    def window_certificate(self) -> float | None:
        """A proven upper bound on the distance to calibration of the last `window` settled rounds, a sum.

        It is, in l1 over the classes, the sum over these rounds of |forecast - point charged|_1, plus the sum
        over points and classes of |change of the bias in these rounds|. With fewer rounds so far it is of all
        of them, 0.0 before the first. None if the forecaster was made without a window.
        """
        return self._run.window_certificate

    @property
    def window_guarantee(self) -> float | None:
        """What the distance to calibration of any `window` rounds in a row cannot exceed, a sum over them.

        It bounds `window_certificate` too, whatever outcomes come. Rounds are in a row in the order in which
        they are settled. It rises when more forecasts are open at once than before. None if the forecaster
        was made without a window.
        """
        return self._run.window_guarantee

    def lp_certificate(self, p: float, *, normalize: bool = False) -> float:
        """A proven upper bound on the distance to l_p calibration of the settled rounds, a sum over rounds.

        That distance is the least, over all sequences of vectors q, of the sum of |forecast - q|_1 over
        rounds plus the l_p norm of the biases of q: the p-th root of the sum of |bias|^p over values of q and
        classes. The bound takes for q the points that rounds were charged to. For p = 1 it is `certificate`;
        it does not rise with p, which may be infinity. With normalize=True it is divided by the number of
        rounds. It is 0.0 before the first. Raises ValueError unless p is at least 1 (infinity included).
        """
        p, rounds = check_order(p), self.n_rounds if check_flag(normalize, "normalize") else 1
        if not self.n_rounds:
            return 0.0
        biases = np.abs(self.look_ahead.biases)
        moved = self.certificate - float(biases.sum())
        # scaled, so that powers neither overflow nor underflow
        norm = largest = float(biases.max())
        if largest > 0.0 and not np.isinf(p):
            norm *= float(((biases / largest) ** p).sum()) ** (1.0 / p)
        return (moved + norm) / rounds

    @property
    def look_ahead(self) -> SimplexLookAhead:
        """The points that rounds were charged to so far and their biases, in the order of their first charge.

        Arrays `points`, of probabilities, and `biases`, sums over rounds of (probability - y), both of shape
        (V, k) for V points, with columns in the order of `classes`. A round is charged to the corner of its
        cell that carries the class that came. One with a soft label may be divided between corners. If the
        soft label itself lies in the cell, the round is charged to that, which has no bias and is not listed.
        The pair is new each time, and later rounds do not change it. The shape is (0, 0) while no class is
        known.
        """
        memory, k = self.memory, len(self._run.numbers)
        if not len(memory):
            return SimplexLookAhead(np.empty((0, 0)), np.empty((0, 0)))
        table, scale = records_of(memory), int(memory[SCALE])
        return SimplexLookAhead(table[:, POINT : POINT + k] / scale, table[:, POINT + k :] / scale)
