"""The kernels that bracket a distance, in two shares that take about as long to compile.

Processes that all need brackets would compile the same kernels at the same time. If each has one of `SHARES`
compiled before, it finds the others on disk. Nothing has a state but the folder of compiled code.
"""

from __future__ import annotations

import math

import numpy as np

from onlinecal.measures.counts import Counts, prefix_sums
from onlinecal.measures.distance.exact import search_below
from onlinecal.measures.distance.fractional.relaxation import Relaxation, relax
from onlinecal.measures.distance.fractional.rounding import curve_of_levels, round_near, search_tables
from onlinecal.measures.distance.lattice import exact_levels
from onlinecal.measures.distance.levels import conditional_means
from onlinecal.measures.distance.pooling import pooled_levels
from onlinecal.measures.smooth import smooth_error_of_counts

HISTORY = Counts(np.array([0.25, 0.5, 0.75]), np.array([1, 2, 1]), np.array([1, 1, 2]))
"""A history so small that its kernels take no time but to be compiled."""


def compile_searches() -> None:
    """Compile the searches and the plain lattice."""
    ends, nothing = np.array([0.0, 1.0]), np.zeros(2)
    # potentials of 0 prove that no distance is negative, without the solver, which is in the other share
    search_below(HISTORY, Relaxation(0.0, ends, nothing, nothing, np.array([4.0, 4.0])), 1.0, math.inf)
    exact_levels(HISTORY)


def compile_rounding() -> None:
    """Compile the solver, rounding, pooling and the smooth error."""
    sums, relaxation = prefix_sums(HISTORY), relax(HISTORY, 64)
    pooled_levels(sums)
    smooth_error_of_counts(HISTORY)
    tables = search_tables(HISTORY, sums, relaxation)
    round_near(tables, relaxation.lower, curve_of_levels(conditional_means(HISTORY)), 1e5, 0.0)


SHARES = (compile_searches, compile_rounding)
