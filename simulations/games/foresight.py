"""Look-ahead on the certificate: how much the best continuation of a few rounds could make it rise."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.compiling import kernel_part
from onlinecal.forecasters.binary.cells import NO_HINT
from onlinecal.forecasters.rules import Rules

MEDIAN = 0.5
"""The draw that is imagined where it cannot be known."""
SPARE = 64
"""Room beyond the memory for the points that imagined rounds may add."""


@cache
def foresight(rules: Rules) -> Callable[..., tuple[float, float]]:
    """foresee(memory, a, b, forecast, seen, depth) -> (rise_zero, rise_one), which can be compiled.

    The rises of the certificate over `depth` rounds, this one included, for each first outcome and the worst
    sequel to it. The rounds are played on copies of the memory: 2^depth sequences of them. Draws that are not
    seen, and those of the rounds ahead, are imagined to be the median.
    """
    announce, settle, certificate = rules.announce, rules.settle, rules.certificate
    certificate_rises = rules.certificate_rises

    @kernel_part
    def foresee(
        memory: NDArray[Any], a: int, b: int, forecast: float, seen: bool, depth: int
    ) -> tuple[float, float]:
        zero, one = certificate_rises(memory, a, b, forecast, seen)
        if not seen:
            a, b, forecast, _ = announce(memory, NO_HINT, MEDIAN)
        scratch = np.empty(len(memory) + SPARE, memory.dtype)
        for first in range(2):
            best, after = -np.inf, 0.0
            for sequel in range(1 << (depth - 1)):
                scratch[: len(memory)] = memory
                settle(scratch, a, b, first, forecast)
                after = certificate(scratch)
                for i in range(depth - 1):
                    c, d, p, _ = announce(scratch, NO_HINT, MEDIAN)
                    settle(scratch, c, d, (sequel >> i) & 1, p)
                best = max(best, certificate(scratch))
            if first == 0:
                zero += best - after
            else:
                one += best - after
        return zero, one

    return foresee
