"""The relaxation's linear program, solved by an interior point method with steps in linear time.

Masses z_k are kept at the nodes x_k, (1 - x_k) z_k of them zeros and x_k z_k ones; zeros and ones flow to
neighbouring nodes on either side. The dual has potentials u0 and u1 at the nodes, and a slack for each
amount: -(1 - x_k) u0_k - x_k u1_k for a mass, the gap less the fall of a potential along a flow.

Each step of the method solves the equations of an electrical network: two wires, of u0 and of u1, with a
conductance in each gap, and a conductance to the ground at each node that ties the two together. Nodes are
eliminated from the left. The eliminated part acts on a node like a conductance to the ground, a symmetric
matrix of two rows, [[c00, c01], [c01, c11]]. Its determinant is carried along beside it. So numbers that are
nearly equal are never subtracted, and the potentials are right to the last digits.

Source: Mehrotra, "On the implementation of a primal-dual interior point method" (1992), for the steps.

A `Program` lives for one `solve_program`. `take_steps` and what it calls write it; nodes, costs and rounds
stay as they are. In each step errors come first, then `eliminate`, which `find_change` needs, then
`find_change` twice: without holding back, and with. Between steps amounts and slacks are positive, and `best`
holds the best point so far, which is the answer. What comes out is proved elsewhere, so steps may be changed
freely.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onlinecal.arrays import Floats
from onlinecal.compiling import compiled, uncounted

MOST_INTERIOR_STEPS = 200
"""At most so many steps; the most that was ever needed is 60, for 4,000 distinct forecasts."""

CLOSED_GAP = 1e-16
"""The method stops at this average of amount times slack; the largest number of rounds at a node is 1."""

NEARLY_CLOSED_GAP, STEPS_WITHOUT_GAIN = 1e-6, 12
"""Below this average it stops after so many steps without a better point, as only rounding errors are
left."""

SMALLEST_AMOUNT = 1e-60
"""A smaller amount or slack stops the method: products of quotients must not come near 0."""

REFINEMENTS = 1
"""How often each change is corrected for the rounding errors in its equations."""

SHARE_TO_BOUND = 0.999
"""The share of the way to the nearest bound that a step goes, so that amounts and slacks stay positive."""

SMALL_COST = 1e-7
"""The largest cost of a round at a node if few masses are wanted."""

FIRST_SLACK = 0.1
"""The slacks at the start, where both potentials are minus this."""


class Program(NamedTuple):
    """A linear program, the point that has been reached, and room for a step; N = 5n - 4 amounts.

    The amounts are the n masses, then the flows through the n - 1 gaps: of zeros to the right, of zeros to
    the left, of ones to the right, of ones to the left. What has 2n numbers has n for zeros, then n for ones.
    """

    nodes: Floats
    costs: Floats
    """Of a round that is kept at each node, or that passes each gap, (N,)."""
    rounds: Floats
    """Zeros and ones at the nodes, (2n,)."""
    best: Floats
    """The potentials and the masses of the best point so far, (3n,)."""
    potentials: Floats
    """u0 and u1, (2n,)."""
    change: Floats
    """The change of the potentials, (2n,)."""
    correction: Floats
    """A correction of the change, and before it is solved for, the currents that it has to explain, (2n,)."""
    surplus: Floats
    """The rounds less the masses and the flows that leave a node, (2n,); 0 in a solution."""
    amounts: Floats
    slacks: Floats
    amount_change: Floats
    slack_change: Floats
    slack_error: Floats
    """The slack that potentials and costs imply less the slack, (N,); 0 in a solution."""
    wanted: Floats
    """The wanted change of the product of each amount and its slack, (N,)."""
    wires: Floats
    """For each node, (6, n): the conductance to the ground c00, c01, c11 of it and all that lies to its left;
    the conductances of both wires to its right; and the determinant of the sum of these two matrices."""


def solve_program(
    nodes: Floats, zeros: Floats, ones: Floats, few: bool = False
) -> tuple[Floats, Floats, Floats]:
    """The potentials u0, u1 and the masses of a solution, (n,) each.

    nodes (n,): strictly increasing from 0 to 1. zeros, ones (n,): rounds at the nodes, not whole.

    If many solutions are optimal the answer is in the middle of them, with masses everywhere. With `few` each
    node has a small cost of its own, so that a single solution is optimal, and has masses at few nodes. The
    answer is only near an optimum: the caller has to prove what the potentials bound.
    """
    n = len(nodes)
    # multiples of the golden ratio: no two sums of few costs are equal
    costs = np.zeros(n)
    if few:
        costs += SMALL_COST * (np.arange(1, n + 1) * 0.6180339887498949 % 1.0)
    n_amounts = 5 * n - 4
    scale = max(zeros.max(), ones.max())
    rounds = np.concatenate([zeros, ones]) / scale
    program = Program(
        nodes=nodes,
        costs=np.concatenate([costs, np.tile(np.diff(nodes), 4)]),
        rounds=rounds,
        best=np.zeros(3 * n),
        potentials=np.full(2 * n, -FIRST_SLACK),
        change=np.zeros(2 * n),
        correction=np.zeros(2 * n),
        surplus=np.zeros(2 * n),
        amounts=np.full(n_amounts, rounds.sum() / n),
        slacks=np.full(n_amounts, FIRST_SLACK),
        amount_change=np.zeros(n_amounts),
        slack_change=np.zeros(n_amounts),
        slack_error=np.zeros(n_amounts),
        wanted=np.zeros(n_amounts),
        wires=np.zeros((6, n)),
    )
    take_steps(program)
    u0, u1, masses = program.best.reshape(3, n)
    return u0, u1, masses * scale


@compiled
def take_steps(program: Program) -> int:
    """Take steps from the program's point until it is optimal, and say how many."""
    nodes, potentials, amounts, slacks = program.nodes, program.potentials, program.amounts, program.slacks
    error, wanted, surplus = program.slack_error, program.wanted, program.surplus
    amount_change, slack_change = program.amount_change, program.slack_change
    n, n_amounts, least, best_step = len(nodes), len(amounts), np.inf, 0
    for step in range(MOST_INTERIOR_STEPS):
        fill_rises(nodes, potentials, error)
        fill_rest(nodes, program.rounds, amounts, surplus)
        wrong, gap, smallest = 0.0, 0.0, 1.0
        for k in range(2 * n):
            wrong += abs(surplus[k])
        for i in range(n_amounts):
            error[i] += program.costs[i] - slacks[i]
            wrong += abs(error[i])
            wanted[i] = -amounts[i] * slacks[i]
            gap -= wanted[i]
            if amounts[i] < smallest:
                smallest = amounts[i]
            if slacks[i] < smallest:
                smallest = slacks[i]
        if gap + wrong < least:
            least, best_step = gap + wrong, step
            for k in range(2 * n):
                program.best[k] = potentials[k]
            for k in range(n):
                program.best[2 * n + k] = amounts[k]
        stalled = gap <= NEARLY_CLOSED_GAP * n_amounts and step > best_step + STEPS_WITHOUT_GAIN
        if gap <= CLOSED_GAP * n_amounts or stalled or smallest < SMALLEST_AMOUNT:
            return step
        eliminate(nodes, amounts, slacks, program.wires)
        for is_second in range(2):
            primal, dual = find_change(program)
            if is_second:
                break
            left = 0.0
            for i in range(n_amounts):
                left += (amounts[i] + primal * amount_change[i]) * (slacks[i] + dual * slack_change[i])
            # Mehrotra's rule: the nearer such a step would come to 0, the less the second one holds back
            share = left / gap
            held_back = share * share * share * gap / n_amounts
            for i in range(n_amounts):
                wanted[i] += held_back - amount_change[i] * slack_change[i]
        for i in range(n_amounts):
            amounts[i] += SHARE_TO_BOUND * primal * amount_change[i]
            slacks[i] += SHARE_TO_BOUND * dual * slack_change[i]
        for k in range(2 * n):
            potentials[k] += SHARE_TO_BOUND * dual * program.change[k]
    return MOST_INTERIOR_STEPS


@uncounted
def fill_rises(nodes: Floats, potentials: Floats, rises: Floats) -> None:
    """Fill in what potentials (2n,) add to the slack of each amount, (N,)."""
    n, n_gaps = len(nodes), len(nodes) - 1
    for k in range(n):
        rises[k] = (nodes[k] - 1.0) * potentials[k] - nodes[k] * potentials[n + k]
    for outcome in range(2):
        first, right = n * outcome, n + 2 * n_gaps * outcome
        for k in range(n_gaps):
            rise = potentials[first + k + 1] - potentials[first + k]
            rises[right + k] = rise
            rises[right + n_gaps + k] = -rise


@uncounted
def fill_rest(nodes: Floats, rounds: Floats, amounts: Floats, rest: Floats) -> None:
    """Fill in what remains at the nodes of rounds (2n,) after these masses and flows, (2n,)."""
    n, n_gaps = len(nodes), len(nodes) - 1
    for outcome in range(2):
        first, right = n * outcome, n + 2 * n_gaps * outcome
        for k in range(n):
            rest[first + k] = rounds[first + k] - abs(1.0 - outcome - nodes[k]) * amounts[k]
        for k in range(n_gaps):
            flow = amounts[right + k] - amounts[right + n_gaps + k]
            rest[first + k] -= flow
            rest[first + k + 1] += flow


@uncounted
def eliminate(nodes: Floats, amounts: Floats, slacks: Floats, wires: Floats) -> None:
    """Fill in the wires: for each node the conductance to the ground of it and all nodes to its left."""
    n, n_gaps = len(nodes), len(nodes) - 1
    c00 = c01 = c11 = determinant = 0.0
    for k in range(n):
        own, node_value = amounts[k] / slacks[k], nodes[k]
        rest = 1.0 - node_value
        grows = c11 * rest * rest - 2.0 * c01 * rest * node_value + c00 * node_value * node_value
        if grows > 0.0:
            determinant += own * grows
        c00 += own * rest * rest
        c01 += own * rest * node_value
        c11 += own * node_value * node_value
        wire0 = wire1 = 0.0
        total = determinant
        if k < n_gaps:
            i = n + k
            wire0 = amounts[i] / slacks[i] + amounts[i + n_gaps] / slacks[i + n_gaps]
            i += 2 * n_gaps
            wire1 = amounts[i] / slacks[i] + amounts[i + n_gaps] / slacks[i + n_gaps]
            total += wire0 * wire1 + wire0 * c11 + wire1 * c00
        wires[0, k], wires[1, k], wires[2, k] = c00, c01, c11
        wires[3, k], wires[4, k], wires[5, k] = wire0, wire1, total
        # through the wires to the next node: conductances in series
        passed = wire0 * wire1 / total
        c00 = passed * c00 + wire0 * determinant / total
        c11 = passed * c11 + wire1 * determinant / total
        c01 *= passed
        determinant *= passed


@uncounted
def find_change(program: Program) -> tuple[float, float]:
    """Find the change of potentials, slacks and amounts that removes errors and gives wanted products.

    Returns the largest shares of the changes of amounts and of slacks, at most 1, that leave all at least 0.
    """
    nodes, amounts, slacks, change = program.nodes, program.amounts, program.slacks, program.change
    amount_change, slack_change = program.amount_change, program.slack_change
    for k in range(len(change)):
        change[k] = 0.0
    for refinements in range(-1, REFINEMENTS + 1):
        fill_rises(nodes, change, slack_change)
        for i in range(len(amounts)):
            slack_change[i] += program.slack_error[i]
            amount_change[i] = (program.wanted[i] - amounts[i] * slack_change[i]) / slacks[i]
        if refinements < REFINEMENTS:
            fill_rest(nodes, program.surplus, amount_change, program.correction)
            spread_currents(program.wires, program.correction)
            for k in range(len(change)):
                change[k] += program.correction[k]
    primal = dual = 1.0
    for i in range(len(amounts)):
        if amounts[i] + primal * amount_change[i] < 0.0:
            primal = -amounts[i] / amount_change[i]
        if slacks[i] + dual * slack_change[i] < 0.0:
            dual = -slacks[i] / slack_change[i]
    return primal, dual


@uncounted
def spread_currents(wires: Floats, currents: Floats) -> None:
    """Put in place of currents into the nodes, (2n,), the change of potentials that they cause."""
    n = wires.shape[1]
    for k in range(n - 1):
        y0, y1, wire0, wire1 = currents[k], currents[n + k], wires[3, k], wires[4, k]
        currents[k + 1] += wire0 * ((wire1 + wires[2, k]) * y0 - wires[1, k] * y1) / wires[5, k]
        currents[n + k + 1] += wire1 * ((wire0 + wires[0, k]) * y1 - wires[1, k] * y0) / wires[5, k]
    right0 = right1 = 0.0
    for k in range(n - 1, -1, -1):
        wire0, wire1 = wires[3, k], wires[4, k]
        y0, y1 = currents[k] + wire0 * right0, currents[n + k] + wire1 * right1
        right0 = ((wire1 + wires[2, k]) * y0 - wires[1, k] * y1) / wires[5, k]
        right1 = ((wire0 + wires[0, k]) * y1 - wires[1, k] * y0) / wires[5, k]
        currents[k], currents[n + k] = right0, right1
