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
stay as they are. In each step `look_at_errors` comes first, then `eliminate`, which `find_change` needs, then
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
    the left, of ones to the right, of ones to the left.
    """

    nodes: Floats
    costs: Floats
    """Of a round that is kept at each node, (n,)."""
    rounds: Floats
    """Zeros and ones at the nodes, (2, n)."""
    best: Floats
    """The potentials and the masses of the best point so far, (3, n)."""
    potentials: Floats
    """u0 and u1, (2, n)."""
    change: Floats
    """The change of the potentials, (2, n)."""
    currents: Floats
    """The right-hand side of the equations for the change, (2, n)."""
    correction: Floats
    """A correction of the change, (2, n)."""
    surplus: Floats
    """The rounds less the masses and the flows that leave a node, (2, n); 0 in a solution."""
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
    rounds = np.vstack([zeros, ones]) / scale
    program = Program(
        nodes=nodes,
        costs=costs,
        rounds=rounds,
        best=np.zeros((3, n)),
        potentials=np.full((2, n), -FIRST_SLACK),
        change=np.zeros((2, n)),
        currents=np.zeros((2, n)),
        correction=np.zeros((2, n)),
        surplus=np.zeros((2, n)),
        amounts=np.full(n_amounts, rounds.sum() / n),
        slacks=np.full(n_amounts, FIRST_SLACK),
        amount_change=np.zeros(n_amounts),
        slack_change=np.zeros(n_amounts),
        slack_error=np.zeros(n_amounts),
        wanted=np.zeros(n_amounts),
        wires=np.zeros((6, n)),
    )
    take_steps(program)
    u0, u1, masses = program.best
    return u0, u1, masses * scale


@compiled
def take_steps(program: Program) -> int:
    """Take steps from the program's point until it is optimal, and say how many."""
    amounts, slacks = program.amounts, program.slacks
    n, n_amounts, least, best_step = len(program.nodes), len(amounts), np.inf, 0
    for step in range(MOST_INTERIOR_STEPS):
        wrong = look_at_errors(program)
        gap, smallest = 0.0, 1.0
        for i in range(n_amounts):
            smallest = least_of(smallest, least_of(amounts[i], slacks[i]))
            gap += amounts[i] * slacks[i]
            program.wanted[i] = -amounts[i] * slacks[i]
        if gap + wrong < least:
            least, best_step = gap + wrong, step
            for k in range(n):
                program.best[0, k] = program.potentials[0, k]
                program.best[1, k] = program.potentials[1, k]
                program.best[2, k] = amounts[k]
        stalled = gap <= NEARLY_CLOSED_GAP * n_amounts and step > best_step + STEPS_WITHOUT_GAIN
        if gap <= CLOSED_GAP * n_amounts or stalled or smallest < SMALLEST_AMOUNT:
            return step
        eliminate(program)
        find_change(program)
        primal, dual = (
            step_to_bound(amounts, program.amount_change),
            step_to_bound(slacks, program.slack_change),
        )
        left = 0.0
        for i in range(n_amounts):
            amount = amounts[i] + primal * program.amount_change[i]
            left += amount * (slacks[i] + dual * program.slack_change[i])
        # Mehrotra's rule: the nearer such a step would come to 0, the less the second one holds back
        held_back = (left / gap) ** 3 * gap / n_amounts
        for i in range(n_amounts):
            program.wanted[i] += held_back - program.amount_change[i] * program.slack_change[i]
        find_change(program)
        primal, dual = (
            step_to_bound(amounts, program.amount_change),
            step_to_bound(slacks, program.slack_change),
        )
        for i in range(n_amounts):
            amounts[i] += SHARE_TO_BOUND * primal * program.amount_change[i]
            slacks[i] += SHARE_TO_BOUND * dual * program.slack_change[i]
        for outcome in range(2):
            for k in range(len(program.nodes)):
                program.potentials[outcome, k] += SHARE_TO_BOUND * dual * program.change[outcome, k]
    return MOST_INTERIOR_STEPS


@uncounted
def least_of(x: float, y: float) -> float:
    """The lesser of two numbers; numba takes longer to compile min."""
    return x if x < y else y


@uncounted
def look_at_errors(program: Program) -> float:
    """Fill in the surplus and the errors of slacks, and give back the sum of their sizes."""
    nodes, amounts, slacks, error = program.nodes, program.amounts, program.slacks, program.slack_error
    n, n_gaps = len(nodes), len(nodes) - 1
    for outcome in range(2):
        u, surplus = program.potentials[outcome], program.surplus[outcome]
        for k in range(n):
            share = abs(1.0 - outcome - nodes[k])
            surplus[k] = program.rounds[outcome, k] - share * amounts[k]
            if outcome == 0:
                error[k] = program.costs[k] - slacks[k]
            error[k] -= share * u[k]
        right = n + 2 * n_gaps * outcome
        for k in range(n_gaps):
            i = right + k
            flow, rise, gap = amounts[i] - amounts[i + n_gaps], u[k + 1] - u[k], nodes[k + 1] - nodes[k]
            surplus[k] -= flow
            surplus[k + 1] += flow
            error[i] = gap + rise - slacks[i]
            error[i + n_gaps] = gap - rise - slacks[i + n_gaps]
    wrong = 0.0
    for k in range(n):
        wrong += abs(program.surplus[0, k]) + abs(program.surplus[1, k])
    for i in range(len(error)):
        wrong += abs(error[i])
    return wrong


@uncounted
def eliminate(program: Program) -> None:
    """Fill in the wires: for each node the conductance to the ground of it and all nodes to its left."""
    nodes, amounts, slacks, wires = program.nodes, program.amounts, program.slacks, program.wires
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
def find_change(program: Program) -> None:
    """Find the change of potentials, slacks and amounts that removes errors and gives wanted products."""
    nodes, amounts, slacks = program.nodes, program.amounts, program.slacks
    error, wanted, change, currents = program.slack_error, program.wanted, program.change, program.currents
    n, n_gaps = len(nodes), len(nodes) - 1
    for outcome in range(2):
        for k in range(n):
            current = (amounts[k] * error[k] - wanted[k]) / slacks[k]
            currents[outcome, k] = program.surplus[outcome, k] + abs(1.0 - outcome - nodes[k]) * current
            change[outcome, k] = 0.0
        right = n + 2 * n_gaps * outcome
        for k in range(n_gaps):
            i, j = right + k, right + n_gaps + k
            current = (amounts[i] * error[i] - wanted[i]) / slacks[i]
            current -= (amounts[j] * error[j] - wanted[j]) / slacks[j]
            currents[outcome, k] += current
            currents[outcome, k + 1] -= current
    for _ in range(REFINEMENTS + 1):
        spread_currents(program)
        for outcome in range(2):
            for k in range(n):
                change[outcome, k] += program.correction[outcome, k]
    slack_change = program.slack_change
    for k in range(n):
        slack_change[k] = error[k] - (1.0 - nodes[k]) * change[0, k] - nodes[k] * change[1, k]
    for outcome in range(2):
        right = n + 2 * n_gaps * outcome
        for k in range(n_gaps):
            i, rise = right + k, change[outcome, k + 1] - change[outcome, k]
            slack_change[i] = error[i] + rise
            slack_change[i + n_gaps] = error[i + n_gaps] - rise
    for i in range(len(amounts)):
        program.amount_change[i] = (wanted[i] - amounts[i] * slack_change[i]) / slacks[i]


@uncounted
def spread_currents(program: Program) -> None:
    """Correct the change of potentials: solve the equations for the currents that it does not explain yet."""
    nodes, amounts, slacks, wires = program.nodes, program.amounts, program.slacks, program.wires
    n, n_gaps = len(nodes), len(nodes) - 1
    change0, change1 = program.change[0], program.change[1]
    left0, left1 = program.correction[0], program.correction[1]
    before0 = before1 = 0.0
    for k in range(n):
        node_value = nodes[k]
        kept = ((1.0 - node_value) * change0[k] + node_value * change1[k]) * amounts[k] / slacks[k]
        after0 = after1 = 0.0
        if k < n_gaps:
            after0 = wires[3, k] * (change0[k] - change0[k + 1])
            after1 = wires[4, k] * (change1[k] - change1[k + 1])
        left0[k] = program.currents[0, k] - (1.0 - node_value) * kept - after0 + before0
        left1[k] = program.currents[1, k] - node_value * kept - after1 + before1
        before0, before1 = after0, after1
    for k in range(n_gaps):
        y0, y1, wire0, wire1 = left0[k], left1[k], wires[3, k], wires[4, k]
        left0[k + 1] += wire0 * ((wire1 + wires[2, k]) * y0 - wires[1, k] * y1) / wires[5, k]
        left1[k + 1] += wire1 * ((wire0 + wires[0, k]) * y1 - wires[1, k] * y0) / wires[5, k]
    right0 = right1 = 0.0
    for k in range(n - 1, -1, -1):
        wire0, wire1 = wires[3, k], wires[4, k]
        y0, y1 = left0[k] + wire0 * right0, left1[k] + wire1 * right1
        right0 = ((wire1 + wires[2, k]) * y0 - wires[1, k] * y1) / wires[5, k]
        right1 = ((wire0 + wires[0, k]) * y1 - wires[1, k] * y0) / wires[5, k]
        left0[k], left1[k] = right0, right1


@uncounted
def step_to_bound(values: Floats, changes: Floats) -> float:
    """The largest share of the changes, at most 1, that leaves all values at least 0."""
    share = 1.0
    for i in range(len(values)):
        if values[i] + share * changes[i] < 0.0:
            share = -values[i] / changes[i]
    return share
