"""The lower distance to calibration: rounds may be split, which makes the distance a linear program.

Primal: every node x of [0, 1] keeps a calibrated mass z_x >= 0, (1-x) z_x of it zeros and x z_x ones; the
zeros and the ones flow there along the line, at cost mass times distance. Dual: two 1-Lipschitz functions u0
and u1 with (1-x) u0(x) + x u1(x) <= 0, maximising the sum of u0 over the zeros plus the sum of u1 over the
ones. Every such pair on ALL of [0, 1] bounds the distance to calibration from below, however it was found;
so the solver's answer is only a suggestion, and `feasible_potentials` makes a proof of it.

Source: Blasiok, Gopalan, Hu & Nakkiran, "A unifying theory of distance from calibration" (2023).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlinecal.arrays import Floats
from onlinecal.html import Shown, Table, bracket_of
from onlinecal.measures.counts import Counts, check_counts, count_shares, merged
from onlinecal.validation import check_count

ROUNDING = 1e-14
"""More than the rounding errors of one round's potential, which is at most 1 in size."""

TOLERANCES = (1e-10, 1e-7)
"""Of the solver, in turn; whatever is left of its errors, the proof makes good."""

LEAST_NODES = 64
"""Fewest nodes a relaxation gets; so many take the solver some hundredths of a second, whatever happens."""

ITERATION_LIMIT = 1
"""The solver's status where it ran into it."""

MAX_NODES = 4000
"""Most nodes a relaxation gets, whatever the effort."""

ITERATIONS = 30
"""Per node, of the solver; ten times what it has ever been seen to need. Beyond, it gets fewer nodes."""

CUT_LOSS = 0.02
"""What the relaxation may lose between its nodes before more nodes are worth their time."""


@dataclass(frozen=True, eq=False)
class Relaxation:
    """A proven lower bound and the fractional calibrated sequence next to it.

    Attributes
    ----------
    lower
        A lower bound on the distance to calibration (a sum over rounds), rounding errors deducted.
    nodes
        Increasing values from 0 to 1, shape (n,).
    zero_potential, one_potential
        u0 and u1 at the nodes, shape (n,); in between they are linear.
    masses
        z, the rounds (not whole) kept at each node, shape (n,).
    """

    lower: float
    nodes: Floats
    zero_potential: Floats
    one_potential: Floats
    masses: Floats

    def potential(self, outcome: int, values: Floats) -> Floats:
        """u0 or u1 at any values."""
        potentials = self.zero_potential, self.one_potential
        return np.interp(values, self.nodes, potentials[outcome])


def relax(counts: Counts, nodes: Floats) -> Relaxation:
    """Solve the linear program on increasing nodes, 0 and 1 among them, and prove its lower bound."""
    nodes, u0, u1, masses = solve(counts, nodes)
    u0, u1 = feasible_potentials(nodes, u0, u1)
    lower = potential_bound(counts, nodes, u0, u1)
    one_way = one_way_bound(counts)
    if one_way >= lower:
        # optimal then, and free of the solver's tolerance
        sign = 1.0 if counts.biases.sum() >= 0.0 else -1.0
        lower, u0, u1 = one_way, sign * nodes, sign * (nodes - 1.0)
    return Relaxation(lower, nodes, u0, u1, masses)


def one_way_bound(counts: Counts) -> float:
    """The lower bound |sum of (forecast - outcome)|: all rounds would have to move the same way.

    It is what the potentials u0(x) = x, u1(x) = x - 1 and their negatives prove.
    """
    return max(0.0, abs(math.fsum(counts.biases)) - counts.n_rounds * ROUNDING)


def relaxation_nodes(counts: Counts, limit: float) -> Floats:
    """About `limit` nodes: the forecasts (quantiles if there are too many) and cuts of the wider gaps.

    Between nodes at distance d the relaxation can lose d^2/2 a round; gaps are cut until that is CUT_LOSS.
    """
    limit = int(min(MAX_NODES, max(LEAST_NODES, limit)))
    values = counts.values
    if len(values) > limit:
        ranks = np.cumsum(counts.zeros + counts.ones)
        wanted = np.linspace(0, ranks[-1], limit)
        values = np.unique(values[np.minimum(np.searchsorted(ranks, wanted), len(values) - 1)])
    nodes = np.union1d(values, [0.0, 1.0])
    gaps = np.diff(nodes)
    density = math.sqrt(counts.n_rounds / (2.0 * CUT_LOSS))
    while True:
        cuts = np.maximum(1, np.ceil(gaps * density)).astype(np.int64)
        if cuts.sum() <= max(limit, 1.5 * len(gaps)):
            break
        density /= 1.2
    starts = np.repeat(nodes[:-1], cuts)
    step = np.arange(cuts.sum()) - np.repeat(np.cumsum(cuts) - cuts, cuts)
    return np.unique(np.append(starts + step * np.repeat(gaps / cuts, cuts), 1.0))


def potential_bound(counts: Counts, nodes: Floats, u0: Floats, u1: Floats) -> float:
    """The lower bound that a feasible pair of potentials proves."""
    of_zeros, of_ones = (np.interp(counts.values, nodes, u) for u in (u0, u1))
    terms = counts.zeros * of_zeros + counts.ones * of_ones
    return max(0.0, math.fsum(terms) - counts.n_rounds * ROUNDING)


def feasible_potentials(nodes: Floats, u0: Floats, u1: Floats) -> tuple[Floats, Floats]:
    """The given potentials, lowered as little as is needed to be feasible on all of [0, 1].

    Lowering keeps the sign constraint, so the excess between nodes is taken off at both ends of its gap
    first, and the largest 1-Lipschitz functions below come second.
    """
    u0, u1 = lipschitz_envelope(nodes, u0), lipschitz_envelope(nodes, u1)
    gap_excess = np.maximum(0.0, constraint_maxima(nodes, u0, u1))
    excess = np.maximum(np.append(gap_excess, 0.0), np.insert(gap_excess, 0, 0.0))
    return lipschitz_envelope(nodes, u0 - excess), lipschitz_envelope(nodes, u1 - excess)


def lipschitz_envelope(nodes: Floats, u: Floats) -> Floats:
    """The largest 1-Lipschitz function below u on the nodes."""
    from_left = np.minimum.accumulate(u - nodes) + nodes
    return np.minimum.accumulate((from_left + nodes)[::-1])[::-1] - nodes


def constraint_maxima(nodes: Floats, u0: Floats, u1: Floats) -> Floats:
    """Largest value of (1-x) u0(x) + x u1(x) on each gap between nodes, shape (n-1,).

    With u0 and u1 linear on the gap this is a quadratic c + l s + q s^2 of the position s in [0, 1].
    """
    left, gap = nodes[:-1], np.diff(nodes)
    rise0, rise1 = np.diff(u0), np.diff(u1)
    constant = (1.0 - left) * u0[:-1] + left * u1[:-1]
    linear = (1.0 - left) * rise0 + left * rise1 + gap * (u1[:-1] - u0[:-1])
    quadratic = gap * (rise1 - rise0)
    end = constant + linear + quadratic
    with np.errstate(divide="ignore", invalid="ignore"):
        top = np.where(quadratic < 0.0, np.clip(-linear / (2.0 * quadratic), 0.0, 1.0), 0.0)
    return np.maximum(np.maximum(constant, end), constant + top * (linear + top * quadratic))


def _spread(counts: Counts, nodes: Floats, masses: NDArray[Any]) -> Floats:
    """Masses moved to the nodes; between two nodes they are split so that linear potentials see no change."""
    right = np.clip(np.searchsorted(nodes, counts.values), 1, len(nodes) - 1)
    share = (counts.values - nodes[right - 1]) / (nodes[right] - nodes[right - 1])
    to_right = np.bincount(right, weights=masses * share, minlength=len(nodes))
    to_left = np.bincount(right - 1, weights=masses * (1.0 - share), minlength=len(nodes))
    return np.asarray(to_right + to_left, dtype=np.float64)


def solve(counts: Counts, nodes: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Nodes, potentials u0, u1 and masses z of the linear program, up to the solver's tolerance.

    The nodes are those given, or every second one, if the solver needs too many iterations for all of them.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    zeros, ones = _spread(counts, nodes, counts.zeros), _spread(counts, nodes, counts.ones)
    n = len(nodes)
    node, gap = np.arange(n), np.arange(n - 1)
    unit = np.ones(n - 1)
    rows, columns, entries = [node, n + node], [node, node], [1.0 - nodes, nodes]
    for outcome in (0, 1):
        first_row, first_column = n * outcome, n + 2 * (n - 1) * outcome
        for sign in (1.0, -1.0):
            rows += [first_row + gap, first_row + gap + 1]
            columns += [first_column + gap, first_column + gap]
            entries += [sign * unit, -sign * unit]
            first_column += n - 1
    shape = (2 * n, n + 4 * (n - 1))
    balance = csr_array(
        (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))), shape=shape
    )
    costs = np.concatenate([np.zeros(n), np.tile(np.diff(nodes), 4)])
    # the solver's tolerances are absolute, so hand it masses of the order of one
    scale = max(zeros.max(), ones.max())
    masses = np.concatenate([zeros, ones]) / scale
    for tolerance in TOLERANCES:
        options = {"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance}
        if n > LEAST_NODES:
            options["maxiter"] = ITERATIONS * n
        answer = linprog(costs, A_eq=balance, b_eq=masses, method="highs", options=options)
        if answer.status == 0:
            break
        if answer.status == ITERATION_LIMIT:
            return solve(counts, np.append(nodes[:-1:2], nodes[-1]))
    else:
        raise RuntimeError(f"the relaxation was not solved: {answer.message}")
    potentials = answer.eqlin.marginals
    return nodes, potentials[:n], potentials[n:], np.maximum(answer.x[:n], 0.0) * scale


@dataclass(frozen=True, eq=False)
class LowerCalibrationDistance(Shown):
    """Where the lower distance lies, and a fractional calibrated history that proves the upper end.

    Attributes
    ----------
    lower, upper
        lower <= lower distance <= upper, both proven. Sums over rounds, or averages if asked for.
    values
        Values of the fractional history, shape (n,), increasing.
    masses
        How many rounds, not whole, it keeps at each value, shape (n,): a fraction `values` of them ones.
    """

    lower: float
    upper: float
    values: Floats
    masses: Floats

    def _shown(self) -> Table:
        return bracket_of(self, "lower distance to calibration")


def lower_calibration_distance(
    forecasts: ArrayLike, outcomes: ArrayLike, normalize: bool = False, *, n_nodes: int = 1500
) -> LowerCalibrationDistance:
    """The least cost of moving rounds, whole or in parts, until they are perfectly calibrated.

    Parameters
    ----------
    forecasts
        Probabilities, shape (T,).
    outcomes
        0/1, boolean, or any numbers in [0, 1], shape (T,). One between 0 and 1 is read as a probability: y of
        its round has the outcome 1, 1 - y the outcome 0.
    normalize
        False: sums over rounds. True: divided by T.
    n_nodes
        Size of the linear program: upper - lower falls with about its square.

    Returns
    -------
    LowerCalibrationDistance
        lower and upper, and the fractional history that attains upper.

    Raises
    ------
    ValueError
        Bad forecasts, outcomes or n_nodes; the message names the argument, the value and its row.

    References
    ----------
    Blasiok, Gopalan, Hu & Nakkiran, "A unifying theory of distance from calibration" (2023), section 5.

    Examples
    --------
    >>> round(lower_calibration_distance([0.3, 0.3], [0, 1]).lower, 6)
    0.4
    """
    counts, _, _ = count_shares(forecasts, outcomes)
    return _lower_distance(counts, normalize, n_nodes)


def lower_calibration_distance_from_counts(
    values: ArrayLike, zeros: ArrayLike, ones: ArrayLike, normalize: bool = False, *, n_nodes: int = 1500
) -> LowerCalibrationDistance:
    """`lower_calibration_distance` of a history given as counts.

    Parameters
    ----------
    values
        Forecast values, shape (K,), in any order; repeated ones are added up.
    zeros, ones
        Rounds with that forecast and outcome 0, respectively 1; whole numbers, shape (K,).
    normalize, n_nodes
        As for `lower_calibration_distance`.

    Raises
    ------
    ValueError
        Bad values, counts or n_nodes.
    """
    return _lower_distance(check_counts(values, zeros, ones), normalize, n_nodes)


def _lower_distance(counts: Counts, normalize: bool, n_nodes: int) -> LowerCalibrationDistance:
    n_nodes = check_count(n_nodes, "n_nodes", least=2)
    relaxation = relax(counts, relaxation_nodes(counts, n_nodes))
    upper, masses = _fractional_history(counts, relaxation.nodes, relaxation.masses)
    scale, lower = counts.n_rounds if normalize else 1, min(relaxation.lower, upper)
    return LowerCalibrationDistance(lower / scale, upper / scale, relaxation.nodes, masses)


def _fractional_history(counts: Counts, nodes: Floats, masses: Floats) -> tuple[float, Floats]:
    """The cost of a fractional calibrated history near the solver's, and its masses.

    The solver's masses hold the right numbers of zeros and ones up to its tolerance only: they are scaled
    down to fit, and what is left over goes to the values 0 and 1, which are calibrated whatever they hold.
    """
    n_zeros, n_ones = counts.n_zeros, counts.n_ones
    held_zeros, held_ones = float((1.0 - nodes) @ masses), float(nodes @ masses)
    fit = min(1.0, n_zeros / held_zeros if held_zeros else 1.0, n_ones / held_ones if held_ones else 1.0)
    masses = masses * fit
    masses[0] += max(0.0, n_zeros - fit * held_zeros)
    masses[-1] += max(0.0, n_ones - fit * held_ones)
    cost = _flow_cost(counts.values, counts.zeros, nodes, (1.0 - nodes) * masses)
    cost += _flow_cost(counts.values, counts.ones, nodes, nodes * masses)
    return cost + counts.n_rounds * ROUNDING, masses


def _flow_cost(from_values: Floats, from_masses: NDArray[Any], to_values: Floats, to_masses: Floats) -> float:
    """Cost of moving one mass on the line onto another of the same size: what must pass each place."""
    places = merged(from_values, to_values)
    surplus = np.zeros(len(places))
    surplus[np.searchsorted(places, from_values)] += from_masses
    surplus[np.searchsorted(places, to_values)] -= to_masses
    return float(np.abs(np.cumsum(surplus)[:-1]) @ np.diff(places))
