"""Hints keep their skill in the engine: games of known teams, one key for all and one for each home team."""

import csv
from operator import itemgetter

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead
from onlinecal.engine import Engine, EngineConfig, Forecast, KeyConfig, Outcome, Query
from tests import DATA

PRICES = {"nba_games.csv": (-0.002, 0.02), "mlb_games.csv": (0.002, 0.01)}
"""What the engine, and a forecaster alone, may lose of the hints' Brier score, as a part of it."""


def games(path):
    """Hints, outcomes and home teams, in order of time."""
    with path.open() as file:
        rows = sorted(csv.DictReader(file), key=itemgetter("date"))
    hints, outcomes = (np.array([float(row[name]) for row in rows]) for name in ("prob1", "prob1_outcome"))
    return hints, outcomes, [row["team1"] for row in rows]


def engine_forecasts(config, hints, outcomes, keys):
    rounds = zip(hints.tolist(), outcomes.tolist(), keys, strict=True)
    events = [
        event for t, (p, y, key) in enumerate(rounds) for event in (Query(str(t), key, p), Outcome(str(t), y))
    ]
    with Engine(None, config) as engine:
        answers = engine.handle(events)
    return np.array([answer.probability for answer in answers if isinstance(answer, Forecast)])


@pytest.mark.parametrize("name", PRICES)
def test_defaults_cost_hints_no_skill(name):
    if not (DATA / name).exists():
        pytest.skip(f"the games (shared/data/{name}) are not here")
    hints, outcomes, teams = games(DATA / name)
    engine, alone = PRICES[name]
    raw = np.mean((hints - outcomes) ** 2)
    for keys in (["all"] * len(teams), teams):
        found = {
            label: np.mean((engine_forecasts(config, hints, outcomes, keys) - outcomes) ** 2) / raw - 1
            for label, config in {
                "default": EngineConfig(),
                "not steered": EngineConfig(KeyConfig(steering=False)),
            }.items()
        }
        print(f"{name}, {len(set(keys))} keys, hints {raw:.4f}:", {k: f"{v:+.2%}" for k, v in found.items()})
        assert found["default"] <= engine
    forecasts = AlmostOneStepAhead(hints=True).replay(outcomes, hints)
    assert np.mean((forecasts - outcomes) ** 2) / raw - 1 <= alone
