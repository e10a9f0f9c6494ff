"""Files and bytes that the library writes itself, for `write_states.py` to keep: a ledger, keys, arrays."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from going_on import go_on, turns
from msgspec.structs import replace
from ways import table_of

from onlinecal import recalibration
from onlinecal.engine import (
    Engine,
    decode_lines,
    encode_lines,
    read_config,
)
from onlinecal.engine.keys.cache import KeyCache
from onlinecal.engine.keys.state import KeyState
from onlinecal.engine.keys.step import KeyStep

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
        step, keys = KeyStep(config, remember=10), KeyCache(replace(config, edition=edition))
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
