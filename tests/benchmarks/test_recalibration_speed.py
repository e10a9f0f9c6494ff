"""l_p recalibration at size: fit and predict in seconds and as ratios to one pass of numpy, and memory."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
import tracemalloc
import warnings

import numpy as np
import pytest

from onlinecal import LpRecalibrator, lp_calibration_error
from tests import ROOT
from tests.benchmarks.closing_table import LINES
from tests.benchmarks.large_fits import class_rows


def levels_by_numpy(table, n_levels):
    return np.floor(table * n_levels).astype(np.int64).sum(axis=1)


@pytest.fixture(autouse=True)
def few_rows_are_fine():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        LpRecalibrator(n_levels=3).fit([[0.5, 0.5]] * 4, [0, 1, 0, 1]).predict_proba([[0.5, 0.5]])
        yield


def note(name, seconds, target, more=""):
    LINES.append(f"{name:75s} {seconds:9.4f} s{more}   target {target}")


@pytest.mark.parametrize(
    ("n", "k", "p", "epsilon", "n_levels", "target"),
    [
        (10**5, 10, math.inf, 0.05, None, "2 s"),
        (10**5, 10, 2, 0.02, 10, "none stated"),
        (40_000, 1000, math.inf, 0.05, None, "10 s"),
        (40_000, 1000, 2, 0.02, 5, "10 s"),
    ],
)
def test_fit(compare, n, k, p, epsilon, n_levels, target):
    table, labels = class_rows(n, k)
    model = LpRecalibrator.as_in_paper(p, epsilon, n_levels=n_levels)
    start = time.perf_counter()
    model.fit(table, labels)
    assert model.n_rounds_ > 0
    more = f"   {model.n_rounds_} rounds, {len(model.level_sets_)} level sets"
    note(f"fit, n = {n:,}, k = {k}, epsilon = {epsilon}, p = {p}", time.perf_counter() - start, target, more)
    compare(
        lambda: model.fit(table, labels),
        lambda: levels_by_numpy(table, model.n_levels_),
        "none stated",
        rounds=3,
    )


def test_memory_beyond_the_table():
    """What fit holds at most: the checks' booleans, n numbers for each row, k/beta numbers for the groups."""
    table, labels = class_rows(40_000, 1000)
    model = LpRecalibrator.as_in_paper(p=math.inf, epsilon=0.05)
    tracemalloc.start()
    start = time.perf_counter()
    model.fit(table, labels)
    seconds = time.perf_counter() - start
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.5 * table.nbytes
    note(
        "fit, n = 40,000, k = 1000, memory traced",
        seconds,
        "below half of the table",
        f"   {peak / table.nbytes:.3f}",
    )


@pytest.mark.parametrize("within", ["constant", "shift"])
def test_predict(compare, within):
    table, labels = class_rows(10**6, 10)
    model = LpRecalibrator.as_in_paper(math.inf, 0.05, within=within).fit(table[: 10**5], labels[: 10**5])
    start = time.perf_counter()
    model.predict_proba(table)
    note(f"predict 10^6 x 10, {within}", time.perf_counter() - start, "2 s")
    compare(
        lambda: model.predict_proba(table),
        lambda: levels_by_numpy(table, model.n_levels_),
        "none stated",
        rounds=3,
    )


@pytest.mark.parametrize(
    ("kind", "n", "width", "dtype"),
    [
        ("lp", 10**7, 10, "float32"),
        ("lp", 10**7, 10, "float64"),
        ("lp", 10**6, 100, "float32"),
        ("lp", 10**6, 100, "float64"),
        ("groups", 10**7, 10, "float64"),
        ("groups", 10**6, 100, "float64"),
    ],
)
def test_defaults_on_many_rows(kind, n, width, dtype):
    """In processes of their own, so that the most memory is that of the rows and one fit."""
    command = [sys.executable, "-m", "tests.benchmarks.large_fits", kind, str(n), str(width), dtype]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    more = f"   {found['cpu']:.1f} s of a core; {found['before']:.2f} GiB before, {found['peak']:.2f} at most"
    more += f"; {found['rounds']} rounds after {found['start']}; predict {found['predict']:.1f} s"
    note(f"{kind}, n = {n:,}, {width} columns, {dtype}", found["seconds"], "60 s, 16 GiB", more)
    assert found["peak"] < 16.0


def test_the_error_of_a_million_rows(compare):
    table, labels = class_rows(10**6, 10)
    compare(
        lambda: lp_calibration_error(table, labels, 2, 10),
        lambda: levels_by_numpy(table, 10),
        "none stated",
        rounds=3,
    )
