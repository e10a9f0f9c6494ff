"""What recalibration for groups is good for: hidden groups are found and put right, also on fresh rows."""

import numpy as np
import pandas as pd
import pytest

from onlinecal import GroupRecalibrator, multicalibration_error


def logistic(z):
    return 1 / (1 + np.exp(-z))


def population(n, seed):
    """Rows whose forecasts are right on average and wrong in each of ten overlapping groups."""
    rng = np.random.default_rng(seed)
    mass = np.array([0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.06, 0.04, 0.025])
    members = rng.random((n, 10)) < mass
    z = rng.normal(0, 1.5, n)
    lift = np.array([1, -1, 1, -1, 1.2, -1.5, 1.5, -2, 2, -2.5])
    truth = logistic(z + (members - mass) @ lift)
    return logistic(z), (rng.random(n) < truth).astype(int), members, truth


@pytest.mark.parametrize("patch", ["value", "shift"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_error_of_every_group_falls_on_fresh_rows(patch, seed):
    p, y, members, _ = population(40_000, seed)
    model = GroupRecalibrator.as_in_paper(3e-4, patch, n_levels=30).fit(p, y, members)
    q, fresh, groups, truth = population(40_000, seed + 100)
    after = model.predict(q, groups)
    m = model.n_levels_
    before_error = multicalibration_error(q, fresh, groups, n_levels=m)
    after_error = multicalibration_error(after, fresh, groups, n_levels=m)
    large = groups.mean(axis=0) >= 0.02
    assert large.all()
    assert (after_error < before_error).all()
    assert after_error.max() < 0.25 * before_error.max()
    inside = groups.astype(float) / groups.sum(axis=0)
    assert (((after - fresh) ** 2) @ inside < ((q - fresh) ** 2) @ inside).all()
    assert np.mean((after - truth) ** 2) < 0.6 * np.mean((q - truth) ** 2)


def test_shifts_keep_what_the_predictor_knew():
    p, y, members, _ = population(40_000, 5)
    q, _, groups, truth = population(40_000, 105)
    lost = {}
    for patch in ("value", "shift"):
        model = GroupRecalibrator.as_in_paper(3e-4, patch, n_levels=30).fit(p, y, members)
        lost[patch] = np.mean((model.predict(q, groups) - truth) ** 2)
    assert lost["shift"] < lost["value"]


@pytest.mark.parametrize("patch", ["value", "shift"])
def test_a_hidden_group_is_found_repaired_and_shown(patch):
    rng = np.random.default_rng(0)
    n = 20_000
    table = pd.DataFrame(
        {"region": rng.choice(["north", "south", "east"], n), "kind": rng.choice(["a", "b", "c", "d"], n)}
    )
    truth = rng.beta(2, 2, n)
    hidden = ((table["region"] == "south") & (table["kind"] == "c")).to_numpy()
    p = np.where(hidden, 1 - truth, truth)
    y = (rng.random(n) < truth).astype(int)
    train, test = np.arange(n) < n // 2, np.arange(n) >= n // 2
    model = GroupRecalibrator.as_in_paper(1e-3, patch, n_levels=20).fit(p[train], y[train], table[train])
    repair = model.report(p[test], y[test], table[test])
    assert repair.before.worst.name == "region=south & kind=c"
    lines = {row["group"]: row for row in repair.rows()}
    found = lines["region=south & kind=c"]
    assert found["violation_before"] > 5 * 1e-3
    assert found["violation_after"] < 0.2 * found["violation_before"]
    assert found["squared_error_after"] < found["squared_error_before"] - 0.02
    elsewhere = [row for row in repair.rows() if row["mass"] < 0.5 and row is not found]
    assert all(row["squared_error_after"] < row["squared_error_before"] + 0.005 for row in elsewhere)
    first = str(repair).splitlines()[1]
    assert first.startswith("region=south & kind=c")
    assert f"{found['violation_after']:.6f}" in first
