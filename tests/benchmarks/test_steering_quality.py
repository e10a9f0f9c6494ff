"""Steering, wrapper and engine against the best online rival of each stream; buckets that split; games."""

import csv
from operator import itemgetter

import numpy as np
import pytest

from onlinecal import AlmostOneStepAhead, recalibrate_stream
from onlinecal.engine import Engine, Forecast, Outcome, Query
from onlinecal.steering.binary import ALONE, new_steering
from onlinecal.wrappers.strategies.projection import Projection
from tests import DATA
from tests.benchmarks.conftest import above_rivals, recorded

OWN = ("steering", "slack 1", "slack 1.5", "slack 2")


def steered(p, y):
    """What steering makes of each forecast."""
    state, found = new_steering(), []
    for raw, outcome in zip(p.tolist(), y.tolist(), strict=True):
        found.append(ALONE.hint_of(state, raw))
        ALONE.learn_outcome(state, outcome)
    return np.array(found)


def announced(p, y, part):
    """What a part of the wrapper announces of two labels."""
    found = []
    for raw, outcome in zip(p.tolist(), y.tolist(), strict=True):
        found.append(part.ask(raw))
        part.settle(outcome)
    return np.array(found)


def scores(q, y):
    """Brier score, log loss of forecasts at least 0.001 from wrong, worst bias of 1000 rounds."""
    w = min(1000, len(y) // 3)
    biases = np.abs(np.add.reduceat(q - y, np.arange(0, len(y), w)))[: len(y) // w] / w
    log_loss = -np.log(np.maximum(np.where(y == 1, q, 1.0 - q), 1e-3)).mean()
    return {"brier": ((q - y) ** 2).mean(), "log": log_loss, "window": biases.max()}


def test_against_the_best_rival_in_hindsight(note):
    """Scores in % above those of the best rival of each stream, and above the model's own."""
    rows = {player: [] for player in OWN}
    for _, p, y, rivals in recorded("streams"):
        made = {f"slack {slack:g}": announced(p, y, Projection(slack, 1, None)) for slack in (1, 1.5, 2)}
        for player, q in {"steering": steered(p, y), **made}.items():
            own = scores(q, y)
            model = max(above_rivals(own, {"model": rivals["base"]}))
            rows[player].append((*above_rivals(own, rivals), own["window"], model))
    for player, each in rows.items():
        brier, log, window, above = np.array(each).T
        note(
            f"{player}: Brier {brier.mean():+.2f}, median {np.median(brier):+.2f}, worst {brier.max():+.2f};"
            f" log loss mean {log.mean():+.2f}, worst {log.max():+.2f}; window {window.mean():.4f};"
            f" above the model at most {above.max():+.2f}"
        )
        if player != "slack 1":
            assert brier.mean() <= -2.3
            assert np.median(brier) <= 0.0
            assert brier.max() <= 1.0
            assert log.mean() <= -2.3
            assert window.mean() <= 0.0145
        if player in ("steering", "slack 1.5"):
            assert above.max() <= 1.0


def test_kinds_of_streams_that_are_not_among_these(note):
    """Very rare, short, seasonal, switching, of few values, from models that are too timid."""
    above = [
        above_rivals(scores(announced(p, y, Projection(1.5, 1, None)), y), rivals)
        for _, p, y, rivals in recorded("fresh")
    ]
    means, worst = np.mean(above, 0), np.max(above, 0)
    note(f"fresh: Brier {means[0]:+.2f}, worst {worst[0]:+.2f}; log loss {means[1]:+.2f}, {worst[1]:+.2f}")
    assert means[0] <= -0.2
    assert worst[0] <= 3.0
    assert means[1] <= -0.3


DELAYS = {
    "10": ("10 rounds", -0.9, 4.0, -1.0),
    "100": ("100 rounds", 0.1, 8.0, 0.0),
    "day100": ("days of 100", 0.0, 8.0, 0.0),
    "day500": ("days of 500", 0.8, 12.0, 0.8),
}
"""By their names in the table of rivals: in words, and the most that is allowed, in %: the mean and the worst
Brier score, the mean log loss."""


def settled_at(rows, delay):
    """The row after which the outcome of each row is known."""
    t = np.arange(rows)
    return (t // int(delay[3:]) + 1) * int(delay[3:]) - 1 if delay.startswith("day") else t + int(delay)


@pytest.mark.filterwarnings("ignore::onlinecal.LabelWarning", "ignore::onlinecal.GuaranteeWarning")
def test_late_outcomes_against_the_best_rival_in_hindsight(note):
    """Columns of 20,000 rows; rivals and column learn an outcome when it is known."""
    note(
        "| outcomes known after | Brier: mean | worst | log loss: mean | above the input | guarantee a row |"
    )
    for delay, (title, mean, worst, log_mean) in DELAYS.items():
        rows = []
        for _, p, y, rivals in recorded("streams", "rivals_late.json"):
            p, y, known = p[:20_000], y[:20_000], rivals[delay]
            result = recalibrate_stream(p, y, settled_at=settled_at(len(p), delay))
            own = scores(result.probabilities, y)
            came_in = max(above_rivals(own, {"base": known["base"]}))
            rows.append([*above_rivals(own, known), came_in, result.guarantee / len(p)])
        means, most = np.mean(rows, axis=0), np.max(rows, axis=0)
        note(
            f"| {title} | {means[0]:+.2f} % | {most[0]:+.1f} % | {means[1]:+.2f} % |"
            f" {most[2]:+.2f} % | {means[3]:.2f} |"
        )
        assert means[0] <= mean
        assert most[0] <= worst
        assert means[1] <= log_mean
        assert most[2] <= 1.5


PRICES = {"nba_games.csv": (-0.002, 0.02), "mlb_games.csv": (0.002, 0.01)}
"""What the engine, and a forecaster alone, may lose of the hints' Brier score, as a part of it."""


@pytest.mark.parametrize("name", PRICES)
def test_defaults_of_the_engine_cost_hints_no_skill(note, name):
    """Games of known teams, one key for all and one for each home team."""
    if not (DATA / name).exists():
        pytest.skip(f"the games (shared/data/{name}) are not here")
    with (DATA / name).open() as file:
        rows = sorted(csv.DictReader(file), key=itemgetter("date"))
    hints, outcomes = (np.array([float(row[name]) for row in rows]) for name in ("prob1", "prob1_outcome"))
    engine, alone = PRICES[name]
    raw = np.mean((hints - outcomes) ** 2)
    for keys in (["all"] * len(rows), [row["team1"] for row in rows]):
        events = []
        for t, (p, y, key) in enumerate(zip(hints.tolist(), outcomes.tolist(), keys, strict=True)):
            events += [Query(str(t), key, p), Outcome(str(t), y)]
        with Engine(None) as running:
            answers = [one.probability for one in running.handle(events) if isinstance(one, Forecast)]
        lost = np.mean((np.array(answers) - outcomes) ** 2) / raw - 1
        note(f"{name}, {len(set(keys))} keys, hints {raw:.4f}: the engine {lost:+.2%}")
        assert lost <= engine
    forecasts = AlmostOneStepAhead(hints=True).replay(outcomes, hints)
    assert np.mean((forecasts - outcomes) ** 2) / raw - 1 <= alone
