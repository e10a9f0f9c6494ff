"""The minimax forecast of each round: a small linear program, solved exactly point by point."""

from __future__ import annotations

import numpy as np

from onlinecal.forecasters.baselines.grid import GridBaseline, beyond, error, lean
from onlinecal.forecasters.baselines.mixing import POINTS, Memory, count, mixing_rules, play_one, play_two
from onlinecal.forecasters.binary.cells import inlined

EXACT = 1e-12
"""Relative size of an improvement that is not worth another point."""


@inlined
def rise(memory: Memory, place: int, outcome: int) -> float:
    """By how much that point's squared lean rises if it is forecast and this outcome comes."""
    m = int(memory[POINTS]) - 1
    after = beyond(error(memory, place) + 2.0 * (m * outcome - place), count(memory, place) + 1.0)
    before = lean(memory, place)
    return (after - before) * (after + before)


@inlined
def best_against(memory: Memory, share: float) -> int:
    """The point with the smallest rise against outcomes that are 0 with this probability."""
    best, least, tie = 0, np.inf, np.inf
    for place in range(int(memory[POINTS])):
        zero, one = rise(memory, place, 0), rise(memory, place, 1)
        mean = share * zero + (1.0 - share) * one
        if mean < least or (mean == least and max(zero, one) < tie):
            best, least, tie = place, mean, max(zero, one)
    return best


@inlined
def mix_minimax(memory: Memory) -> None:
    """The mixture whose worst expected rise is smallest: one point or two, found by adding columns.

    The program min over w of max(w.zeros, w.ones) has an optimal mixture of at most two points. Start with
    the best point against each outcome; against the share of zeros that makes the two equal, look for a
    point that is better than both; let it replace the one on its side; repeat until there is none.
    """
    low, high = best_against(memory, 1.0), best_against(memory, 0.0)
    low_gap = rise(memory, low, 1) - rise(memory, low, 0)
    high_gap = rise(memory, high, 0) - rise(memory, high, 1)
    while low_gap > 0.0 and high_gap > 0.0:
        share = (rise(memory, low, 1) - rise(memory, high, 1)) / (low_gap + high_gap)
        found = best_against(memory, share)
        zero, one = rise(memory, found, 0), rise(memory, found, 1)
        gain = share * (rise(memory, low, 0) - zero) + (1.0 - share) * (rise(memory, low, 1) - one)
        if found in (low, high) or gain <= EXACT * (abs(zero) + abs(one)):
            play_two(memory, low, high_gap / (low_gap + high_gap), high)
            return
        if one >= zero:
            low, low_gap = found, one - zero
        else:
            high, high_gap = found, zero - one
    play_one(memory, low if low_gap <= 0.0 else high)


class MinimaxForecaster(GridBaseline):
    """Draws from the mixture that is best against the worse outcome of the coming round.

    Calibration follows from the minimax theorem, as Hart observed: against a known mixture of outcomes there
    is a good forecast, so there is a mixture of forecasts that is good against every outcome. His game lasts
    T rounds; this one is played a round at a time, for the sum of squared leans of Foster's proof. While
    the draws are hidden, E[ECE] <= T/(2m) + sqrt((m + 1) T), since its mixture is no worse than Foster's.
    A round takes O(m) steps.

    References
    ----------
    Hart (2025). Calibrated forecasts: the minimax proof. Games of No Strategy and Low-Grade Combinatorics; a
    proof of 1995, first told in Foster and Vohra (1998).
    """

    machine = mixing_rules(mix_minimax)
