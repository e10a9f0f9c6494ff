"""Decision recalibration of real networks against the baselines: half fit, half test, seed 0, 500 losses."""

from __future__ import annotations

import pytest

from tests.benchmarks.decision_targets import METHODS, NETWORKS, check_targets, quality


@pytest.fixture(scope="module", autouse=True)
def heading(note):
    note(
        f"{'network':20s} K  {'method':13s} {'mean gap':>9s} {'worst gap':>9s} {'accuracy':>9s} "
        f"{'squared error':>13s} {'fit, s':>7s}"
    )


@pytest.mark.parametrize("n_actions", [2, 3, 5])
@pytest.mark.parametrize("network", NETWORKS)
def test_decision_targets_on_real_networks(note, network, n_actions):
    path = NETWORKS[network]
    if not path.exists():
        pytest.skip(f"{path.name} is not here")
    results = {method: quality(path, method, n_actions) for method in METHODS}
    for method, (mean, worst, accuracy, squared, seconds) in results.items():
        note(
            f"{network:20s} {n_actions}  {method:13s} {mean:9.5f} {worst:9.5f} {accuracy:9.4f} "
            f"{squared:13.5f} {seconds:7.2f}"
        )
    check_targets(results["uncalibrated"], results["temperature"], results["decision"])
