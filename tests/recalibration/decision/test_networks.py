"""A smaller check of the targets that tests/benchmarks/test_decision_quality.py asserts in full."""

from __future__ import annotations

import pytest

from tests.benchmarks.decision_targets import NETWORKS, check_targets, quality


@pytest.mark.parametrize("network", ["WideResNet CIFAR-10"])
def test_a_real_networks_gaps_shrink_on_rows_that_were_not_fitted(network):
    path = NETWORKS[network]
    if not path.exists():
        pytest.skip(f"{path.name} is not here")
    check_targets(*(quality(path, method, 3) for method in ("uncalibrated", "temperature", "decision")))
