#!/usr/bin/env bash
# OR-Tools' flows: costs in an array are cut to whole numbers without a word, and a plan that is dear is OPTIMAL at 0.
#
# Guess. Costs of flows and assignments are whole numbers, as their types say. A cost of 0.9 is refused, whether it
# is given alone or in an array.
#
# What happens (ortools 9.15.6755, numpy 2.4.6, Python 3.11). Alone it is refused with a TypeError. The calls that take
# many arcs cut it towards 0, in an array and in a list. Then every cost below 1 is 0, every plan is as good as any
# other, and the answer is OPTIMAL at cost 0. Four forecasts that can be matched at 0.35 get a plan that costs 0.85
# as a flow, and one of 1.65 as an assignment. Capacities and supplies are cut, too: the largest flow through
# three arcs of 0.9 is an OPTIMAL 0.
#
# Why it matters here. All distances between probabilities are below 1. Whoever checks a distance to calibration with
# such a flow, and hands costs over in arrays, is told that everything is calibrated.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet ortools==9.15.6755 numpy==2.4.6
cd "$folder"

cat > cut.py <<'PYTHON'
"""Four forecasts, matched to four values, as a flow and as an assignment."""

import numpy as np
from ortools.graph.python.linear_sum_assignment import SimpleLinearSumAssignment
from ortools.graph.python.max_flow import SimpleMaxFlow
from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

FORECASTS, VALUES = [0.1, 0.2, 0.4, 0.8], [0.5, 0.7, 0.15, 0.3]
COSTS = np.abs(np.subtract.outer(FORECASTS, VALUES))
FROM, TO = np.repeat(np.arange(4), 4), np.tile(np.arange(4), 4)


def by_flow(costs, as_given):
    """Status, cost as it is reported, and as it is."""
    flow = SimpleMinCostFlow()
    ones = np.ones(16, np.int64)
    arcs = flow.add_arcs_with_capacity_and_unit_cost(FROM, 4 + TO, ones, as_given(costs.ravel()))
    flow.set_nodes_supplies(np.arange(8), np.repeat([1, -1], 4))
    status = flow.solve()
    return status.name, flow.optimal_cost(), float(flow.flows(arcs) @ costs.ravel())


def by_assignment(costs, as_given):
    assignment = SimpleLinearSumAssignment()
    assignment.add_arcs_with_cost(FROM, TO, as_given(costs.ravel()))
    status = assignment.solve()
    return status.name, assignment.optimal_cost(), sum(costs[i, assignment.right_mate(i)] for i in range(4))


least = np.abs(np.sort(FORECASTS) - np.sort(VALUES)).sum()  # on the line, the sorted matching is the cheapest
print(f"least cost: {least:.2f}")
whole = np.rint(COSTS * 100).astype(np.int64)
for name, solver in (("flow", by_flow), ("assignment", by_assignment)):
    for kind, as_given in (("an array", np.asarray), ("a list", np.ndarray.tolist)):
        status, reported, cost = solver(COSTS, as_given)
        print(f"{name}, costs in {kind}: {status}, cost {reported} reported, {cost:.2f} true")
        # right would be an error, or the least cost
        assert status == "OPTIMAL" and reported == 0 and cost > 2 * least
    assert solver(whole, np.asarray)[1] == 35

refusals = []
for add in (
    lambda: SimpleMinCostFlow().add_arc_with_capacity_and_unit_cost(0, 1, 1, 0.9),
    lambda: SimpleLinearSumAssignment().add_arc_with_cost(0, 1, 0.9),
    lambda: SimpleMaxFlow().add_arc_with_capacity(0, 1, 0.9),
):
    try:
        add()
    except TypeError:
        refusals.append("TypeError")
print("one at a time:", refusals)
assert len(refusals) == 3

largest = SimpleMaxFlow()
largest.add_arcs_with_capacity(np.array([0, 0, 0]), np.array([1, 1, 1]), np.array([0.9, 0.9, 0.9]))
status = largest.solve(0, 1)
supplied = SimpleMinCostFlow()
supplied.set_nodes_supplies(np.array([0, 1]), np.array([0.9, -1.9]))
print(f"largest flow of three times 0.9: {status.name}, {largest.optimal_flow()}")
print("supplies of 0.9 and -1.9:", supplied.supply(0), supplied.supply(1))
assert status.name == "OPTIMAL" and largest.optimal_flow() == 0
assert (supplied.supply(0), supplied.supply(1)) == (0, -1)
PYTHON
venv/bin/python cut.py
