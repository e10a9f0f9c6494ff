"""The object `create` hands out: a plain-Python face for single rounds, phases for compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numba import njit
from numpy.typing import NDArray

from adversaries.phased import Phased
from adversaries.protocol import State, Step
from onlinecal.validation import check_finite, check_probability


class Adversary(Phased):
    """One player, with its parameters, its seed and its memory.

    It can be played in two ways that agree bit for bit. Round by round, in the interpreter:

    >>> import adversaries
    >>> adversary = adversaries.create("threshold:at=0.3")
    >>> [adversary.outcome(forecast) for forecast in (0.1, 0.5, 0.2)]
    [1, 0, 1]

    Or by a driver with a compiled loop: it plays every phase of `phases` in turn, counts t from 0 in each,
    and hands the step of round s of the game the s-th draw of ``generator().random(T)``.

    Parameters
    ----------
    name
        What it is called: for catalogued adversaries the canonical spec, from which `create` makes it again.
    kind
        Its kind, an entry of the catalogue.
    phases
        Who plays, and for how long; only the last may be open-ended.
    seed
        A seed of `numpy.random.default_rng`, but not None: the same seed always gives the same outcomes.
    horizon
        The number of rounds it was built for, None if it did not need to know.

    Attributes
    ----------
    name, kind, seed, horizon
        As given.
    """

    def outcome(self, forecast: float = 0.5, rise_zero: float = 0.0, rise_one: float = 0.0) -> int:
        """Play one round.

        Parameters
        ----------
        forecast
            The probability just announced, in [0, 1]. Oblivious adversaries do not look at it.
        rise_zero, rise_one
            How much the forecaster's certificate would rise for outcome 0 and for outcome 1, within as many
            rounds as the phase's `depth` says. Only internal adversaries look at them.

        Returns
        -------
        int
            0 or 1.

        Raises
        ------
        ValueError
            For a forecast outside [0, 1], a rise that is not finite, or when a replayed stream is over. The
            round is then not counted.
        """
        p = check_probability(forecast, "forecast")
        rises = check_finite(rise_zero, "rise_zero"), check_finite(rise_one, "rise_one")
        phase = self._present_phase()
        outcome = phase.step(phase.state, self._t, p, *rises, self._rng.random())
        self._t += 1
        return outcome

    def outcomes(self, T: int | None = None) -> NDArray[np.uint8]:
        """The first T outcomes of an oblivious adversary, wherever `outcome` stands; nothing is consumed.

        Parameters
        ----------
        T
            How many, at least 1; None: the horizon, or all there are of a replayed stream.

        Returns
        -------
        NDArray[np.uint8]
            Zeros and ones, shape (T,).

        Raises
        ------
        ValueError
            If the adversary reacts to forecasts, if T is missing or not positive, or beyond the last outcome.
        """
        return self._listed(T, np.uint8)

    def _listing(self, step: Step) -> Callable[..., None]:
        return _compiled_listing(step)


@cache
def _compiled_listing(step: Step) -> Callable[[State, int, NDArray[np.float64], NDArray[np.uint8]], None]:
    @njit
    def listing(
        state: State, first: int, uniforms: NDArray[np.float64], outcomes: NDArray[np.uint8]
    ) -> None:  # pragma: no cover
        for i in range(len(uniforms)):
            outcomes[i] = step(state, first + i, 0.5, 0.0, 0.0, uniforms[i])

    return listing
