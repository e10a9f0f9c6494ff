"""What the forecaster of several classes says of itself: its rounds, what is proven of them and promised."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base

from onlinecal.forecasters.simplex.machine.memory import most_rounds
from onlinecal.forecasters.simplex.run import SimplexLookAhead, SimplexRun
from onlinecal.forecasters.tokens import OpenForecasts
from onlinecal.validation import check_order


class SimplexReadings(base.Classifier):
    """The face of a run and its open forecasts that only reads."""

    window: int | None = None
    _run: SimplexRun
    _open: OpenForecasts

    @property
    def memory(self) -> NDArray[np.int64]:
        """The machine's state; empty while no class is known."""
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
    def most_rounds(self) -> int:
        """How many rounds this setting bears in all, whatever comes; the one after that may be refused.

        About 2^32 in any setting, for 64 bits; about 2^62/(k m) with known classes, reported barycentres and
        a grid that n_cells or a horizon fixes.
        """
        return most_rounds(self.memory, self._run.changing)

    @property
    def n_open(self) -> int:
        """How many forecasts wait for their outcome."""
        return len(self._open)

    @property
    def certificate(self) -> float:
        """A proven upper bound on the distance to calibration of the settled rounds so far, in l1.

        Sum of |p - p~|_1 from the forecasts to the charged points, plus their biases. A round that was
        announced without any class counts 2. With soft labels the parts of a round may go different ways
        (docs/theory-simplex.md, section 15).
        """
        return self._run.certificate

    @property
    def guarantee(self) -> float:
        """What the certificate cannot exceed, whatever the outcomes, if no further class appears.

        At the horizon if there is one and it is to come, else at the present round. It includes what late
        labels may cost.
        """
        return self._run.guarantee

    @property
    def window_certificate(self) -> float | None:
        """A proven upper bound on the distance to calibration of the last `window` settled rounds, in l1.

        Sum of |p - p~|_1 over these rounds, plus for each point by how much its biases differ from what they
        were before them. With fewer rounds so far it is of all of them; None without a window.
        """
        return self._run.window_certificate

    @property
    def window_guarantee(self) -> float | None:
        """What the distance of ANY `window` consecutive rounds cannot exceed, for ever, whatever comes.

        It bounds `window_certificate` too. Rounds are consecutive in the order in which they are settled. It
        rises with late labels. None without a window.
        """
        return self._run.window_guarantee

    def lp_certificate(self, p: float) -> float:
        """A proven upper bound on the distance to l_p calibration, an average over the settled rounds.

        That is the least, over all sequences q, of the mean of |p_t - q_t|_1 plus the l_p calibration error
        of q: here the look-ahead sequence. For p = 1 it is the certificate divided by the rounds; it falls
        as p rises. Raises ValueError unless p is at least 1 (infinity included).
        """
        p = check_order(p)
        return self._run.lp_certificate(p) if self.n_rounds else 0.0

    @property
    def look_ahead(self) -> SimplexLookAhead:
        """The points charged so far and their biases, in the order of their first charge."""
        return self._run.look_ahead()
