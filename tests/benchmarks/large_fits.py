"""One fit to many rows, with what it takes, printed as JSON: the process has nothing else in its memory.

python -m tests.benchmarks.large_fits lp 10000000 10 float32
"""

import json
import resource
import sys
import time
import warnings

import numpy as np

from onlinecal import BoostedRecalibrator, DecisionRecalibrator, GroupRecalibrator, LpRecalibrator
from tests.benchmarks.conftest import seconds, sort_million

PIECE = 100_000
KINDS = {
    "lp": LpRecalibrator,
    "decision": DecisionRecalibrator,
    "groups": GroupRecalibrator,
    "boost": BoostedRecalibrator,
}


def class_rows(n, k, dtype=np.float64):
    """An overconfident model, its top class by Zipf's law, right 6 times in 10: probabilities and labels."""
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, k + 1)
    table, labels = np.empty((n, k), dtype), np.empty(n, np.int64)
    for start in range(0, n, PIECE):
        m = min(PIECE, n - start)
        top, other = rng.choice(k, (2, m), p=shares / shares.sum())
        part = rng.standard_exponential((m, k))
        part[np.arange(m), top] = 0.0
        sure = rng.beta(30, 1, m)
        part *= ((1 - sure) / part.sum(axis=1))[:, None]
        part[np.arange(m), top] = sure
        table[start : start + m] = part
        labels[start : start + m] = np.where(rng.random(m) < 0.6, top, other)
    return table, labels


def group_rows(n, n_groups):
    """Forecasts that are wrong in some of overlapping groups of 5 to 50 % of the rows."""
    rng = np.random.default_rng(0)
    p, y, members = np.empty(n), np.empty(n, bool), np.empty((n, n_groups), bool)
    for start in range(0, n, PIECE):
        rows = slice(start, min(start + PIECE, n))
        m = rows.stop - start
        p[rows] = rng.beta(1, 3, m)
        inside = members[rows] = rng.random((m, n_groups)) < np.linspace(0.05, 0.5, n_groups)
        truth = 1.1 * p[rows] + 0.02 * (inside[:, 1:4].sum(axis=1) - 1.0) + 0.05 * inside[:, 0]
        truth -= 0.04 * inside[:, -1] * (p[rows] > 0.5)
        y[rows] = rng.random(m) < truth
    return p, y, members


def gibibytes():
    """The most memory that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main(kind, n, width, dtype="float64"):
    """Compile on few rows, make the data, fit."""
    warnings.simplefilter("ignore")
    make = group_rows if kind in ("groups", "boost") else lambda n, k: class_rows(n, k, dtype)
    model = KINDS[kind]()
    ordered = (lambda p, y, members: (members, y, p)) if kind == "boost" else lambda *data: data
    model.fit(*ordered(*make(2000, width)))
    data = ordered(*make(n, width))
    before, found = gibibytes(), {"cpu": seconds(lambda: model.fit(*data))}
    found["sorts"] = found["cpu"] / min(seconds(sort_million) for _ in range(5))
    start = time.perf_counter()
    (model.predict(data[0], data[2]) if kind in ("groups", "boost") else model.predict_proba(data[0]))
    found |= {"predict": time.perf_counter() - start, "before": before, "peak": gibibytes()}
    made = model.n_patches_ if kind == "groups" else model.n_rounds_
    start_name = model.start_.kind if kind in ("groups", "boost") else model.start_name_
    print(json.dumps({**found, "rounds": made, "start": start_name}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
