"""What an adversary of several classes is made of: a step function, a state array, and a kind; who plays it.

The step function is a plain module-level function

    step(state, t, forecast, rises, u) -> the number of a class, 0 to k - 1

decorated with ``numba.extending.register_jitable``. Its arguments:

    state      float64 array [parameters..., memory...], changed in place
    t          the round, counted from 0 within the phase that is being played
    forecast   the class probabilities just announced, float64, shape (k,); not to be changed
    rises      how much the forecaster's certificate would rise for each outcome, float64, shape (k,); zeros
               unless the phase is internal
    u          this round's uniform draw in [0, 1), the only randomness there is
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from adversaries.adversary import Phased, Seed
from adversaries.protocol import AnyKind, Build, Phase, State
from onlinecal.arrays import Floats

Step = Callable[[State, int, Floats, Floats, float], int]

MOST_CLASSES = 1000
"""Adversaries of more classes are not made."""

MOST_ROUNDS = 1e9
"""Largest whole number a parameter may be."""


@dataclass(frozen=True)
class MulticlassKind(AnyKind):
    """One kind of adversary of several classes, as the catalogue has it, with the fields of `AnyKind`."""

    step: Step | None = None
    initial: Callable[[Mapping[str, Any], int, int | None], State] | None = None
    compose: Callable[[Mapping[str, Any], int, int | None, Build], tuple[Phase, ...]] | None = None


SUM_TOLERANCE = 1e-6


class MulticlassAdversary(Phased):
    """One player of k classes, with its parameters, its seed and its memory; otherwise as `Adversary`.

    >>> import adversaries
    >>> adversary = adversaries.create_multiclass("least-likely", n_classes=3)
    >>> adversary.outcome([0.5, 0.2, 0.3])
    1

    Parameters
    ----------
    name, kind, phases, seed, horizon
        As for `Adversary`.
    n_classes
        k, at least 2.

    Attributes
    ----------
    name, kind, n_classes, seed, horizon
        As given.
    """

    def __init__(
        self,
        name: str,
        kind: AnyKind,
        n_classes: int,
        phases: Sequence[Phase],
        seed: Seed = 0,
        horizon: int | None = None,
    ) -> None:
        self.n_classes = n_classes
        super().__init__(name, kind, phases, seed, horizon)

    def __repr__(self) -> str:
        return (
            f"MulticlassAdversary({self.name!r}, n_classes={self.n_classes}, horizon={self.horizon!r}, "
            f"seed={self.seed!r})"
        )

    def outcome(self, forecast: ArrayLike | None = None, rises: ArrayLike | None = None) -> int:
        """Play one round.

        Parameters
        ----------
        forecast
            The class probabilities just announced, shape (k,); None: all alike. Oblivious adversaries do not
            look at them.
        rises
            How much the forecaster's certificate would rise for each outcome, shape (k,); None: not at all.
            Only internal adversaries look at them.

        Returns
        -------
        int
            The number of a class.

        Raises
        ------
        ValueError
            For a forecast that is no vector of k probabilities with sum 1, rises that are not k finite
            numbers, or when a replayed stream is over. The round is then not counted.
        """
        k = self.n_classes
        announced = np.full(k, 1.0 / k) if forecast is None else _vector(forecast, k, "forecast")
        if not ((announced >= 0.0) & (announced <= 1.0)).all() or abs(announced.sum() - 1.0) > SUM_TOLERANCE:
            raise ValueError(f"forecast must be probabilities with sum 1, got {announced.tolist()}")
        rising = np.zeros(k) if rises is None else _vector(rises, k, "rises")
        if not np.isfinite(rising).all():
            raise ValueError(f"rises must be finite numbers, got {rising.tolist()}")
        phase = self._present_phase()
        outcome = int(phase.step(phase.state, self._t, announced, rising, self._rng.random()))
        self._t += 1
        return outcome

    def outcomes(self, T: int | None = None) -> NDArray[np.int64]:
        """The first T outcomes of an oblivious adversary, shape (T,); as `Adversary.outcomes`."""
        return self._listed(T, np.int64)

    def _listing(self, step: Step) -> Callable[..., None]:
        fill, k = _compiled_listing(step), self.n_classes

        def listing(state: State, first: int, uniforms: Floats, outcomes: NDArray[np.int64]) -> None:
            fill(state, first, np.full(k, 1.0 / k), np.zeros(k), uniforms, outcomes)

        return listing


def _vector(values: ArrayLike, k: int, name: str) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be {k} numbers, one a class, got {values!r}") from error
    if array.shape != (k,):
        raise ValueError(f"{name} must be {k} numbers, one a class, got shape {array.shape}")
    return array


@cache
def _compiled_listing(step: Step) -> Callable[..., None]:
    @njit
    def listing(
        state: State,
        first: int,
        forecast: Floats,
        rises: Floats,
        uniforms: Floats,
        outcomes: NDArray[np.int64],
    ) -> None:  # pragma: no cover
        for i in range(len(uniforms)):
            outcomes[i] = step(state, first + i, forecast, rises, uniforms[i])

    return listing
