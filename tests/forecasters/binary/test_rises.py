"""What an adversary that sees the state is told: by how much the certificate rises with either outcome."""

from copy import deepcopy

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead

ROUNDS = 60
SETTINGS = [
    {"horizon": ROUNDS},
    {"horizon": ROUNDS, "rule": "sign", "report": "lower"},
    {"horizon": ROUNDS, "report": "upper"},
    {"horizon": ROUNDS, "grid": "graded"},
    {"grid": "nested"},
    {},
    {"slack": 2.5, "n_cells": 5},
    {"hints": True},
    {"hints": True, "horizon": ROUNDS},
    {"hints": True, "grid": "nested"},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_certificate_rises_as_it_is_told(settings):
    rng, forecaster = np.random.default_rng(7), AlmostOneStepAhead(**settings)
    for _ in range(ROUNDS):
        token = forecaster.forecast(rng.random() if settings.get("hints") else None)
        told = forecaster._rules.certificate_rises(forecaster.memory, *token.cell, token.probability, True)
        for outcome in (0, 1):
            twin = deepcopy(forecaster)
            twin.observe(token, outcome)
            assert told[outcome] == pytest.approx(twin.certificate - forecaster.certificate, abs=1e-6)
        forecaster.observe(token, int(rng.random() < 0.4))
