"""The reference that Almost-One-Step-Ahead shadows: it answers after it has seen the outcome."""

from __future__ import annotations

from typing import SupportsFloat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.forecasters.binary.cells import bias_part
from onlinecal.forecasters.binary.grid import Grid, GridForecaster, Rule
from onlinecal.forecasters.rules import Rules
from onlinecal.validation import outcome_of


class OneStepAhead(GridForecaster):
    """A reference that sees the outcome before it chooses between two neighbouring forecasts: One-Step-Ahead.

    No forecaster, since it peeks; but its answers are almost calibrated in the strict sense (expected
    calibration error at most c (m - 1), for the sign rule 3m/4), and Almost-One-Step-Ahead stays close to
    them. Its answers are the look-ahead sequence of an AlmostOneStepAhead with the same parameters that
    reports midpoints. (For other reports a horizon suggests other grids; n_cells makes them the same.)
    `predict_proba_one`, which must speak before the outcome, gives the midpoint of the cell.

    Parameters
    ----------
    horizon, n_cells, grid, rule, slack, hints
        As in AlmostOneStepAhead; hints are given in games alone.

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
        n_cells: int | None = None,
        grid: Grid = "auto",
        rule: Rule = "balanced",
        slack: float = 0.5,
        hints: bool = False,
    ) -> None:
        super().__init__(horizon, n_cells, grid, rule, slack, "midpoint", None, hints)
        if self.grid != "adaptive" and (self.grid != "auto" or horizon or n_cells):
            # the answers are the charged points; only the self-tuning grid trades distance for bias
            self._reach = 0.0

    @property
    def rules(self) -> Rules:
        """The functions that compiled loops drive the memory with: the certificate is that of the answers."""
        return super().rules._replace(certificate=bias_part)

    @property
    def certificate(self) -> float:
        """The expected calibration error of the answers so far, a sum: it bounds their distance."""
        return bias_part(self.memory)

    @property
    def guarantee(self) -> float:
        """What the certificate cannot exceed: c (m - 1) on a uniform or nested grid, for the sign rule 3m/4.

        On the self-tuning grid it is the bound of Almost-One-Step-Ahead.
        """
        return self.promise(max(self.horizon or 0, self.n_rounds))

    def answer(self, outcome: SupportsFloat) -> float:
        """The charged point of the next round, whose outcome is given; the round is settled."""
        return float(self._replay([outcome_of(outcome)], charged=True)[1][0])

    def replay(self, outcomes: ArrayLike) -> NDArray[np.float64]:
        """The answers to a whole sequence of outcomes of shape (T,), going on from the present state."""
        return self._replay(outcomes, charged=True)[1]
