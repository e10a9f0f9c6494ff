"""What is recorded of the answers of older states, how answers are compared, and how archives are read."""

from __future__ import annotations

import io
import json
import math
import pickle
import tarfile
from dataclasses import fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from ways import WAYS, Bound

from onlinecal.engine import EngineConfig
from onlinecal.engine.events import decode_lines, encode_lines
from onlinecal.engine.keys.step import KeyStep
from onlinecal.measures import MulticlassDistance

ARCHIVES = sorted(Path(__file__).parent.glob("[0-9]*.tar.xz"))
"""One for each version of which states are kept."""

TOLERANCE = 1e-12
"""Between answers that go through BLAS, a solver or the C library's exponentials and logarithms."""


NEWER = {
    "window", "window_certificate", "window_guarantee",
    "p", "epsilon", "n_levels", "tolerance", "within", "first_fit", "fading", "steering",
    "alarm", "watched",
}  # fmt: skip
"""Fields that 0.1.0 did not have: left out where they are not set."""


def plain(value: Any) -> Any:
    """Anything in the terms of JSON, whose floats are written so that they are read as the same floats."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, np.ndarray):
        return [plain(one) for one in value.tolist()]
    if isinstance(value, dict):
        return [[plain(key), plain(one)] for key, one in value.items()]
    if is_dataclass(value):
        kept = {field.name: getattr(value, field.name) for field in fields(value)}
        if isinstance(value, MulticlassDistance) and value.exact is None:
            # 0.1.0 knew brackets only
            del kept["exact"]
        return {name: plain(one) for name, one in kept.items()}
    if isinstance(value, msgspec.Struct):
        kept = {name: getattr(value, name) for name in value.__struct_fields__}
        return {name: plain(one) for name, one in kept.items() if one is not None or name not in NEWER}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if callable(value):
        # where a function lives is what may change
        return "a function"
    raise TypeError(f"no way to record {value!r}")


def assert_close(found: Any, wanted: Any) -> None:
    """Equal but for numbers, which may differ by TOLERANCE, absolutely or relative to their size."""
    if isinstance(wanted, list):
        assert isinstance(found, list)
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_close(one, other)
    elif isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for name in wanted:
            assert_close(found[name], wanted[name])
    elif isinstance(wanted, float):
        both_nan = math.isnan(wanted) and math.isnan(found)
        assert both_nan or math.isclose(found, wanted, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    else:
        assert found == wanted


def with_bounds_of(older: Any, found: Any) -> Any:
    """Plain answers with the older bound in place of each that is at most that."""
    if isinstance(found, Bound) and isinstance(older, (int, float)) and found <= older:
        return older
    if isinstance(found, list) and isinstance(older, list) and len(found) == len(older):
        return [with_bounds_of(one, other) for one, other in zip(older, found, strict=True)]
    if isinstance(found, dict) and isinstance(older, dict) and found.keys() == older.keys():
        return {name: with_bounds_of(older[name], found[name]) for name in found}
    return found


def go_on(way: str, state: Any, older: str | None = None) -> str:
    """What a state answers: "calibrated abc" is a wrapper of three labels, "calibrated" one of two.

    One text for one value, to the last bit and the sign of zero. Bounds that are at most those of the older
    answers, if there are any, are written as these.
    """
    name, _, labels = way.partition(" ")
    step = partial(WAYS[name], labels=tuple(labels) or (False, True)) if name in LABELLED else WAYS[name]
    answers = plain(step(state))
    return json.dumps(answers if older is None else with_bounds_of(json.loads(older), answers))


LABELLED = ("calibrated", "grouped", "mapped", "refitted", "decided")


def turns(config: EngineConfig, key: str, data: bytes, lines: bytes) -> tuple[bytes, list[bytes]]:
    """A key's bytes after further events, in turns of four, and its answers line by line."""
    step, said = KeyStep(config, remember=10), []
    events = list(decode_lines(lines))
    for start in range(0, len(events), 4):
        after, answers = step(key, data, events[start : start + 4])
        assert after is not None
        data = after
        said += answers
    return data, encode_lines(said).splitlines()


class Watchful(pickle.Unpickler):
    """Notes which names a pickle refers to."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.names: set[tuple[str, str]] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.names.add((module, name))
        return super().find_class(module, name)


@cache
def contents(archive: Path) -> dict[str, bytes]:
    """The files of an archive by name; a tar, since many small pickles are compressed best all together."""
    with tarfile.open(archive, "r:xz") as file:
        found = ((member.name, file.extractfile(member)) for member in file)
        return {name: content.read() for name, content in found if content is not None}


def read(archive: Path, name: str) -> bytes:
    return contents(archive)[name]
