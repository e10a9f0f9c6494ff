"""Hints that mislead whoever goes to the calibrated cell nearest to them."""

from __future__ import annotations

import math

from adversaries.replayed.streams import Stream, replay_sequence
from onlinecal.validation import check_count, check_number


def misleading_hints(rounds: int, n_cells: int, slack: float = 1.0) -> Stream:
    """A stream of hints whose Brier score no nearest cell comes near.

    Meant for `AlmostOneStepAhead(n_cells=n_cells, slack=slack)`, whatever it reports. First every point from
    1/2 up is charged with zeros until it takes no more. Then a hint of 1 is followed by a 1, and a hint just
    above 1/2 by a 0, in turn: both are charged to cells about 1/2, which keeps the points above as they are.
    docs/theory.md, Fact 17a: the forecaster's Brier score, a sum, exceeds the hints' by at least
    T/8 - T/m - slack (m/8 + 1/2) - 1/8.

    Parameters
    ----------
    rounds
        T, at least 1.
    n_cells
        m, the cells of the forecaster's uniform grid, at least 3.
    slack
        Of its balanced rule, 0.5 to 1000.

    Returns
    -------
    Stream
        Of T rounds, with hints. Its first part takes about `slack * n_cells` rounds.

    Raises
    ------
    ValueError
        For arguments outside these ranges.

    Examples
    --------
    >>> stream = misleading_hints(6, n_cells=4)
    >>> stream.hints, stream.outcomes
    (array([0.8125, 0.5625, 0.5625, 1.    , 0.5625, 1.    ]), array([0, 0, 0, 1, 0, 1], dtype=uint8))
    """
    check_count(rounds, "rounds")
    check_count(n_cells, "n_cells", least=3)
    check_number(slack, "slack", 0.5, 1000.0)
    middle = (n_cells + 1) // 2
    most = math.floor(slack * n_cells)
    hints = [
        (point + 0.25) / n_cells for point in range(n_cells - 1, middle - 1, -1) for _ in range(most // point)
    ][:rounds]
    outcomes = [0] * len(hints)
    for t in range(rounds - len(hints)):
        hints.append((middle + 0.25) / n_cells if t % 2 else 1.0)
        outcomes.append(1 - t % 2)
    return replay_sequence(outcomes, hints, "misleading hints")
