"""A smaller check of the targets that tests/benchmarks/test_decision_quality.py asserts in full."""

from __future__ import annotations

import pytest

from tests.benchmarks.test_decision_quality import NETWORKS, check_targets, quality


@pytest.mark.parametrize("network", ["WideResNet CIFAR-10"])
def test_a_real_networks_gaps_shrink_on_rows_that_were_not_fitted(network):
    check_targets(
        *(quality(NETWORKS[network], method, 3) for method in ("uncalibrated", "temperature", "decision"))
    )
