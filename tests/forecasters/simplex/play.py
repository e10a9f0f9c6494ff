"""The simplex machine played in the interpreter on a list, or compiled, and what to look at afterwards."""

from itertools import product

import numpy as np

from onlinecal.forecasters.rules import DONE
from onlinecal.forecasters.simplex.input import MIXED
from onlinecal.forecasters.simplex.machine import memory as layout
from onlinecal.forecasters.simplex.machine import rules as machine
from onlinecal.forecasters.simplex.machine.memory import new_memory, records_of
from onlinecal.forecasters.simplex.machine.rules import RULES, begin, lay_out, settle_parts
from onlinecal.forecasters.simplex.machine.windows import NO_WINDOW

MANY = 1 << 12
NO_HINTS = np.empty((0, 0))
NO_CELL = np.empty(0, np.int32)


def ready(k, m, slack=None, records=MANY):
    memory = new_memory(k, m, 1, slack, room=records)
    machine.make_ready(memory)
    return memory


def ready_list(k, m, slack=None, records=MANY, step=1, report=0):
    memory = new_memory(k, m, step, slack, bool(report), report, records).tolist()
    begin(memory)
    return memory


def sums_of(memory, frame):
    return [int(s) for s in memory[frame + layout.SUMS : frame + layout.SUMS + int(memory[layout.CLASSES])]]


def vertices_of(memory, frame):
    """The vertices of a frame's cell in cyclic order: [(point, label), ...]."""
    k, labels = int(memory[layout.CLASSES]), int(layout.part_of(memory, frame, layout.LABELS))
    places = [int(layout.vertex_at(memory, frame, i)) for i in range(k)]
    return [(tuple(int(c) for c in memory[x : x + k]), int(memory[labels + i])) for i, x in enumerate(places)]


def interpret(memory, outcomes, hints=None, soft=None):
    """Play on a list: the forecasts, the sums of their cells' vertices and the charged points.

    `soft` are the weights of MIXED outcomes, their parts and how far they were rounded.
    """
    k, forecasts, sums, charged = int(memory[layout.CLASSES]), [], [], []
    for t, outcome in enumerate(outcomes):
        forecast, point = [0.0] * k, [0.0] * k
        frame = RULES.announce(memory, [] if hints is None else hints[t], forecast)
        forecasts.append(forecast)
        sums.append(sums_of(memory, frame))
        charged.append(point)
        if outcome == MIXED:
            row, parts, rounded = soft[0][t].tolist(), soft[1], float(soft[2][t])
            points, distances = [0] * (k * k + k), [0] * (2 * k + 1)
            unit = memory[layout.STEP]
            way = lay_out(memory, frame, forecast, k, unit, row, parts, points, distances)
            settle_parts(memory, [], points, distances, row, parts, way, rounded, False)
            continue
        RULES.point(memory, frame, forecast, int(outcome), point)
        RULES.settle(memory, frame, forecast, int(outcome))
    return forecasts, sums, charged


def parts_of(token, y, n_classes=None):
    """What a settled round was charged to, from its token and the distribution over all classes that came.

    `n_classes` is how many had come when it was settled, included; None: all. A list of (point, weight,
    outcome, distance); no point where the round was charged to its outcome.
    """
    y, known = np.asarray(y, float), len(token.vector)
    n_classes = n_classes or len(y)
    classes, p = np.eye(len(y)), np.array([*token.vector, *[0.0] * (len(y) - known)])
    points = classes.copy()
    if token.cell is not None:
        points[:known, :known] = token.cell.vertices / token.cell.scale
    if y.max() < 1.0 and known == n_classes:
        if abs(np.linalg.det(points)) > 1e-12 and np.linalg.solve(points.T, y).min() >= -1e-12:
            return [(None, 1.0, y, np.abs(p - y).sum())]
        if n_classes == 2:
            side = int(y[1] > points[:2, 1].min())
            return [(tuple(points[side]), 1.0, y, np.abs(p - points[side]).sum())]
    far = [np.abs(p - x)[:known].sum() if j < known else 2.0 for j, x in enumerate(points)]
    return [(tuple(points[j]), y[j], classes[j], far[j]) for j in np.flatnonzero(y)]


def worth(settled):
    """The certificate of rounds that were charged to such parts."""
    moved, biases = 0.0, {}
    for point, weight, outcome, far in (part for parts in settled for part in parts):
        moved += weight * far
        if point is not None:
            biases[point] = biases.get(point, 0.0) + weight * (np.array(point) - outcome)
    return moved + sum(np.abs(bias).sum() for bias in biases.values())


def soft_labels(k, rounds, seed, concentration=0.7):
    """Distributions that drift, some of them single classes."""
    rng = np.random.default_rng(seed)
    labels = rng.dirichlet(np.full(k, concentration), rounds)
    labels[:: 1 + seed % 5] = np.eye(k)[outcomes_of("drift", k, rounds, seed)][:: 1 + seed % 5]
    return labels


def replay(memory, outcomes, hints=None, soft=None):
    k = int(memory[layout.CLASSES])
    forecasts, charged = np.empty((len(outcomes), k)), np.zeros((len(outcomes), k))
    guide = NO_HINTS if hints is None else hints
    soft = soft or (np.empty((0, k), np.int64), 1, np.empty(0))
    played = np.asarray(outcomes, np.int64), *soft, guide, forecasts, charged
    assert machine.replay(memory, NO_WINDOW, *played, 0) == len(outcomes)
    return forecasts, charged


def biases_of(memory):
    """{point: biases} in units of 1/SCALE."""
    k = int(memory[layout.CLASSES])
    table = records_of(np.asarray(memory))
    return {
        tuple(row[layout.POINT : layout.POINT + k].tolist()): row[layout.POINT + k :].tolist()
        for row in table
    }


def outcomes_of(kind, k, rounds, seed):
    """A stream without an adversary: coins, drifting coins, one class after another, or a constant."""
    rng = np.random.default_rng(seed)
    if kind == "coins":
        return rng.integers(0, k, rounds)
    if kind == "drift":
        blocks = [rng.choice(k, 50, p=rng.dirichlet(np.ones(k))) for _ in range(rounds // 50 + 1)]
        return np.concatenate(blocks)[:rounds]
    if kind == "turns":
        return np.arange(rounds) % k
    return np.full(rounds, seed % k)


def chase(memory, rounds, kind, seed=0):
    """An adversary who sees the forecast: the list of the outcomes he chose."""
    rng, played = np.random.default_rng(seed), []
    for _ in range(rounds):
        here = int(memory[layout.CURRENT_FRAME])
        k, sums = int(memory[layout.CLASSES]), sums_of(memory, here)
        if kind == "least":
            outcome = int(np.argmin(sums))
        elif kind == "flip":
            rises = [0.0] * k
            RULES.certificate_rises(memory, here, [], rises)
            outcome = max(zip(rises, range(k), strict=True))[1]
        else:
            outcome = int(rng.choice(np.flatnonzero(np.asarray(sums) < int(memory[layout.SCALE]) + 1)))
        played.append(outcome)
        assert machine.advance(memory, NO_WINDOW, outcome, 1) == DONE
    return played


def lattice(k, n):
    """All distributions over k classes in multiples of 1/n."""
    return [np.array(y) / n for y in product(range(n + 1), repeat=k) if sum(y) == n]
