"""Configurations at work: checked, with the lanes that they ask for, and read from files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from onlinecal.engine.config import MAX_JUMP, PARAMETERS, EngineConfig, KeyConfig, Match
from onlinecal.engine.keys.arena import Arena
from onlinecal.engine.keys.lanes import BinaryLanes, Lanes
from onlinecal.engine.keys.steering import KeySteering, ProbabilitySteering
from onlinecal.engine.watch.key_watch import ClassWatch, KeyWatch, ProbabilityWatch

NEVER = float("inf")
ALPHA = 1e-4
"""The rate of false alarms, unless another is set."""


def lanes_of(config: KeyConfig) -> Lanes:
    """The kind of lanes that a configuration asks for; ValueError if a parameter is out of range."""
    given = {
        name: getattr(config, name)
        for name in PARAMETERS[config.kind]
        if getattr(config, name) is not None and name not in ("classes", "steering")
    }
    if config.kind == "binary":
        return BinaryLanes(config.hints, **given)
    if config.kind == "lp":
        from onlinecal.engine.keys.lp_lanes import LpLanes

        return LpLanes(config.classes, config.most_classes, **given)
    from onlinecal.engine.keys.simplex_lanes import SimplexLanes

    return SimplexLanes(config.classes, config.lanes > 1, config.hints, config.most_classes, **given)


def steering_of(config: KeyConfig) -> Callable[[], KeySteering] | None:
    """How a key's steering begins; None if its hints are not steered."""
    if config.steering is False or config.kind == "lp":
        return None
    if config.kind == "binary":
        return ProbabilitySteering
    from onlinecal.engine.keys.class_labels import ClassSteering

    return partial(ClassSteering, config.classes, config.most_classes)


def watch_of(config: KeyConfig) -> Callable[[], KeyWatch]:
    """How a key's watch begins."""
    wanted = config.alarm
    alpha = ALPHA if wanted is None or wanted is True else wanted or None
    return partial(ProbabilityWatch if config.kind == "binary" else ClassWatch, alpha)


class Settings:
    """A configuration at work: shared by all keys that it holds for.

    `arena` is where these live, if their forecasters are single grid machines without a window; else None.
    `usual` is whether they ask for no more accounts than an arena keeps, since nothing expires, and whether
    all hints that are probabilities are accepted.
    """

    def __init__(self, config: KeyConfig) -> None:
        self.config = config
        self.kind = lanes_of(config)
        self.new_steering, self.new_watch = steering_of(config), watch_of(config)
        self.most_lanes = config.lanes
        self.arena = None
        if isinstance(self.kind, BinaryLanes) and config.lanes == 1 and config.window is None:
            self.arena = Arena(self.kind.model, self.new_watch)
        self.patience = NEVER if config.expire_after is None else config.expire_after
        self.usual = self.arena is not None and self.patience == NEVER and config.hints
        self.max_jump = NEVER if config.expire_after is None else config.max_jump

    def problem_of_time(self, time: float | None, clock: float | None) -> str | None:
        """What is wrong with an event's time for a key with that clock, if anything is: see `max_jump`."""
        if time is None or self.max_jump == NEVER:
            return None
        ahead = abs(time) - max(self.max_jump, MAX_JUMP) if clock is None else time - clock - self.max_jump
        if ahead <= 0:
            return None
        where = (
            "from 0, where the key's clock starts"
            if clock is None
            else f"ahead of the key's clock, {clock!r}"
        )
        return f"time {time!r} is more than max_jump seconds {where}: is it in milliseconds?"


def all_settings(config: EngineConfig) -> dict[int, Settings]:
    """Every configuration at work, by its place; ValueError if a parameter is out of range."""
    return {place: Settings(config.at(place)) for place in range(-1, len(config.matches))}


def read_config(path: Path) -> EngineConfig:
    """The configuration in a TOML file: the default at the top, exceptions as [[keys]] with a `match`.

    Raises ValueError naming the file and the entry, OSError if there is no file at `path`.
    """
    try:
        table: dict[str, Any] = msgspec.toml.decode(path.read_bytes())
        exceptions = table.pop("keys", [])
        if not isinstance(exceptions, list) or not all(isinstance(entry, dict) for entry in exceptions):
            raise ValueError("keys must be written as [[keys]] tables")
        matches = []
        for entry in exceptions:
            pattern = entry.pop("match", None)
            if not isinstance(pattern, str):
                raise ValueError(f'each of [[keys]] needs a match, such as "sport/*", got {pattern!r}')
            matches.append(Match(pattern, msgspec.convert(entry, KeyConfig)))
        config = EngineConfig(msgspec.convert(table, KeyConfig), tuple(matches))
        all_settings(config)
        return config
    except (ValueError, msgspec.MsgspecError) as error:
        raise ValueError(f"{path}: {error}") from error
