"""Recalibration for groups, on rows that were not fitted, beside doing nothing and other methods."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.benchmarks.group_targets import LOANS, METHODS, NETWORKS, SIZES, SPLITS, check_targets, quality


@pytest.fixture(scope="module", autouse=True)
def heading(note):
    note(
        f"means of {SPLITS} splits        {'rows':>6s}  {'method':24s} {'log loss':>9s} {'Brier':>8s} "
        f"{'worst group':>11s} {'fit, s':>7s}"
    )


@pytest.mark.filterwarnings("ignore::onlinecal.LabelWarning")
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", [*NETWORKS, *LOANS])
def test_group_targets(note, name, n):
    results = {
        method: quality(method, name, n) for method in METHODS if method != "MCGrad" or find_spec("mcgrad")
    }
    if results["nothing"] is None:
        pytest.skip(f"{name} has no {n} rows here")
    for method, found in results.items():
        note(
            f"{name:24s} {n:6,d}  {method:24s} {found.log_loss:9.4f} {found.brier:8.4f} {found.worst:11.4f} "
            f"{found.seconds:7.2f}"
        )
    for method in ("GroupRecalibrator", "BoostedRecalibrator"):
        check_targets(results["nothing"], results[method], n, name == LOANS[2])
