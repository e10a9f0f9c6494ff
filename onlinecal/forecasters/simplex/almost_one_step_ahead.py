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
from onlinecal.validation import check_choice, check_count, check_order

SimplexReport = Literal["barycentre", "hint"]
SIMPLEX_REPORTS: tuple[SimplexReport, ...] = get_args(SimplexReport)
SimplexGrid = Literal["nested", "adaptive"]
NO_HINT_VECTOR = np.empty(0)
NO_HINTS = np.empty((0, 0))


class SimplexLookAhead(NamedTuple):
    """The charged sequence, point by point, both of shape (V, k), with columns in the order of `classes`.

    `points` are the points that were charged. `biases` has alpha(point) of each: the sum of (point - outcome)
    over its rounds, an outcome being 1 for the class that came and 0 for the others.
    """

    points: NDArray[np.float64]
    biases: NDArray[np.float64]


class SimplexAlmostOneStepAhead(Announcing, base.Classifier):
    """Forecast one of k classes, calibrated within a proven bound whatever the classes are.

    Each round is announced as a point of a cell of a grid on the simplex whose k vertices are labelled with
    the k classes, and charged to the vertex labelled with the outcome. Distances are in l1 over the classes:
    with two classes, twice those of `AlmostOneStepAhead`.

    Parameters
    ----------
    n_classes
        k, from 1 to 1,024: the labels are 0, ..., k - 1. Without n_classes and labels, classes are
        discovered: any hashable label may come, and one never met before costs at most 2, once.
    n_cells
        Fixes the grid, m, at least 1: probabilities are multiples of 1/m at the vertices.
    horizon
        Chooses the grid with the smallest guarantee for that many rounds (a power of two while classes are
        being discovered). If the guarantee is no better than the trivial one, there is a GuaranteeWarning.
        Without n_cells and horizon grids are nested, m = 1, 2, 4, ..., and the guarantee holds at all times.
    slack
        How far a point's biases may go to follow a hint, at least 1 - 1/(2k - 2) (1 if classes are
        discovered). None: labels do not depend on hints, and the guarantee is the smallest. But with
        hints=True, unless a report is named, the slack then is 4 sqrt(1 + D), where D is the most other
        forecasts that were open.
    labels
        The labels, any hashables, if known in advance and not 0, ..., n_classes - 1.
    report
        What to announce: the "barycentre" of the cell; or the "hint" itself, and if it is not in the cell the
        point of the cell whose log loss is least if the hint is right, which needs hints=True. None: the
        barycentre, and with hints=True the hint; with slack None grids are then finer, too.
    grid
        Without n_cells and horizon: "nested", or "adaptive", which is finer where few points are in use. It
        has far smaller certificates, and a guarantee that is larger by 2k + 4 for k classes in all, and by
        what classes that join later leave behind. It is nested once labels are late.
    window
        Keep a certificate of the last so many settled rounds, too; at most 2^24, for known classes. Without
        n_cells and horizon the grid is then the fixed one that is best for windows of that length, and the
        guarantee of all rounds together grows as fast as the rounds.
    hints
        Whether rounds may have hints. True: slack, report and grids that nobody sets are chosen such that
        hints lose least skill, from the first round on, for a larger guarantee. A round without a hint is
        announced as without hints=True: as the barycentre of the current cell, which at first is near equal
        probabilities. False: hints are refused.

    Attributes
    ----------
    memory
        The machine's state, one int64 array (see `machine.table`).

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
                f"grid 'adaptive' tunes itself: it does not go with {given}; leave one of them out"
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
        """The forecast of the coming round, as the probability of each class known so far; {} for none.

        `learn_one` settles that round. Asking again answers the same, and the features x are not looked at.
        """
        return dict(zip(self._run.numbers, self._run.current(), strict=True))

    def learn_one(self, x: Any, y: Any) -> None:
        """Settle the round that `predict_proba_one` answers; the features x are not looked at.

        y is a label, or a soft label as in `observe`. Raises ValueError, and learns nothing, if it is
        neither.
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
        """Issue a forecast, a token; `observe` settles it, and until then it is open.

        Nothing is learnt; the more forecasts are open at once, the larger is the guarantee. With a hint, a
        point of a cell near it is announced. A hint has one probability for each class (a dict by label, or a
        sequence in the order of `classes`), with a sum within 1e-6 of 1, by which it is divided. Raises
        ValueError for any other hint, for every hint if the forecaster was made without hints=True, and if as
        many forecasts are open as the integers bear. While no class is known a hint must be {} or None.
        """
        run = self._run
        empty = hint is None or (not run.numbers and hasattr(hint, "__len__") and len(hint) == 0)
        if not empty:
            check_expected(self.hints, "hint")
        guide = NO_HINT_VECTOR if empty else hint_of(hint, run.numbers)
        if len(self._open) >= run.most_open:
            raise ValueError(
                f"{len(self._open)} forecasts are open, as many as may be: settle some before the next"
            )
        run.note_late(len(self._open))
        cell, vector = run.announce(guide)
        wished = None if empty else tuple(guide.tolist())
        return SimplexForecast(tuple(run.numbers), tuple(vector), wished, *self._open.issue(), cell)

    def observe(self, forecast: SimplexForecast, outcome: Any) -> None:
        """Settle a forecast with the label of the class that came; each forecast once, in any order.

        The outcome may be a soft label, a distribution over the classes: a dict by label (missing: 0), or a
        list or array in the order of `classes`. Raises ValueError, and changes nothing, if the forecast is of
        another forecaster or was settled or withdrawn before, or if the outcome is neither.
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
        """Play a whole sequence in compiled code, going on from the present state.

        Parameters
        ----------
        outcomes
            Shape (T,), labels of classes, some of them perhaps soft labels as in `observe`; or (T, k), all
            of them soft, in the order of `classes`.
        hints
            Shape (T, k), each row probabilities of the k classes that are known at the end, in the order of
            `classes` (new ones as they appear); or None. They need hints=True.
        return_look_ahead
            Also return the charged points, shape (T, k); not with soft labels, which may have several.

        Returns
        -------
        The forecasts in the order of the outcomes, shape (T, k), with columns in the order of `classes`; with
        return_look_ahead a pair of these and the charged points. The rounds are settled then.

        Raises
        ------
        ValueError
            For bad outcomes or hints, and for more classes or rounds than 64 bits bear. Nothing is changed
            then.
        """
        # played on a copy: a late row may be one that the integers do not bear
        run = self._run.copied()
        played = outcomes_of(outcomes, run.numbers, run.fixed)
        if return_look_ahead and len(played.vectors):
            raise ValueError(
                "return_look_ahead=True needs labels as outcomes: soft ones may be charged to several points"
            )
        guide = NO_HINTS
        if hints is not None:
            check_expected(self.hints, "hints")
            guide, rounds = as_array(hints, "hints", "an array"), len(played.numbers)
            if guide.ndim == 2 and len(guide) != rounds:
                named = f"{rounds} and {len(guide)}"
                raise ValueError(f"outcomes and hints must have the same length, got {named}")
            guide = check_distributions(hints, (rounds, played.vectors.shape[1]), "hints")
        run.note_late(len(self._open))
        forecasts, charged = replayed(run, played, guide, return_look_ahead)
        self._run = run
        return (forecasts, charged) if return_look_ahead else forecasts

    @property
    def memory(self) -> NDArray[np.int64]:
        """The machine's state, a flat array of whole numbers; empty while no class is known.

        It is the array that the forecaster plays on: who writes to it breaks the forecaster.
        """
        return self._run.memory

    @property
    def classes(self) -> list[Any]:
        """The classes known so far, in the order of the columns of `replay`."""
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
        """A proven upper bound on the distance to calibration of the settled rounds so far, in l1, a sum.

        Sum of |p - p~|_1 from the forecasts to the charged points, plus their biases. A round that was
        announced without any class counts 2. With soft labels the parts of a round may go different ways
        (docs/theory-simplex.md, section 15).
        """
        return self._run.certificate

    @property
    def guarantee(self) -> float:
        """What the certificate cannot exceed, whatever the outcomes, if no further class appears: a sum.

        It is that of the horizon, if there is one that is still to come, else that of the present round. It
        includes what late labels may cost.
        """
        return self._run.guarantee

    @property
    def window_certificate(self) -> float | None:
        """A proven upper bound on the distance to calibration of the last `window` settled rounds.

        A sum over these, in l1 over the classes. Sum of |p - p~|_1 over these rounds, plus for each point by
        how much its biases differ from what they were before them. With fewer rounds so far it is of all of
        them; None without a window.
        """
        return self._run.window_certificate

    @property
    def window_guarantee(self) -> float | None:
        """What the distance of any `window` consecutive rounds cannot exceed, whatever comes: a sum.

        It bounds `window_certificate` too. Rounds are consecutive in the order in which they are settled. It
        rises with late labels. None without a window.
        """
        return self._run.window_guarantee

    def lp_certificate(self, p: float, *, normalize: bool = False) -> float:
        """A proven upper bound on the distance to l_p calibration, a sum over the settled rounds.

        That is the least, over all sequences q, of the sum of |p_t - q_t|_1 plus the l_p norm of q's biases:
        here of the look-ahead sequence. For p = 1 it is the certificate; it falls as p rises. With
        normalize=True it is an average over the settled rounds, in which the norm is the l_p calibration
        error. Raises ValueError unless p is at least 1 (infinity included).
        """
        p = check_order(p)
        if not self.n_rounds:
            return 0.0
        biases = np.abs(self.look_ahead.biases)
        moved = self.certificate - float(biases.sum())
        # scaled, so that powers neither overflow nor underflow
        norm = largest = float(biases.max())
        if largest > 0.0 and not np.isinf(p):
            norm *= float(((biases / largest) ** p).sum()) ** (1.0 / p)
        return (moved + norm) / (self.n_rounds if normalize else 1)

    @property
    def look_ahead(self) -> SimplexLookAhead:
        """The points charged so far and their biases, in the order of their first charge."""
        memory, k = self.memory, len(self._run.numbers)
        if not len(memory):
            return SimplexLookAhead(np.empty((0, 0)), np.empty((0, 0)))
        table, scale = records_of(memory), int(memory[SCALE])
        return SimplexLookAhead(table[:, POINT : POINT + k] / scale, table[:, POINT + k :] / scale)
