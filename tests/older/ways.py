"""How each kind of older state goes on: what it is asked, and what it answers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl

LATE = 5
"""So many rounds of a wrapper wait for their label when it is put down."""

ROUNDS = 40
"""Rounds of a wrapper before it is put down."""


class Bound(float):
    """A number that a later version may lower: what is promised, not what is done."""


def outcomes_of(seed: int, number: int) -> list[int]:
    """Outcomes that lean to 1."""
    rng = random.Random(seed)
    return [int(rng.random() < 0.7) for _ in range(number)]


def labels_of(seed: int, number: int, labels: Any) -> list[Any]:
    """Labels, the later ones rarer."""
    rng = random.Random(seed)
    return [labels[int(rng.random() ** 2 * len(labels))] for _ in range(number)]


def rounds_of(number: int, labels: Any, seed: int = 5) -> Iterator[tuple[dict[str, int], Any]]:
    """Features and labels for `Frequencies`: the labels lean by `kind`."""
    rng = random.Random(seed)
    for t in range(number):
        kind = rng.randrange(4)
        place = kind % len(labels) if rng.random() < 0.6 else rng.randrange(len(labels))
        yield {"kind": kind, "t": t}, labels[place]


def table_of(seed: int, number: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities in 64ths and labels that agree with them half of the time."""
    rng = random.Random(seed)
    rows, labels = [], []
    for _ in range(number):
        cuts = sorted(rng.randrange(1, 64) for _ in range(n_classes - 1))
        row = np.diff([0, *cuts, 64]) / 64.0
        rows.append(row)
        labels.append(int(row.argmax()) if rng.random() < 0.5 else rng.randrange(n_classes))
    return np.array(rows), np.array(labels)


def events_of(seed: int, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Forecasts in 16ths, outcomes, and three overlapping groups."""
    rng = random.Random(seed)
    members = np.array([[rng.random() < 0.5 for _ in range(3)] for _ in range(number)])
    forecasts = np.array([rng.randrange(17) / 16.0 for _ in range(number)])
    truth = 0.5 * forecasts + 0.3 * members[:, 0] + 0.1
    outcomes = np.array([int(rng.random() < p) for p in truth])
    return forecasts, outcomes, members


def sums_of(forecaster: Any) -> list[float]:
    return [forecaster.n_rounds, forecaster.certificate, Bound(forecaster.guarantee)]


def binary(state: Any) -> Any:
    """A forecaster of 0 and 1 with its open tokens."""
    forecaster, tokens = state
    said: list[Any] = [tokens, sums_of(forecaster), forecaster.n_open]
    for token, outcome in zip(reversed(tokens), outcomes_of(1, len(tokens)), strict=True):
        forecaster.observe(token, outcome)
    for outcome in outcomes_of(2, 12):
        token = forecaster.forecast(hint=outcome * 0.5 + 0.2)
        said.append([token.probability, token.lower, token.upper, token.serial, token.cell])
        forecaster.observe(token, outcome)
    for outcome in outcomes_of(3, 8):
        said.append(forecaster.predict_proba_one({}))
        forecaster.learn_one({}, outcome)
    said.append(forecaster.replay(outcomes_of(4, 50), return_look_ahead=True))
    return [*said, forecaster.look_ahead, sums_of(forecaster), forecaster.memory]


def reference(forecaster: Any) -> Any:
    """One-Step-Ahead."""
    said = [sums_of(forecaster), *(forecaster.answer(outcome) for outcome in outcomes_of(1, 10))]
    return [*said, forecaster.replay(outcomes_of(2, 40)), sums_of(forecaster), forecaster.memory]


def baseline(forecaster: Any) -> Any:
    said = [forecaster.n_rounds, forecaster.certificate]
    for outcome in outcomes_of(1, 10):
        said.append(forecaster.predict_proba_one({})[True])
        forecaster.learn_one({}, outcome)
    said.append(forecaster.replay(outcomes_of(2, 40)))
    return [*said, forecaster.certificate, forecaster.memory]


def simplex(state: Any) -> Any:
    """A forecaster of several classes with its open tokens."""
    forecaster, tokens = state
    said: list[Any] = [tokens, forecaster.classes, sums_of(forecaster), forecaster.n_open]
    labels = forecaster.classes
    for token, label in zip(reversed(tokens), labels_of(1, len(tokens), labels), strict=True):
        said.append(token.probabilities)
        forecaster.observe(token, label)
    for label in labels_of(2, 12, labels):
        hint = {one: 0.5 if one == label else 0.5 / (len(labels) - 1) for one in labels}
        token = forecaster.forecast(hint)
        said.append([token.vector, token.cell])
        forecaster.observe(token, label)
    said.append(forecaster.replay(labels_of(3, 30, labels), return_look_ahead=True))
    return [*said, forecaster.lp_certificate(math.inf), forecaster.look_ahead, sums_of(forecaster)]


def late_rounds(model: Any, labels: Any, said: list[Any]) -> None:
    """First the labels that are late, then more rounds, all of them late."""
    rounds = list(rounds_of(ROUNDS + 25, labels))
    for t in range(ROUNDS, ROUNDS + 25):
        said.append(model.predict_proba_one(rounds[t][0]))
        model.learn_one(*rounds[t - LATE])


def calibrated(model: Any, labels: Any) -> Any:
    """A wrapper with certificates."""
    said: list[Any] = [sums_of(model)]
    late_rounds(model, labels, said)
    said += [model.forecasts_one({"kind": 1, "t": -1}), model.certificates, sums_of(model)]
    return said


def grouped(model: Any, labels: Any) -> Any:
    return [
        calibrated(model, labels),
        model.rounds,
        {key: Bound(one) for key, one in model.guarantees.items()},
    ]


def mapped(model: Any, labels: Any) -> Any:
    """A wrapper without certificates."""
    said: list[Any] = []
    late_rounds(model, labels, said)
    return said


def refitted(model: Any, labels: Any) -> Any:
    """A wrapper that fits a recalibrator again as the stream grows."""
    said: list[Any] = [model.n_rounds, model.n_fits]
    late_rounds(model, labels, said)
    return [*said, model.n_rounds, model.n_fits]


def decided(model: Any, labels: Any) -> Any:
    return [refitted(model, labels), model.gaps(), model.gaps(raw=True)]


def recalibrated(model: Any) -> Any:
    """A map of class probabilities."""
    table, _ = table_of(9, 20, model.n_features_in_)
    return [model.classes_, model.predict_proba(table), model.predict(table)]


def decisions(model: Any) -> Any:
    table, _ = table_of(9, 20, model.n_features_in_)
    said = [recalibrated(model), list(model.staged_predict_proba(table)), model.history_, model.held_out_]
    model.set_params(warm_start=True, max_rounds=3).fit(*table_of(8, 60, model.n_features_in_))
    return [*said, model.n_rounds_, model.predict_proba(table)]


def level_sets(model: Any) -> Any:
    kept = model.level_sets_, model.predictions_, model.masses_, model.history_, model.sample_complexity_
    return [recalibrated(model), *kept]


def groups(model: Any) -> Any:
    forecasts, outcomes, members = events_of(9, 30)
    report = model.report(forecasts, outcomes, members)
    return [model.predict(forecasts, members), report, model.history_, model.violations_]


def categories_of(seed: int, number: int) -> pl.DataFrame:
    """Two columns of categories, their groups overlapping."""
    members = events_of(seed, number)[2].astype(int)
    return pl.DataFrame({"side": members[:, 0], "hand": members[:, 1]}).cast(pl.String)


def categories(model: Any) -> Any:
    """Groups made of the categories of a data frame."""
    said = model.predict(events_of(9, 30)[0], categories_of(9, 30))
    return [said, model.group_names_, model.history_, model.violations_]


def boosted(model: Any) -> Any:
    X = events_of(9, 30)[2].astype(float)
    return [model.predict(X), model.rounds_, model.n_kept_, model.violation_bound_]


def metric(measured: Any) -> Any:
    """A river metric, or several joined with +."""
    rounds = list(zip(outcomes_of(6, 12), events_of(6, 12)[0].tolist(), strict=True))
    said = [measured.get(), repr(measured)]
    for y, p in rounds:
        measured.update(bool(y), {False: 1.0 - p, True: p})
    said.append(measured.get())
    for y, p in rounds[:4]:
        measured.revert(bool(y), {False: 1.0 - p, True: p})
    return [*said, measured.get()]


def monitor(counted: Any) -> Any:
    counted.update_many(*events_of(6, 12)[:2])
    counted.update(0.3, 1)
    kept = counted.n_rounds, counted.moved, counted.counts()
    return [*kept, counted.calibration_distance(), counted.smooth_calibration_error()]


def kept(value: Any) -> Any:
    """What has no way to go on: all that it holds."""
    return value


def adversary(player: Any) -> Any:
    """An adversary in the middle of a game."""
    rng = random.Random(7)
    said = [player.name, player.seed, player.horizon, player.rounds]
    for _ in range(10):
        rises = [rng.random() - 0.5, rng.random() - 0.5]
        said.append(player.outcome(rng.random(), *rises))
    player.reset()
    said.append(player.outcome(0.3, 0.1, -0.2))
    if player.power == "oblivious":
        said.append(player.outcomes(20))
    return said


def label_adversary(player: Any) -> Any:
    """An adversary of three classes in the middle of a game."""
    rng = random.Random(7)
    said = [player.name, player.seed, player.horizon, player.rounds, player.n_classes]
    for _ in range(10):
        cuts = sorted([rng.random(), rng.random()])
        said.append(player.outcome(np.diff([0.0, *cuts, 1.0]), [rng.random() for _ in range(3)]))
    player.reset()
    said.append(player.outcome())
    if player.power == "oblivious":
        said.append(player.outcomes(20))
    return said


def card(kind: Any) -> Any:
    """An entry of the catalogue."""
    return [kind.name, kind.power, kind.summary, [one.name for one in kind.parameters]]


def genome(found: Any) -> Any:
    return [found.text, found.outcomes(20)]


def stream(recorded: Any) -> Any:
    return [recorded.name, len(recorded), recorded.outcomes, recorded.hints]


def label_stream(recorded: Any) -> Any:
    return [recorded.name, recorded.labels]


def opponent(chosen: Any) -> Any:
    """An adversary with its rounds as the simulations know it."""
    return [chosen.name, chosen.rounds, chosen.hints, adversary(chosen.adversary)]


WAYS: dict[str, Callable[..., Any]] = {
    way.__name__: way
    for way in (
        binary, reference, baseline, simplex, calibrated, grouped, mapped, refitted, decided, recalibrated,
        decisions, level_sets, groups, categories, boosted, metric, monitor, kept, adversary, label_adversary,
        card, genome, stream, label_stream, opponent,
    )
}  # fmt: skip
