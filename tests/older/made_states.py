"""Objects of every public kind in the middle of their work, for `write_states.py` to put down."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from older_models import Frequencies, Threshold, first_column, is_even, is_low, start
from ways import LATE, ROUNDS, categories_of, events_of, labels_of, outcomes_of, rounds_of, table_of

import adversaries
from onlinecal import measures as m
from onlinecal import metrics, recalibration, wrappers
from onlinecal.engine import (
    Engine,
    EngineConfig,
    KeyConfig,
    Match,
    Outcome,
    Query,
    Withdraw,
)
from onlinecal.engine.events import Incoming
from onlinecal.forecasters import AlmostOneStepAhead, OneStepAhead, SimplexAlmostOneStepAhead, baselines
from simulations.games import measuring, opponents, players

State = tuple[str, str, bool, Any]
"""Its name, its way to go on, whether it does so to the same bits on every machine, and the state."""


def forecasters() -> Iterator[State]:
    settings: dict[str, dict[str, Any]] = {
        "uniform": {"horizon": 100},
        "uniform_sign_lower": {"n_cells": 7, "grid": "uniform", "rule": "sign", "report": "lower"},
        "uniform_hint": {"horizon": 60, "report": "hint", "slack": 1.0},
        "nested": {"grid": "nested", "report": "upper"},
        "adaptive": {},
        "adaptive_hint": {"report": "hint", "slack": 1.5},
    }
    for name, given in settings.items():
        forecaster = AlmostOneStepAhead(**given)
        forecaster.replay(outcomes_of(11, 80))
        tokens = [forecaster.forecast(hint) for hint in (None, 0.3, 0.9, 0.7)]
        forecaster.observe(tokens.pop(1), 1)
        yield f"almost_{name}", "binary", True, (forecaster, tokens)
    references: dict[str, dict[str, Any]] = {
        "uniform": {"horizon": 100},
        "nested": {"grid": "nested"},
        "adaptive": {},
    }
    for name, given in references.items():
        peeking = OneStepAhead(**given)
        peeking.replay(outcomes_of(11, 80))
        yield f"one_step_ahead_{name}", "reference", True, peeking
    several: dict[str, dict[str, Any]] = {
        "known": {"n_classes": 3, "horizon": 100},
        "cells": {"labels": ["a", "b", "c"], "n_cells": 6, "report": "hint", "slack": 1.0},
        "discovered": {},
        "discovered_hint": {"report": "hint", "horizon": 100},
    }
    for name, given in several.items():
        joint = SimplexAlmostOneStepAhead(**given)
        labels = joint.classes or ["x", "y", "z", "w"]
        joint.replay(labels_of(12, 60, labels))
        waiting = [joint.forecast() for _ in range(4)]
        joint.observe(waiting.pop(1), labels[0])
        yield f"simplex_{name}", "simplex", True, (joint, waiting)
    # the last of each
    yield "look_aheads", "kept", True, [forecaster.look_ahead, peeking.look_ahead, joint.look_ahead]
    for kind in (
        baselines.ConstantForecaster,
        baselines.DriftCorrectedHalf,
        baselines.FosterForecaster,
        baselines.FosterHartForecaster,
        baselines.FosterVohraForecaster,
        baselines.LinearOptimisationForecaster,
        baselines.MinimaxForecaster,
        baselines.PowerOfTwoChoices,
        baselines.RunningMean,
    ):
        rival = kind() if kind in (baselines.ConstantForecaster, baselines.RunningMean) else kind(horizon=200)
        rival.replay(outcomes_of(13, 60))
        yield f"baseline_{kind.__name__}", "baseline", True, rival


def late(model: Any, labels: Any) -> Any:
    """Played for ROUNDS rounds, of which the last LATE wait for their labels."""
    rounds = list(rounds_of(ROUNDS, labels))
    for t, (x, _) in enumerate(rounds):
        model.predict_proba_one(x)
        if t >= LATE:
            model.learn_one(*rounds[t - LATE])
    return model


def wrapped() -> Iterator[State]:
    calibrated = wrappers.CalibratedClassifier
    two, three = (False, True), "abc"

    def model(labels: Any) -> Frequencies:
        return Frequencies(tuple(labels))

    for name, labels, given in (
        ("auto", two, {}),
        ("auto_three", three, {}),
        ("auto_four", "abcd", {}),
        ("binary", two, {"strategy": "binary", "horizon": 200}),
        ("binary_buckets", two, {"strategy": "binary", "n_buckets": 3}),
        ("classwise", three, {"strategy": "classwise"}),
        ("classwise_buckets", three, {"strategy": "classwise", "n_buckets": 2}),
        ("top_label", three, {"strategy": "top-label"}),
        ("top_label_buckets", "abcd", {"strategy": "top-label", "n_buckets": 2, "slack": 0.5}),
        ("simplex", three, {"strategy": "simplex"}),
        ("simplex_buckets", three, {"strategy": "simplex", "n_buckets": 2, "horizon": 300}),
    ):
        way = "calibrated" if labels is two else f"calibrated {labels}"
        yield f"calibrated_{name}", way, False, late(calibrated(model(labels), **given), labels)
    settled = calibrated(model(two))
    for x, y in rounds_of(ROUNDS, two):
        settled.learn_one(x, y)
    yield "calibrated_settled", "calibrated", False, settled
    yield "calibrated_unplayed", "calibrated", False, calibrated(model(two))
    for name, groups, given in (
        ("atoms", {"even": is_even, "low": is_low}, {}),
        ("atoms_columns", ["kind"], {"report": "hint", "slack": 1.0}),
        ("atoms_horizon", ["kind"], {"horizon": 200, "n_atoms": 4}),
        ("shared", {"even": is_even, "low": is_low}, {"scheme": "shared"}),
        ("shared_horizon", ["kind"], {"scheme": "shared", "horizon": 200}),
    ):
        grouped = wrappers.GroupCalibratedClassifier(model(two), groups, **given)
        yield f"grouped_{name}", "grouped", False, late(grouped, two)
    for name, labels, given in (
        ("constant", three, {"n_levels": 3}),
        ("shift", three, {"n_levels": 3, "within": "shift"}),
        ("window", two, {"n_levels": 4, "window": 16}),
        ("fading", three, {"n_levels": 3, "fading": 0.9}),
        ("pools", two, {"n_levels": 2, "estimation": "pools", "epsilon": 0.4}),
        ("before", two, {"first_fit": 100}),
    ):
        way = "refitted" if labels is two else f"refitted {labels}"
        given = {"first_fit": 20, "tolerance": 0.02, **given}
        found = late(wrappers.LpCalibratedClassifier(model(labels), **given), labels)
        yield f"lp_classifier_{name}", way, False, found
    for name, labels, given in (
        ("window", two, {"capacity": 20}),
        ("reservoir", three, {"capacity": 20, "memory": "reservoir", "n_actions": 3}),
        ("losses", two, {"losses": [[[0.0, 1.0], [0.3, 0.3]]], "labels": [False, True]}),
    ):
        way = "decided" if labels is two else f"decided {labels}"
        decided = wrappers.DecisionCalibratedClassifier(model(labels), first_fit=15, **given)
        yield f"decision_classifier_{name}", way, False, late(decided, labels)
    for labels, count in ((two, "two"), (three, "three")):
        way = "mapped" if labels is two else f"mapped {labels}"
        yield f"binned_{count}", way, False, late(wrappers.BinnedMean(model(labels), 8), labels)
        # holds river's SGD
        yield f"platt_{count}", way, False, late(wrappers.PlattScaling(model(labels)), labels)
    nested = calibrated(wrappers.BinnedMean(model(two), 4))
    yield "calibrated_binned", "calibrated", False, late(nested, two)


def recalibrators() -> Iterator[State]:
    three, labels = table_of(1, 150, 3)
    two, binary = table_of(2, 150, 2)
    named = np.array(["x", "y", "z"])[labels]
    lp: dict[str, dict[str, Any]] = {
        "constant": {"n_levels": 4, "tolerance": 0.02},
        "shift": {"n_levels": 4, "tolerance": 0.02, "within": "shift"},
        "infinite": {"p": np.inf, "epsilon": 0.3},
        "pools": {"n_levels": 2, "tolerance": 0.2, "estimation": "pools"},
    }
    for name, given in lp.items():
        yield f"lp_{name}", "level_sets", True, recalibration.LpRecalibrator(**given).fit(three, labels)
    fitted = recalibration.LpRecalibrator(n_levels=4, tolerance=0.02, classes=["x", "y", "z"])
    yield "lp_named", "level_sets", True, fitted.fit(three, named)
    make = recalibration.DecisionRecalibrator
    losses = recalibration.gaussian_losses(2, 3, 4)
    for name, model in (
        ("soft", make(3)),
        ("hard", make(2, partition="hard", max_rounds=3, n_folds=0)),
        ("losses", make(losses=losses, max_rounds=4)),
        ("paper", make.as_in_paper(2, max_rounds=3)),
        ("named", make(2, classes=["x", "y", "z"], start="none", max_rounds=2, n_folds=0)),
    ):
        if name == "named":
            yield "decision_named", "recalibrated", True, model.fit(three, named)
        else:
            yield f"decision_{name}", "decisions", True, model.fit(three, labels)
    soft = make(3, max_rounds=2, n_folds=0).fit(three, labels)
    yield "decision_compressed", "kept", True, soft.compress(losses[0])
    for name, other in (
        ("temperature", recalibration.TemperatureScaling()),
        ("dirichlet", recalibration.DirichletCalibration()),
        # holds scikit-learn's IsotonicRegression, which warns under another version
        ("top_label", recalibration.TopLabelIsotonic()),
    ):
        exact = name == "temperature"
        yield f"{name}_three", "recalibrated", exact, other.fit(three, labels)
    yield "temperature_two", "recalibrated", True, recalibration.TemperatureScaling().fit(two, binary)
    forecasts, outcomes, members = events_of(1, 200)
    group: dict[str, dict[str, Any]] = {
        "value": {"alpha": 0.01},
        "levels": {"alpha": 0.01, "n_levels": 6, "validation_fraction": 0.3},
        "shift": {"alpha": 0.01, "patch": "shift"},
        "means": {"alpha": 0.005, "patch": "shift", "target": "means"},
        "unrounded": {"alpha": 0.005, "patch": "unrounded"},
        "predicates": {"alpha": 0.01, "predicates": {"first": first_column}},
    }
    for name, given in group.items():
        repaired = recalibration.GroupRecalibrator(**given).fit(forecasts, outcomes, members)
        yield f"group_{name}", "groups", True, repaired
    by_category = recalibration.GroupRecalibrator(alpha=0.01).fit(forecasts, outcomes, categories_of(1, 200))
    yield "group_categories", "categories", True, by_category
    yield "group_repair", "kept", True, repaired.report(forecasts, outcomes, members)
    X = members.astype(float)
    for name, given, initial in (
        ("mean", {"alpha": 0.02}, None),
        ("started", {"alpha": 0.01, "n_levels": 10, "validation_fraction": 0.3}, start),
    ):
        boosted = recalibration.BoostedRecalibrator(Threshold(), min_rows=5, **given)
        yield f"boosted_{name}", "boosted", True, boosted.fit(X, outcomes, initial)
    clinic = recalibration.LossTable([[0.2, 0.2], [0.0, 1.0]], ("treat", "wait"), ("well", "ill"))
    yield "loss_table", "kept", True, clinic
    yield "sample_complexity", "kept", True, recalibration.lp_sample_complexity(2.0, 0.1, 0.05, 3)


def measured() -> Iterator[State]:
    forecasts, outcomes, members = events_of(3, 40)
    table, labels = table_of(3, 40, 3)
    for name, exact, metric in (
        ("ece", True, metrics.ECE()),
        ("ece_bins", True, metrics.ECE(bins=5)),
        ("brier", False, metrics.Brier()),
        ("brier_top_label", False, metrics.Brier(top_label=True)),
        ("distance", False, metrics.CalibrationDistance(budget=0.1)),
        ("distance_coarse", False, metrics.CalibrationDistance(resolution=5, budget=0.1)),
        ("smooth", False, metrics.SmoothCalibration()),
        ("joined", False, metrics.ECE() + metrics.Brier()),
    ):
        for p, y in zip(forecasts.tolist(), outcomes.tolist(), strict=True):
            metric.update(bool(y), {False: 1.0 - p, True: p})
        if name.startswith("distance"):
            metric.get()
        yield f"metric_{name}", "metric", exact, metric
    counted = m.CalibrationMonitor(resolution=12)
    counted.update_many(forecasts, outcomes)
    yield "monitor", "monitor", False, counted
    for name, value in (
        ("interval", counted.calibration_distance()),
        ("distance", m.calibration_distance(forecasts, outcomes)),
        ("lower_distance", m.lower_calibration_distance(forecasts, outcomes)),
        ("multiclass_distance", m.multiclass_calibration_distance(table, labels)),
        ("lp_report", m.lp_calibration_report(table, labels, n_levels=3)),
        ("group_report", m.multicalibration_report(forecasts, outcomes, members, 4)),
        ("decision_losses", m.decision_losses(table, labels, recalibration.gaussian_losses(2, 3, 2))),
        ("counts", counted.counts()),
    ):
        yield f"result_{name}", "kept", True, value


def players_of_games(folder: Path) -> Iterator[State]:
    recorded = folder / "recorded.csv"
    recorded.write_text("outcome\n" + "\n".join(map(str, outcomes_of(14, 30))) + "\n")
    several = folder / "several.csv"
    several.write_text("label\n" + "\n".join(map(str, labels_of(14, 30, [0, 1, 2]))) + "\n")
    settings = {"genome": "genome:blocks=[2x0 1x011]", "file": f"file:path=[{recorded}]"}
    for name, kind in adversaries.catalogue().items():
        if name != "river":
            adversary = adversaries.create(settings.get(name, name), horizon=30, seed=3)
            for _ in range(7):
                adversary.outcome(0.4, 0.1, 0.2)
            if name == "file":
                # its name has the path of the folder in it
                adversary.name = "file"
            yield f"adversary_{name}", "adversary", False, adversary
        if name in ("coin", "mixture", "two-phase", "champion"):
            yield f"card_{name}", "card", True, kind
    inner = "mixture:first=[mixture:first=markov,second=bias-builder],second=certificate-greedy"
    yield "adversary_nested_mixture", "adversary", False, adversaries.create(inner, horizon=30, seed=3)
    for name, kind in adversaries.multiclass_catalogue().items():
        if name not in ("river", "file"):
            adversary = adversaries.create_multiclass(name, 3, horizon=30, seed=3)
            for _ in range(7):
                adversary.outcome([0.5, 0.25, 0.25], [0.1, 0.2, 0.3])
            yield f"label_adversary_{name}", "label_adversary", False, adversary
        if name in ("uniform", "two-phase"):
            yield f"label_card_{name}", "card", True, kind
    sequence = adversaries.replay_sequence(outcomes_of(14, 30), [0.5] * 30)
    yield "sequence", "stream", True, sequence
    yield "sequence_adversary", "adversary", True, sequence.adversary()
    labels = adversaries.replay_labels(labels_of(14, 30, [0, 1, 2]))
    yield "label_sequence", "label_stream", True, labels
    yield "label_sequence_adversary", "label_adversary", True, labels.adversary()
    yield "genome", "genome", True, adversaries.Genome.parse("2x0 1x011")
    yield "champion", "kept", True, adversaries.stored_champions()[0]
    yield "parameter", "kept", True, adversaries.catalogue()["coin"].parameters[0]
    player = players.create("balanced:cells=8")
    game = measuring.play_and_measure(player, adversaries.create("alternating"), 20, n_checkpoints=5)
    # the seconds it took
    game = dataclasses.replace(game, measured=replace(game.measured, seconds=0.0))
    yield "game", "kept", True, game
    yield "opponent", "opponent", True, opponents.from_spec("coin", 20, 3)


def events() -> Iterator[State]:
    config = EngineConfig(KeyConfig(slack=1.0), (Match("w/*", KeyConfig(kind="simplex", lanes=2)),))
    yield "engine_config", "kept", True, config
    happened: list[Incoming] = [Query("a", "k", 0.5), Query("b", "w/k"), Outcome("a", 1), Withdraw("b")]
    with Engine(config=config) as engine:
        said = engine.handle([*happened, Outcome("never", 1)])
    yield "engine_events", "kept", True, [*happened, *said]


def states(folder: Path) -> Iterator[State]:
    yield from forecasters()
    yield from wrapped()
    yield from recalibrators()
    yield from measured()
    yield from players_of_games(folder)
    yield from events()
