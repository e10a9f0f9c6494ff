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
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import onlinecal
from onlinecal import forecasters, measures, metrics, recalibration, wrappers
from onlinecal.alarms import CalibrationAlarm
from onlinecal.engine import Engine, EngineConfig, KeyConfig, check_ledger, read_report
from tests.commands import record
from tests.engine.scripts import CONFIG, lines_of, script
from tests.wrappers.scripted import Scripted, coins, played

if TYPE_CHECKING:
    from tests.estimators import Example

Play = Callable[[], Iterable[Any]]
Parts = tuple[Callable[[], Iterable[tuple[str, Play]]], ...]

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


def rounds(
    kind: Any, given: dict[str, Any], outcomes: Any, hints: Any = None, late: int = 0, window: bool = False
) -> Iterable[Any]:
    """Forecasts by tokens, each outcome so many rounds late, and the certificate on the way."""
    model, waiting = kind(**given, **({} if hints is None else {"hints": True})), []
    for t, outcome in enumerate(outcomes):
        token = model.forecast() if hints is None else model.forecast(hint=hints[t])
        waiting.append((token, outcome))
        yield token.probabilities if hasattr(token, "probabilities") else token.probability
        if len(waiting) > late:
            model.observe(*waiting.pop(0))
        yield model.certificate
    for token, outcome in waiting:
        model.observe(token, outcome)
    yield from (model.certificate, model.guarantee)
    if window:
        yield from (model.window_certificate, model.window_guarantee)


def learnt(model: Any, outcomes: Any) -> Iterable[Any]:
    for outcome in outcomes.tolist():
        yield model.predict_proba_one({})
        model.learn_one({}, outcome)


def binary() -> Iterable[tuple[str, Play]]:
    kind = forecasters.AlmostOneStepAhead
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
        play, window = partial(rounds, kind, given), "window" in given
        yield f"binary/{name}", partial(play, COINS, window=window)
        yield f"binary/{name}/late", partial(play, COINS, late=17, window=window)
        yield f"binary/{name}/shares", partial(play, SHARES)
        if given.get("rule") != "sign":
            yield f"binary/{name}/hints", partial(play, COINS, HINTS, window=window)
            yield f"binary/{name}/hints late", partial(play, COINS, HINTS, late=17)
    many, told = np.tile(COINS, 20), np.tile(HINTS, 20)
    yield "binary/replay", lambda: [kind().replay(many)]
    yield "binary/replay/hints", lambda: [kind(hints=True).replay(many, told)]
    yield "binary/one step", lambda: learnt(forecasters.OneStepAhead(n_cells=30), COINS)


def baselines() -> Iterable[tuple[str, Play]]:
    def play(kind: Any) -> Iterable[Any]:
        with_cells = kind.__name__.startswith(("Foster", "Linear", "Minimax", "Power"))
        return learnt(kind(**({"horizon": T, "n_cells": 6} if with_cells else {})), COINS[:200])

    for name in forecasters.__all__:
        kind = getattr(forecasters, name)
        if isinstance(kind, type) and forecasters.Baseline in kind.__mro__[1:]:
            yield f"baseline/{name}", partial(play, kind)


def simplex() -> Iterable[tuple[str, Play]]:
    kind, labels = forecasters.SimplexAlmostOneStepAhead, LABELS.tolist()
    settings: dict[str, dict[str, Any]] = {
        "default": {"n_classes": 3},
        "horizon": {"n_classes": 3, "horizon": T},
        "cells": {"n_classes": 3, "n_cells": 4, "slack": 1.5},
        "window": {"n_classes": 3, "window": 50},
    }
    for name, given in settings.items():
        play = partial(rounds, kind, given)
        yield f"simplex/{name}", partial(play, labels, window="window" in given)
        yield f"simplex/{name}/late", partial(play, labels, late=11)
        yield f"simplex/{name}/hints", partial(play, labels, TABLE)
        if name in ("default", "horizon"):
            yield f"simplex/{name}/soft", partial(play, list(SOFT))
            yield f"simplex/{name}/soft hints late", partial(play, list(SOFT), TABLE, late=11)
    seen = np.array([NAMES[label] for label in labels], dtype=object)
    yield "simplex/discovered", lambda: learnt(kind(), seen)


def distances() -> Iterable[tuple[str, Play]]:
    def found(p: Any, outcomes: Any) -> list[Any]:
        answer = measures.calibration_distance(p, outcomes)
        return [answer.lower, answer.upper, answer.exact, getattr(answer, "witness", None)]

    def smooth(outcomes: Any) -> list[float]:
        return [measures.smooth_calibration_error(HINTS, outcomes)]

    def below(outcomes: Any) -> list[float]:
        return [measures.lower_calibration_distance(COARSE, outcomes).lower]

    def of_classes(outcomes: Any) -> list[float]:
        few = np.round(TABLE[:40] * 4) / 4
        few[:, 2] = 1 - few[:, 0] - few[:, 1]
        few = np.clip(few, 0, 1) / np.clip(few, 0, 1).sum(axis=1, keepdims=True)
        answer = measures.multiclass_calibration_distance(few, outcomes[:40], budget=0.02)
        return [answer.lower, answer.upper]

    for name, outcomes in (("coins", COINS), ("shares", SHARES)):
        yield f"distance/{name}", partial(found, COARSE, outcomes)
        yield f"distance/{name}/smooth", partial(smooth, outcomes)
        yield f"distance/{name}/lower", partial(below, outcomes)
    yield "distance/fine", partial(found, HINTS[:60], COINS[:60])
    yield "distance/classes", partial(of_classes, LABELS)
    yield "distance/classes/soft", partial(of_classes, SOFT)


def other_measures() -> Iterable[tuple[str, Play]]:
    def said(name: str, p: Any, y: Any) -> list[str]:
        return [repr(getattr(onlinecal, name)(p, y))]

    for name in ("expected_calibration_error", "smooth_calibration_error", "brier_decomposition"):
        yield f"measure/{name}", partial(said, name, COARSE, COINS)
    few = np.round(TABLE, 1)
    few = few / few.sum(axis=1, keepdims=True)
    of_classes = "lp", "top_label", "classwise", "confidence"
    for name in ("linf_conditional_error", *(f"{one}_calibration_error" for one in of_classes)):
        yield f"measure/{name}", partial(said, name, few, LABELS)
    yield "measure/groups", lambda: [repr(onlinecal.multicalibration_error(COARSE, COINS, GROUPS))]
    yield "measure/decision", lambda: [onlinecal.decision_calibration_error(TABLE, LABELS, n_actions=2)]
    yield (
        "measure/chance",
        lambda: [repr(onlinecal.chance_level(COARSE, "smooth", COINS, random_state=0).p_value)],
    )


def classifiers() -> Iterable[tuple[str, Play]]:
    def answers(stream: Any, given: dict[str, Any], late: int) -> Iterable[Any]:
        model = wrappers.CalibratedClassifier(Scripted(), **given)
        for one in played(model, stream, late):
            yield one.answer
        yield from (model.certificate, model.n_rounds)

    said = [({"answer": {False: 1 - x["p"], True: x["p"]}, "t": t}, y) for t, (x, y) in enumerate(coins(T))]
    several = [
        ({"answer": dict(zip(NAMES, row.tolist(), strict=True)), "t": t}, NAMES[label])
        for t, (row, label) in enumerate(zip(TABLE, LABELS, strict=True))
    ]
    for late in (0, 13):
        for name, given in {"default": {}, "window": {"window": 60}, "buckets": {"n_buckets": 4}}.items():
            yield f"wrapper/{name}/{late}", partial(answers, said, given, late)
        for strategy in ("auto", "simplex", "classwise", "top-label", "tree"):
            settings = {"strategy": strategy, "classes": NAMES}
            yield f"wrapper/{strategy}/{late}", partial(answers, several, settings, late)


def columns() -> Iterable[tuple[str, Play]]:
    def made(*given: Any, **settings: Any) -> Iterable[Any]:
        result = onlinecal.recalibrate_stream(*given, **settings)
        return [result.probabilities, result.certificate, result.guarantee, repr(result.report())]

    def together(**given: Any) -> Iterable[Any]:
        some = np.where(np.arange(T) % 4 == 1, np.nan, TABLE[:, 1])
        result = onlinecal.combine_forecasts({"one": HINTS, "some": some}, COINS, **given)
        return [result.probabilities, result.weights, result.certificate, result.guarantee]

    yield "combined", together
    yield "combined/late", lambda: together(settled_at=LATE)
    yield "column", lambda: made(HINTS, COINS)
    yield "column/late", lambda: made(HINTS, COINS, settled_at=LATE)
    yield "column/groups", lambda: made(HINTS, COINS, groups=np.arange(T) % 3)
    for strategy in ("auto", "simplex", "classwise", "top-label"):
        yield f"table/{strategy}", partial(made, TABLE, LABELS, strategy=strategy)
        yield f"table/{strategy}/late", partial(made, TABLE, LABELS, settled_at=LATE, strategy=strategy)


def engine() -> Iterable[tuple[str, Play]]:
    def answers_of(config: EngineConfig, events: list[dict[str, Any]]) -> Iterable[Any]:
        with tempfile.TemporaryDirectory() as folder:
            ledger = Path(folder) / "a.ledger"
            lines = lines_of(events)
            with Engine(ledger=ledger, config=config) as running:
                for start in range(0, len(lines), 97):
                    batch = b"\n".join(lines[start : start + 97]) + b"\n"
                    yield running.handle_lines(batch)
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


def games() -> Iterable[tuple[str, Play]]:
    def said(arguments: str) -> list[str]:
        """What a verb prints of its games: not the time that they took, distances to twelve digits."""
        return [
            f"{name}={value:.12g}" if isinstance(value, float) else f"{name}={value}"
            for game in record(*arguments.split())["games"]
            for name, value in game.items()
            if name != "seconds"
        ]

    for adversary in ("threshold", "epochs", "bias-lifter", "champion"):
        for forecaster in ("adaptive", "balanced"):
            line = f"simulate --adversary {adversary} --forecaster {forecaster} --rounds 600"
            yield f"game/{adversary}/{forecaster}", partial(said, line)
    yield "game/classes", partial(said, "simulate --classes 3 --adversary least-likely --rounds 300")
    yield "game/worst", partial(said, "worst --forecaster adaptive --rounds 8 --jobs 1")


def watching() -> Iterable[tuple[str, Play]]:
    def alarmed() -> Iterable[Any]:
        alarm = CalibrationAlarm()
        for p, y in zip(HINTS.tolist(), COINS.tolist(), strict=True):
            alarm.update(p, y)
            yield alarm.statistic

    def scored(name: str) -> Iterable[Any]:
        metric = getattr(metrics, name)()
        for p, y in zip(COARSE.tolist(), COINS.tolist(), strict=True):
            metric.update(y, p)
        return [metric.get()]

    yield "alarm", alarmed
    for name in metrics.__all__:
        yield f"metric/{name}", partial(scored, name)


PARTS = (binary, baselines, simplex, distances, other_measures, classifiers, columns, engine, games, watching)
"""Of entries whose numbers are the same everywhere."""


def fitted() -> Iterable[tuple[str, Play]]:
    """Every recalibrator: log loss and Brier score of what it makes of the rows that it was fitted to."""
    # its libraries take longer to load than many entries take to play
    from tests.estimators import EXAMPLES

    def scores(one: Example) -> list[float]:
        rows = tuple(np.concatenate([a, b]) for a, b in zip(one.first, one.rest, strict=True))
        made, outcomes = np.array(one.play(one.build(), rows), dtype=float), np.asarray(rows[1])
        if made.ndim == 1:
            made = np.column_stack([1 - made, made])
        chosen = made[np.arange(len(made)), np.unique(outcomes, return_inverse=True)[1]]
        return [float(np.mean(-np.log(np.maximum(chosen, 1e-6)))), float(np.mean((1 - chosen) ** 2))]

    for name, one in EXAMPLES.items():
        if name.rpartition("-")[0] in recalibration.__all__:
            yield f"fit/{name}", partial(scores, one)


ALL_PARTS = (*PARTS, fitted)


def corpus(
    only: str | tuple[str, ...] = "", without: Sequence[str] = (), parts: Parts = ALL_PARTS
) -> dict[str, Any]:
    """By entry of these parts, as far as its name begins so: a digest, or a list of scores."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            name: answer(play, list if part is fitted else digest)
            for part in parts
            for name, play in part()
            if name.startswith(only) and name not in without
        }


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
