"""What onlinecal answers, by seed, of every public kind: each entry is played and becomes a few words.

An exact entry is a digest of all its numbers: forecasts, certificates, distances, measures and answers
of the engine are the same everywhere. A fitted entry is a list of scores, which another machine or
another optimiser reaches up to a tolerance. Inputs come from uniform random numbers and arithmetic alone,
so that they, too, are the same everywhere.
"""

from __future__ import annotations

import hashlib
import json
import random
import tempfile
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

import onlinecal
from onlinecal import forecasters, measures, metrics, recalibration, wrappers
from onlinecal.alarms import CalibrationAlarm
from onlinecal.engine import Engine, EngineConfig, KeyConfig, check_ledger, read_report
from simulations.cli.console import app
from tests.engine.scripts import CONFIG, lines_of, script
from tests.estimators import EXAMPLES
from tests.wrappers.scripted import Scripted, coins, played

Play = Callable[[], Iterable[Any]]

TOLERANCE = 2e-3
"""By how much scores of fitted maps may differ, relative to them."""

T = 400
rng = np.random.default_rng(0)
COINS = (rng.random(T) < np.repeat([0.2, 0.9, 0.5, 0.7], T // 4)).astype(np.int64)
HINTS = np.clip(0.3 + 0.4 * COINS + 0.5 * (rng.random(T) - 0.5), 0.0, 1.0)
SHARES = rng.integers(0, 9, T) / 8
# products, for numpy's powers differ in their last bits between processors
CUBED = rng.random((T, 3))
SCORES = CUBED * CUBED * CUBED + 0.01
TABLE = SCORES / SCORES.sum(axis=1, keepdims=True)
LABELS = np.argmax(TABLE.cumsum(axis=1) ** 0.5 > rng.random(T)[:, None], axis=1)
SOFT = np.eye(3)[LABELS] * 0.75 + 0.25 * np.roll(np.eye(3)[LABELS], 1, axis=1)
COARSE = np.round(HINTS * 20) / 20
GROUPS = rng.random((T, 3)) < 0.4
LATE = np.arange(T) + rng.integers(0, 30, T)
NAMES = ("rain", "snow", "sun")


def words(value: Any) -> bytes:
    """Bytes that stand for a value: of numbers all bits, of texts and records what they say."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict):
        return b"".join(words(one) for pair in value.items() for one in pair)
    if isinstance(value, (list, tuple)):
        return b"".join(map(words, value))
    if value is None:
        return b"None"
    array = np.asarray(value)
    if array.dtype.kind in "biu":
        array = array.astype(np.int64)
    return np.ascontiguousarray(array).tobytes()


def digest(values: Iterable[Any]) -> str:
    return hashlib.sha256(b"|".join(map(words, values))).hexdigest()[:16]


def rounds(forecaster: Any, outcomes: Any, hints: Any = None, late: int = 0, window: bool = False) -> Play:
    """Forecasts by tokens, each outcome so many rounds late, and the certificate on the way."""

    def play() -> Iterable[Any]:
        model, waiting = forecaster(), []
        for t, outcome in enumerate(outcomes):
            token = model.forecast() if hints is None else model.forecast(hint=hints[t])
            waiting.append((token, outcome))
            yield token.probabilities if hasattr(token, "probabilities") else token.probability
            if len(waiting) > late:
                model.observe(*waiting.pop(0))
            yield model.certificate
        for token, outcome in waiting:
            model.observe(token, outcome)
        yield from (
            model.certificate,
            model.guarantee(1000) if callable(model.guarantee) else model.guarantee,
        )
        if window:
            yield from (model.window_certificate, model.window_guarantee)

    return play


def binary() -> Iterable[tuple[str, Play]]:
    settings: dict[str, dict[str, Any]] = {
        "default": {},
        "horizon": {"horizon": T},
        "nested": {"grid": "nested"},
        "paper": {"horizon": T, "rule": "sign", "report": "lower"},
        "slack": {"slack": 2.5, "grid": "nested"},
        "upper": {"n_cells": 7, "report": "upper"},
        "window": {"window": 50},
    }
    for name, given in settings.items():
        make = lambda given=given: forecasters.AlmostOneStepAhead(**given)  # noqa: E731
        yield f"binary/{name}", rounds(make, COINS, window="window" in given)
        yield f"binary/{name}/late", rounds(make, COINS, late=17, window="window" in given)
        yield f"binary/{name}/shares", rounds(make, SHARES)
        if given.get("rule") != "sign":
            hinted = lambda given=given: forecasters.AlmostOneStepAhead(**given, **HINTED)  # noqa: E731
            yield f"binary/{name}/hints", rounds(hinted, COINS, HINTS, window="window" in given)
            yield f"binary/{name}/hints late", rounds(hinted, COINS, HINTS, late=17)
    yield "binary/replay", lambda: [forecasters.AlmostOneStepAhead().replay(np.tile(COINS, 20))]
    yield (
        "binary/replay/hints",
        lambda: [forecasters.AlmostOneStepAhead(**HINTED).replay(np.tile(COINS, 20), np.tile(HINTS, 20))],
    )
    yield "binary/one step", lambda: learnt(forecasters.OneStepAhead(n_cells=30), COINS)


HINTED: dict[str, Any] = {"hints": True}
"""What a forecaster that is given hints is made with."""


def learnt(model: Any, outcomes: Any) -> Iterable[Any]:
    for outcome in outcomes.tolist():
        yield model.predict_proba_one({})
        model.learn_one({}, outcome)


def baselines() -> Iterable[tuple[str, Play]]:
    cells = {"horizon": T, "n_cells": 6}
    for name in forecasters.__all__:
        kind = getattr(forecasters, name)
        if (
            isinstance(kind, type)
            and issubclass(kind, forecasters.Baseline)
            and kind is not forecasters.Baseline
        ):
            with_cells = name.startswith(("Foster", "Linear", "Minimax", "Power"))
            yield (
                f"baseline/{name}",
                lambda kind=kind, given=cells if with_cells else {}: learnt(kind(**given), COINS[:200]),
            )


def simplex() -> Iterable[tuple[str, Play]]:
    settings: dict[str, dict[str, Any]] = {
        "default": {"n_classes": 3},
        "horizon": {"n_classes": 3, "horizon": T},
        "nested": {"n_classes": 3, "grid": "nested"},
        "cells": {"n_classes": 3, "n_cells": 4, "slack": 1.5},
        "window": {"n_classes": 3, "window": 50},
    }
    for name, given in settings.items():
        make = lambda given=given: forecasters.SimplexAlmostOneStepAhead(**given)  # noqa: E731
        hinted = lambda given=given: forecasters.SimplexAlmostOneStepAhead(**given, **HINTED)  # noqa: E731
        yield f"simplex/{name}", rounds(make, LABELS.tolist(), window="window" in given)
        yield f"simplex/{name}/late", rounds(make, LABELS.tolist(), late=11)
        yield f"simplex/{name}/hints", rounds(hinted, LABELS.tolist(), TABLE)
        if name in ("default", "horizon"):
            yield f"simplex/{name}/soft", rounds(make, list(SOFT))
            yield f"simplex/{name}/soft hints late", rounds(hinted, list(SOFT), TABLE, late=11)
    words_seen = [NAMES[label] for label in LABELS]
    yield (
        "simplex/discovered",
        lambda: learnt(forecasters.SimplexAlmostOneStepAhead(), np.array(words_seen, dtype=object)),
    )


def distances() -> Iterable[tuple[str, Play]]:
    def found(answer: Any) -> list[Any]:
        return [answer.lower, answer.upper, answer.exact, getattr(answer, "witness", None)]

    for name, outcomes in (("coins", COINS), ("shares", SHARES)):
        yield (
            f"distance/{name}",
            lambda outcomes=outcomes: found(measures.calibration_distance(COARSE, outcomes)),
        )
        yield (
            f"distance/{name}/smooth",
            lambda outcomes=outcomes: [measures.smooth_calibration_error(HINTS, outcomes)],
        )
        yield (
            f"distance/{name}/lower",
            lambda outcomes=outcomes: [measures.lower_calibration_distance(COARSE, outcomes).lower],
        )
    yield "distance/fine", lambda: found(measures.calibration_distance(HINTS[:60], COINS[:60]))
    few = np.round(TABLE[:40] * 4) / 4
    few[:, 2] = 1 - few[:, 0] - few[:, 1]
    few = np.clip(few, 0, 1) / np.clip(few, 0, 1).sum(axis=1, keepdims=True)
    yield (
        "distance/classes",
        lambda: bracket(measures.multiclass_calibration_distance(few, LABELS[:40], budget=0.02)),
    )
    yield (
        "distance/classes/soft",
        lambda: bracket(measures.multiclass_calibration_distance(few, SOFT[:40], budget=0.02)),
    )


def bracket(answer: Any) -> list[Any]:
    return [answer.lower, answer.upper]


def other_measures() -> Iterable[tuple[str, Play]]:
    for name in ("expected_calibration_error", "smooth_calibration_error", "brier_decomposition"):
        yield f"measure/{name}", lambda name=name: [repr(getattr(onlinecal, name)(COARSE, COINS))]
    for name in (
        "lp_calibration_error",
        "linf_conditional_error",
        "top_label_calibration_error",
        "classwise_calibration_error",
        "confidence_calibration_error",
    ):
        few = np.round(TABLE, 1)
        few = few / few.sum(axis=1, keepdims=True)
        yield f"measure/{name}", lambda name=name, few=few: [repr(getattr(onlinecal, name)(few, LABELS))]
    yield "measure/groups", lambda: [repr(onlinecal.multicalibration_error(COARSE, COINS, GROUPS))]
    yield "measure/decision", lambda: [onlinecal.decision_calibration_error(TABLE, LABELS, n_actions=2)]
    yield "measure/chance", lambda: [repr(onlinecal.chance_level(COARSE, "smooth", COINS, seed=0).p_value)]


def classifiers() -> Iterable[tuple[str, Play]]:
    def answers(model: Any, stream: Any, late: int) -> Iterable[Any]:
        for one in played(model, stream, late):
            yield one.answer
        yield from (model.certificate, model.n_rounds)

    pairs = coins(T)
    said = [({"answer": {False: 1 - x["p"], True: x["p"]}, "t": t}, y) for t, (x, y) in enumerate(pairs)]
    several = [
        ({"answer": dict(zip(NAMES, row.tolist(), strict=True)), "t": t}, NAMES[label])
        for t, (row, label) in enumerate(zip(TABLE, LABELS, strict=True))
    ]
    wrapped = lambda **given: wrappers.CalibratedClassifier(Scripted(), **given)  # noqa: E731
    for name, given in {"default": {}, "window": {"window": 60}, "buckets": {"n_buckets": 4}}.items():
        for late in (0, 13):
            yield (
                f"wrapper/{name}/{late}",
                lambda given=given, late=late: answers(wrapped(**given), said, late),
            )
    for strategy in ("auto", "simplex", "classwise", "top-label", "tree"):
        for late in (0, 13):
            yield (
                f"wrapper/{strategy}/{late}",
                lambda strategy=strategy, late=late: answers(
                    wrapped(strategy=strategy, classes=NAMES), several, late
                ),
            )


def columns() -> Iterable[tuple[str, Play]]:
    def made(*given: Any, **settings: Any) -> Iterable[Any]:
        result = onlinecal.recalibrate_stream(*given, **settings)
        return [result.probabilities, result.certificate, result.guarantee, repr(result.report())]

    def together(*given: Any) -> Iterable[Any]:
        some = np.where(np.arange(T) % 4 == 1, np.nan, TABLE[:, 1])
        result = onlinecal.combine_forecasts({"one": HINTS, "some": some}, COINS, *given)
        return [result.probabilities, result.weights, result.certificate, result.guarantee]

    yield "combined", together
    yield "combined/late", lambda: together(LATE)
    yield "column", lambda: made(HINTS, COINS)
    yield "column/late", lambda: made(HINTS, COINS, LATE)
    yield "column/groups", lambda: made(HINTS, COINS, groups=np.arange(T) % 3)
    for strategy in ("auto", "simplex", "classwise", "top-label"):
        yield f"table/{strategy}", lambda strategy=strategy: made(TABLE, LABELS, strategy=strategy)
        yield (
            f"table/{strategy}/late",
            lambda strategy=strategy: made(TABLE, LABELS, LATE, strategy=strategy),
        )


def engine() -> Iterable[tuple[str, Play]]:
    def answers_of(config: EngineConfig, events: list[dict[str, Any]]) -> Iterable[Any]:
        with tempfile.TemporaryDirectory() as folder:
            ledger = Path(folder) / "a.ledger"
            lines = lines_of(events)
            with Engine(ledger=ledger, config=config) as running:
                for start in range(0, len(lines), 97):
                    batch = b"\n".join(lines[start : start + 97]) + b"\n"
                    answer = running.answer_lines(batch)
                    yield answer if isinstance(answer, bytes) else answer[0]
            yield check_ledger(ledger).problems
            for key in read_report(ledger).keys:
                yield [key.name, key.summary.rounds, key.summary.certificate, key.summary.guarantee]

    def hinted(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        given = random.Random(1)
        for event in events:
            if event["type"] == "query" and "hint" not in event:
                weights = [given.randint(1, 9) for _ in NAMES]
                shares = {name: weight / sum(weights) for name, weight in zip(NAMES, weights, strict=True)}
                many = event["key"].startswith(("weather/", "skies/", "words/"))
                event["hint"] = shares if many else weights[0] / 10
        return events

    for kind in ("plain", "lanes", "brief", "brief lanes", "weather", "skies"):
        yield f"engine/{kind}/hints", lambda kind=kind: answers_of(CONFIG, hinted(script(2, 300, 6, (kind,))))
    windowed = EngineConfig(KeyConfig(window=40))
    yield "engine/window/hints", lambda: answers_of(windowed, hinted(script(3, 300, 6, ("plain",))))
    plain = KeyConfig(horizon=500, rule="sign", report="lower", steering=False, hints=False)
    yield "engine/grid", lambda: answers_of(EngineConfig(plain), unhinted(script(2, 300, 6, ("grid",))))


def unhinted(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in event.items() if name != "hint"} for event in events]


def games() -> Iterable[tuple[str, Play]]:
    def said(arguments: str) -> list[str]:
        """What a verb prints of its games: not the time that they took, distances to twelve digits."""
        answer = CliRunner().invoke(app, [*arguments.split(), "--json"])
        assert answer.exit_code == 0, answer.output
        return [
            f"{name}={value:.12g}" if isinstance(value, float) else f"{name}={value}"
            for game in json.loads(answer.stdout)["games"]
            for name, value in game.items()
            if name != "seconds"
        ]

    def on_file(arguments: str) -> Iterable[Any]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "stream.csv"
            rows = (f"{hint},{outcome}" for hint, outcome in zip(HINTS, COINS, strict=True))
            file.write_text("\n".join(["said,won", *rows]))
            return [line.replace(str(file), "") for line in said(arguments.format(file))]

    for adversary in ("threshold", "epochs", "bias-lifter", "champion"):
        for forecaster in ("adaptive", "balanced"):
            line = f"simulate --adversary {adversary} --forecaster {forecaster} --rounds 600"
            yield f"game/{adversary}/{forecaster}", lambda line=line: said(line)
    yield (
        "game/hints",
        lambda: on_file(
            "simulate --adversary file:path=[{}],outcome=won,forecast=said --forecaster adaptive"
        ),
    )
    yield "game/classes", lambda: said("simulate --classes 3 --adversary least-likely --rounds 300")
    yield "game/worst", lambda: said("worst --forecaster adaptive --rounds 8")


def watching() -> Iterable[tuple[str, Play]]:
    def alarmed() -> Iterable[Any]:
        alarm = CalibrationAlarm()
        for p, y in zip(HINTS.tolist(), COINS.tolist(), strict=True):
            alarm.update(p, y)
            yield alarm.statistic

    yield "alarm", alarmed
    for name in metrics.__all__:
        yield f"metric/{name}", lambda name=name: scored(getattr(metrics, name)())


def scored(metric: Any) -> Iterable[Any]:
    for p, y in zip(COARSE.tolist(), COINS.tolist(), strict=True):
        metric.update(y, p)
    return [metric.get()]


def exact() -> dict[str, Play]:
    """Every entry whose numbers are the same everywhere."""
    parts = (
        binary,
        baselines,
        simplex,
        distances,
        other_measures,
        classifiers,
        columns,
        engine,
        games,
        watching,
    )
    return {name: play for part in parts for name, play in part()}


def fitted() -> dict[str, Play]:
    """Every recalibrator: log loss and Brier score of what it makes of the rows that it was fitted to."""

    def scores(name: str) -> Iterable[float]:
        one = EXAMPLES[name]
        rows = tuple(np.concatenate([a, b]) for a, b in zip(one.first, one.rest, strict=True))
        made = np.array(one.play(one.build(), rows), dtype=float)
        outcomes = np.asarray(rows[1])
        chosen = (
            made[np.arange(len(made)), np.unique(outcomes, return_inverse=True)[1]]
            if made.ndim == 2
            else np.where(outcomes, made, 1 - made)
        )
        return [float(np.mean(-np.log(np.maximum(chosen, 1e-6)))), float(np.mean((1 - chosen) ** 2))]

    kinds = {
        name
        for name in recalibration.__all__
        if isinstance(getattr(recalibration, name), type) and hasattr(getattr(recalibration, name), "fit")
    }
    return {
        f"fit/{name}": lambda name=name: scores(name) for name in EXAMPLES if name.rpartition("-")[0] in kinds
    }


def corpus(only: str = "") -> dict[str, Any]:
    """By entry, as far as its name begins so: a digest, or a list of scores."""
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for plays, short in ((exact(), digest), (fitted(), list)):
            for name, play in plays.items():
                if name.startswith(only):
                    found[name] = answer(play, short)
    return found


def answer(play: Play, short: Callable[[Iterable[Any]], Any]) -> Any:
    """What an entry comes to; what it raises, if it cannot be played."""
    try:
        return short(play())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def same(before: Any, now: Any) -> bool:
    """Whether an entry is what it was: digests equal, scores within TOLERANCE."""
    if isinstance(before, str) or isinstance(now, str):
        return before == now
    return bool(np.allclose(now, before, rtol=TOLERANCE, atol=1e-5))


def kept() -> dict[str, Any]:
    return json.loads(KEPT.read_text())


KEPT = Path(__file__).with_name("corpus.json")
