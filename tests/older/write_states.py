"""Writes the states that `test_older_states.py` opens, by the code of today:

    PYTHONHASHSEED=0 python tests/older/write_states.py tests/older/0.1.0.tar.xz

Run it for a new release, under its name; an archive that is there stays as it is. With that setting, which
fixes the order of sets, the same code writes the same bytes. `--names FILE` also writes
the modules and names that the pickles refer to, one pair a line.
"""

from __future__ import annotations

import argparse
import base64
import dataclasses
import io
import json
import pickle
import subprocess
import sys
import tarfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
from going_on import (
    LATE,
    ROUNDS,
    Watchful,
    categories_of,
    events_of,
    go_on,
    labels_of,
    outcomes_of,
    rounds_of,
    table_of,
    turns,
)
from msgspec.structs import replace
from older_models import Frequencies, Threshold, first_column, is_even, is_low, start

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
    decode_lines,
    encode_lines,
    read_config,
)
from onlinecal.engine.events import Incoming
from onlinecal.engine.keys.cache import HotKeys
from onlinecal.engine.keys.state import KeyState
from onlinecal.engine.keys.step import KeyStep
from onlinecal.forecasters import AlmostOneStepAhead, OneStepAhead, SimplexAlmostOneStepAhead, baselines
from simulations.games import measuring, opponents, players

State = tuple[str, str, bool, Any]
"""Its name, its way to go on, whether it does so to the same bits on every machine, and the state."""

PROTOCOL = 4

CONFIG = """\
slack = 1.0
[[keys]]
match = "lanes/*"
lanes = 3
report = "hint"
[[keys]]
match = "brief/*"
expire_after = 40.0
[[keys]]
match = "grid/*"
horizon = 500
rule = "sign"
report = "lower"
[[keys]]
match = "weather/*"
kind = "simplex"
[[keys]]
match = "skies/*"
kind = "simplex"
classes = ["rain", "snow", "sun"]
lanes = 2
expire_after = 60.0
[[keys]]
match = "known/*"
kind = "simplex"
report = "hint"
horizon = 200
slack = 1.0
"""
KEYS = ("plain/a", "lanes/a", "brief/a", "grid/a", "weather/a", "skies/a", "known/a")
CLASSES = ("rain", "snow", "sun")


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


def lines_of(first: int, count: int, keys: tuple[str, ...], waiting: list[tuple[str, str]]) -> bytes:
    """Events over keys: late, withdrawn, bad and twice; `waiting` goes on to the next part."""
    found = []
    draws = np.random.default_rng(first)
    for number in range(first, first + count):
        key, chance = keys[number % len(keys)], draws.random()
        simplex = key.startswith(("weather", "skies", "known"))
        query: dict[str, Any] = {"type": "query", "id": f"q{number}", "key": key, "time": float(number)}
        if chance < 0.7:
            p = int(draws.integers(1, 16)) / 16.0
            query["hint"] = {"rain": p, "sun": 1.0 - p} if simplex else p
            if key.startswith("skies"):
                query["hint"]["snow"] = 0.0
        found.append(query)
        waiting.append((query["id"], key))
        while len(waiting) > 15:
            id, key = waiting.pop(int(draws.integers(len(waiting))))
            closing: dict[str, Any] = {"type": "outcome", "id": id, "key": key, "time": float(number)}
            if draws.random() < 0.1:
                closing["type"] = "withdraw"
            elif key.startswith(("weather", "skies", "known")):
                closing["value"] = CLASSES[int(draws.integers(3))]
            else:
                closing["value"] = int(draws.integers(2))
            found.append(closing)
        if chance < 0.1:
            found.append(found[int(draws.integers(len(found)))])
        if chance > 0.95:
            found.append({**query, "id": f"bad{number}", "hint": 7})
    return b"".join(json.dumps(event).encode() + b"\n" for event in found)


def engine_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """A ledger of the command line, further events and their answers."""
    ledger, config, waiting = folder / "ledger", folder / "config.toml", list[tuple[str, str]]()
    config.write_text(CONFIG)
    command = [
        sys.executable,
        "-m",
        "simulations",
        "stream",
        "--ledger",
        ledger,
        "--config",
        config,
        "--quiet",
    ]
    first = lines_of(0, 150, KEYS, waiting)
    answers = subprocess.run(command, input=first, capture_output=True, check=True).stdout
    assert waiting
    assert sorted(path.name for path in folder.glob("ledger*")) == ["ledger", "ledger-lock"]
    yield "engine/ledger", ledger.read_bytes()
    yield "engine/config.toml", CONFIG.encode()
    # the first events come again: they must be answered as they were
    yield "engine/first.jsonl", first
    yield "engine/first_answers.jsonl", answers
    further = lines_of(150, 60, (*KEYS, "plain/b", "weather/b"), waiting)
    with Engine(ledger) as engine:
        said = encode_lines(engine.handle(list(decode_lines(first + further))))
    assert said.startswith(answers)
    yield "engine/further.jsonl", further
    yield "engine/further_answers.jsonl", said.removeprefix(answers)


def turn_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """What a checkpoint of Spark keeps of a key; further events, their answers and the bytes after them."""
    config = read_config(folder / "config.toml")
    found = []
    for edition in (1, 2):
        step, keys = KeyStep(config, remember=10), HotKeys(replace(config, edition=edition))
        for key in KEYS:
            waiting = list[tuple[str, str]]()
            data = None
            if edition == 1:
                fresh = KeyState(key, 1, keys.settings[config.place_for(key)])
                data = step.adopt(key, 0, fresh.dump(), [], 1)
            before, _ = step(key, data, list(decode_lines(lines_of(0, 40, (key,), waiting))))
            assert before is not None
            assert before[0] == edition
            further = lines_of(40, 20, (key,), waiting)
            after, answers = turns(config, key, before, further)
            found.append(
                {
                    "key": key,
                    "edition": edition,
                    "before": base64.b64encode(before).decode(),
                    "events": further.decode(),
                    "answers": [line.decode() for line in answers],
                    "after": base64.b64encode(after).decode(),
                }
            )
    yield "turns.json", json.dumps(found).encode()


def array_files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """What `DecisionRecalibrator.save` writes."""
    table, labels = table_of(1, 150, 3)
    path = folder / "decision.npz"
    recalibration.DecisionRecalibrator(3, classes=["x", "y", "z"]).fit(
        table, np.array(["x", "y", "z"])[labels]
    ).save(path)
    yield "decision.npz", path.read_bytes()
    model = recalibration.DecisionRecalibrator.load(path)
    yield "decision.json", go_on("recalibrated", model).encode()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("archive", type=Path)
    parser.add_argument("--names", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    names: set[tuple[str, str]] = set()
    index = {}
    # forecasters draw a name with their first token
    drawn = patch("secrets.token_hex", lambda size: "ab" * size)
    with drawn, TemporaryDirectory() as made, tarfile.open(given.archive, "x:xz", preset=9) as file:
        folder = Path(made)

        def keep(name: str, content: bytes) -> None:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))

        for name, way, exact, state in states(folder):
            data = pickle.dumps(state, PROTOCOL)
            opened = Watchful(data)
            copy = opened.load()
            names |= opened.names
            # recorded of the state itself, which was never put down
            answers = go_on(way, state)
            assert name not in index
            assert go_on(way, copy) == answers, name
            index[name] = {"way": way, "exact": exact}
            keep(f"pickles/{name}.pickle", data)
            keep(f"pickles/{name}.json", answers.encode())
        keep("index.json", json.dumps(index, indent=1).encode())
        for files in (engine_files, turn_files, array_files):
            for name, content in files(folder):
                keep(name, content)
    if given.names:
        ours = ("onlinecal", "adversaries", "simulations")
        found = sorted(pair for pair in names if pair[0].split(".")[0] in ours)
        given.names.write_text("".join(f"{module} {name}\n" for module, name in found))


if __name__ == "__main__":
    main()
