"""Recalibration at size: seconds and memory of defaults, and how fits to groups grow with the rows.

python -m tests.benchmarks.test_recalibration_speed lp 10000000 10 float32

makes one fit to many rows, and prints what it takes as JSON: nothing else is in the memory of the process.
"""

import json
import resource
import subprocess
import sys
import warnings

import numpy as np
import pytest

from onlinecal import GroupRecalibrator, LpRecalibrator
from tests import ROOT
from tests.benchmarks.conftest import seconds, sort_million

PIECE = 100_000


def class_rows(n, k, dtype):
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


def group_rows(n, n_groups, _):
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


KINDS = {"lp": (LpRecalibrator, class_rows), "groups": (GroupRecalibrator, group_rows)}


def gibibytes():
    """The most memory that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main(kind, n, width, dtype):
    """Compile on few rows, make the data, fit."""
    warnings.simplefilter("ignore")
    make, rows_of = KINDS[kind]
    make().fit(*rows_of(2000, width, dtype))
    data, model = rows_of(n, width, dtype), make()
    before = gibibytes()
    cpu = seconds(lambda: model.fit(*data))
    sorts = cpu / min(seconds(sort_million) for _ in range(5))
    print(json.dumps({"cpu": cpu, "sorts": sorts, "before": before, "peak": gibibytes()}))


@pytest.mark.parametrize(
    ("kind", "n", "width", "dtype", "at_most"),
    [
        *(("lp", 10**7, 10, dtype, 380) for dtype in ("float32", "float64")),
        *(("lp", 10**6, 100, dtype, 610) for dtype in ("float32", "float64")),
        *(("groups", *size, "float64", most) for *size, most in ((10**7, 10, 690), (10**6, 100, 560))),
    ],
)
def test_defaults_on_many_rows(note, kind, n, width, dtype, at_most):
    """In processes of their own, so that the most memory is that of the rows and one fit."""
    command = ["-m", "tests.benchmarks.test_recalibration_speed", kind, str(n), str(width), dtype]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    note(
        f"{kind}, n = {n:,}, {width} columns, {dtype}: {found['cpu']:.1f} s of a core, {found['sorts']:.0f}"
        f" sorts of a million numbers; {found['before']:.2f} GiB before, {found['peak']:.2f} GiB at most"
    )
    assert found["sorts"] <= at_most
    assert found["peak"] <= 4.0


SETTINGS = {
    "alpha .01": {"alpha": 0.01},
    "alpha .0001, 100 levels": {"alpha": 0.0001, "n_levels": 100},
}


def population(n, n_groups=20):
    """Forecasts that know nothing of the groups, which move the log odds up and down."""
    rng = np.random.default_rng(0)
    mass, lift = rng.uniform(0.02, 0.5, n_groups), rng.normal(0, 1.5, n_groups)
    rng = np.random.default_rng(n)
    members, p = rng.random((n, n_groups)) < mass, rng.random(n)
    truth = 1 / (1 + np.exp(-(members - mass) @ lift))
    return p, rng.random(n) < truth, members


@pytest.mark.parametrize("patch", ["value", "shift"])
@pytest.mark.parametrize("name", SETTINGS)
def test_fits_to_groups_take_twice_as_long_as_their_rows_at_most(note, name, patch):
    found = {}
    for n in (50_000, 1_000_000):
        model, (p, y, members) = GroupRecalibrator.as_in_paper(patch=patch, **SETTINGS[name]), population(n)
        model.fit(p[:100], y[:100], members[:100]).predict_proba(p[:9], members[:9])
        calls = lambda: model.fit(p, y, members), lambda: model.predict_proba(p, members)  # noqa: B023
        found[n] = np.median([[seconds(call) for call in calls] for _ in range(5)], axis=0)
    growth = found[1_000_000] / found[50_000]
    note(f"groups, {patch}, {name}: 20 times the rows take {growth[0]:.1f} and {growth[1]:.1f} times as long")
    assert growth.max() <= 40.0


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
