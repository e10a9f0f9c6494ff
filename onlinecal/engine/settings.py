"""Configurations are read from files, checked, and prepared: with the forecasters that they ask for.

Keys never change their settings. A new key's memory is a copy of that of `BinaryKind.model`, and the model
itself never plays. The promises that `BinaryKind` keeps are a cache: they may be forgotten at any time. One
field of `KeySettings` is changed later: `max_jump`, by an engine that is told to `trust_events`.
"""

from __future__ import annotations

import tomllib
from itertools import count
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from onlinecal.arrays import Ints
from onlinecal.catalogue import did_you_mean
from onlinecal.engine.config import MAX_JUMP, PARAMETERS, EngineConfig, KeyConfig, Match
from onlinecal.engine.keys.lanes import check_hints_allowed
from onlinecal.engine.keys.playing import GIVEN_UP, LATE, START, LaneArrays, memory_of
from onlinecal.forecasters.binary.almost_one_step_ahead import AlmostOneStepAhead
from onlinecal.forecasters.binary.cells import ROUNDS
from onlinecal.texts import shown
from onlinecal.validation import check_path, check_probability, share_of

ALPHA = 1e-4
"""The rate of false alarms, unless another is set. The stakes in keys' states follow it, and configurations
do not store it: whoever changes it raises STATE_FORMAT."""


MOST_PROMISES = 100_000
"""How many promises are kept, so that they need not be computed again."""


class BinaryKind:
    """Forecasters of outcomes in [0, 1] that share their parameters."""

    def __init__(self, hints: bool = True, **parameters: Any) -> None:
        self.model = AlmostOneStepAhead(hints=hints, **parameters)
        self._promises: dict[tuple[int, ...], float] = {}

    def hint_of(self, hint: Any) -> float | None:
        """A hint as a float, never -0.0; ValueError if it is no probability, or the key takes no hints."""
        if hint is None:
            return None
        check_hints_allowed(self.model.hints, hint)
        return check_probability(hint, "hint") + 0.0

    def outcome_of(self, value: Any) -> float:
        """An outcome as the int 0 or 1, or as a float between; ValueError if it is none of these."""
        outcome = share_of(value, "value")
        return int(outcome) if outcome in (0, 1) else outcome

    def promises(self, arrays: LaneArrays, lanes: Ints) -> list[float]:
        """What the certificates of lanes cannot exceed, given how late their labels were.

        It holds at the horizon if there is one and it has not passed, else at the present round.
        """
        late, start = arrays.fields[lanes][:, [LATE, START]].T
        promised_by = [ROUNDS, *self.model.machine.rules.PROMISED_BY]
        depends_on = arrays.heap[start[:, None] + promised_by]
        promises, known = [], self._promises
        for lane, *terms in np.column_stack([lanes, late, depends_on]).tolist():
            promise = known.get(tuple(terms))
            if promise is None:
                if len(known) >= MOST_PROMISES:
                    known.clear()
                promise = known[tuple(terms)] = self._promise(arrays, lane, terms[0])
            promises.append(promise)
        return promises

    def _promise(self, arrays: LaneArrays, lane: int, late: int) -> float:
        memory = memory_of(arrays, lane)
        rounds = max(self.model.horizon or 0, int(memory[ROUNDS]))
        return self.model._promise_of(memory, rounds, late)


def kind_of(config: KeyConfig) -> Any:
    """The forecasters that a configuration asks for; ValueError if a parameter is out of range."""
    names = set(PARAMETERS[config.kind]) - {"classes", "steering"}
    parameters = {name: getattr(config, name) for name in names if getattr(config, name) is not None}
    if config.kind == "binary":
        return BinaryKind(config.hints, **parameters)
    if config.kind == "lp":
        from onlinecal.engine.keys.lp_lanes import LpKind

        return LpKind(config.classes, config.most_classes, **parameters)
    from onlinecal.engine.keys.simplex_lanes import SimplexKind

    return SimplexKind(config.classes, config.lanes > 1, config.hints, config.most_classes, **parameters)


class KeySettings:
    """A configuration, prepared for use; all keys that it holds for share it.

    Attributes
    ----------
    place
        The place of the configuration among the exceptions, -1 for the default.
    kind
        Checks hints and outcomes, and makes forecasters.
    is_binary
        Whether outcomes are in [0, 1].
    plain
        Whether these events need no checks but of their ids: queries without a hint or with a probability,
        and outcomes 0 or 1 of open forecasts.
    steers
        Whether hints are steered.
    threshold
        The threshold of alarms, inf for no alarms.
    expire_after, max_jump
        As in the configuration; inf where there is no limit.
    expires_as
        The outcome of a forecast that expires, GIVEN_UP for none.
    """

    def __init__(self, config: KeyConfig, place: int = -1) -> None:
        self.config, self.place = config, place
        self.kind, self.is_binary = kind_of(config), config.kind == "binary"
        alpha = ALPHA if config.alarm is None or config.alarm is True else config.alarm
        self.threshold = 1.0 / alpha if alpha else inf
        self.steers = config.steering is not False and config.kind != "lp"
        self.expire_after = inf if config.expire_after is None else config.expire_after
        self.max_jump = inf if config.expire_after is None else config.max_jump
        self.expires_as = GIVEN_UP if config.expire_as is None else float(config.expire_as)
        self.plain = self.is_binary and config.hints and self.expire_after == inf

    def check_time(self, time: float | None, clock: float | None) -> None:
        """ValueError for a time that an event of a key with that clock cannot have: see `max_jump`."""
        if time is None or self.max_jump == inf:
            return
        most = max(self.max_jump, MAX_JUMP) if clock is None else self.max_jump
        if (abs(time) if clock is None else time - clock) <= most:
            return
        where = "from 0, where the key's clock starts"
        if clock is not None:
            where = f"ahead of the key's clock, {clock!r}"
        raise ValueError(
            f"time {time!r} is more than {most:g} seconds {where}: is it in milliseconds? Send seconds, or "
            "set a larger max_jump for the key"
        )


def all_settings(config: EngineConfig) -> dict[int, KeySettings]:
    """Every configuration, prepared, by its place; ValueError if it is none, or a parameter out of range."""
    if not isinstance(config, EngineConfig):
        raise ValueError(
            f"config must be an EngineConfig, got {shown(config)}: read a file by read_config, and write one "
            "KeyConfig for all keys as EngineConfig(KeyConfig(...))"
        )
    return {place: KeySettings(config._at(place), place) for place in range(-1, len(config.matches))}


def read_config(path: str | Path) -> EngineConfig:
    """An `EngineConfig` from a TOML file: the default and `park` at the top, exceptions as [[keys]].

    At the top the fields of a `KeyConfig` are written by their names, as `lanes = 8`. So they are below each
    [[keys]], which also has a `match`, the pattern of its keys' names; what is left out there has the
    defaults of `KeyConfig`, not the values at the top. An empty file is the default configuration.

    Raises ValueError, naming the file and the entry, for what is no TOML, an unknown name, or a value that
    the configuration or its forecaster refuses, and for a `path` that is none; OSError if no file can be read
    there.
    """
    try:
        # a byte order mark in front, as of tools of Windows, is no part of the text
        table = tomllib.loads(check_path(path, "path").read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}; save it in UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from error
    try:
        exceptions = table.pop("keys", [])
        if not isinstance(exceptions, list) or not all(isinstance(entry, dict) for entry in exceptions):
            raise ValueError(f"keys must be written as [[keys]] tables, got {shown(exceptions)}")
        matches, park = tuple(map(_match_of, count(1), exceptions)), table.pop("park", 0)
        return EngineConfig(_config_of(table, ("keys", "park")), matches, park)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _match_of(number: int, entry: dict[str, Any]) -> Match:
    """An exception as a file has it, the first with the number 1."""
    pattern = entry.pop("match", None)
    if not isinstance(pattern, str):
        raise ValueError(f'[[keys]] number {number} needs a match, such as "sport/*", got {shown(pattern)}')
    try:
        return Match(pattern, _config_of(entry, ("match",)))
    except ValueError as error:
        raise ValueError(f"[[keys]] with match {shown(pattern)}: {error}") from error


def _config_of(table: dict[str, Any], beside: tuple[str, ...]) -> KeyConfig:
    """The configuration in a table; ValueError if there is a name that is none, or a value that cannot be.

    `beside` are names that may stand in the table, too.
    """
    known = *KeyConfig.__struct_fields__, *beside
    for name in table:
        if name not in known:
            raise ValueError(f"unknown setting {shown(name)}{did_you_mean(name, known)}")
    config = KeyConfig(**table)
    kind_of(config)
    return config
