"""Recalibration at size: seconds and memory of defaults, and how fits to groups grow with the rows."""

import json
import subprocess
import sys

import numpy as np
import pytest

from onlinecal import GroupRecalibrator
from tests import ROOT
from tests.benchmarks.conftest import seconds


@pytest.mark.parametrize(
    ("kind", "n", "width", "dtype", "most_sorts", "most_memory"),
    [
        ("lp", 10**7, 10, "float32", 1000, 4.0),
        ("lp", 10**7, 10, "float64", 1000, 4.0),
        ("lp", 10**6, 100, "float32", 1000, 4.0),
        ("lp", 10**6, 100, "float64", 1000, 4.0),
        ("groups", 10**7, 10, "float64", 1000, 4.0),
        ("groups", 10**6, 100, "float64", 1000, 4.0),
    ],
)
def test_defaults_on_many_rows(note, kind, n, width, dtype, most_sorts, most_memory):
    """In processes of their own, so that the most memory is that of the rows and one fit."""
    command = [sys.executable, "-m", "tests.benchmarks.large_fits", kind, str(n), str(width), dtype]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    note(
        f"{kind}, n = {n:,}, {width} columns, {dtype}: {found['cpu']:.1f} s of a core, {found['sorts']:.0f}"
        f" sorts of a million numbers, {found['rounds']} rounds after {found['start']}; predict"
        f" {found['predict']:.1f} s; {found['before']:.2f} GiB before, {found['peak']:.2f} GiB at most"
    )
    assert found["sorts"] <= most_sorts
    assert found["peak"] <= most_memory


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


def medians(model, p, y, members):
    """Seconds of fit and of predict."""
    model.fit(p[:100], y[:100], members[:100]).predict(p[:9], members[:9])
    return np.median(
        [
            (seconds(lambda: model.fit(p, y, members)), seconds(lambda: model.predict(p, members)))
            for _ in range(5)
        ],
        axis=0,
    )


@pytest.mark.parametrize("patch", ["value", "shift"])
@pytest.mark.parametrize("name", SETTINGS)
def test_groups(note, name, patch):
    found = {}
    for n in (50_000, 1_000_000):
        model = GroupRecalibrator.as_in_paper(patch=patch, **SETTINGS[name])
        found[n] = medians(model, *population(n))
        note(
            f"groups, {patch}, {name}, {n:>9,} rows, {model.n_patches_:5d} patches:"
            f" fit {found[n][0]:.3f} s, predict {found[n][1]:.4f} s"
        )
    growth = found[1_000_000] / found[50_000]
    note(f"groups, {patch}, {name}: 20 times the rows take {growth[0]:.1f} and {growth[1]:.1f} times as long")
    assert growth.max() <= 40.0
