"""Adversaries made of two others: one plays first and the other takes over, or a coin decides each round.

An adversary that plays first has phases of its own, and so has the one that takes over: each keeps its state.
A mixture is one phase. Its state is the weight, the length of the first player's state, and the two states
one behind the other; each player writes its own part, and nobody writes the two numbers in front.
`mixture_step` makes one step for each pair of steps in a process, and keeps it. Pickles refer to it by a name
made of its parts' modules and names, from which `__getattr__` makes it again: a step that is renamed or moved
cannot be loaded from an older pickle.

Equal seeds give equal games, so how one draw serves twice may not change. A mixture leaves out the hints of
its players; a two-phase game has hints if both players have some.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numba.extending import register_jitable

from onlinecal.adversaries.protocol import BELOW_ONE, POWERS, Build, Kind, Phase, State, Step, chance, whole
from onlinecal.catalogue import Parameter


def two_phases(values: Mapping[str, Any], *size_and_horizon: Any) -> tuple[Phase, ...]:
    """The phases of both players; each is made for the rounds it will play and counts them from 0.

    The arguments after the values are the number of classes, if there may be more than two, the horizon, and
    a function that makes the phases of a spec. Raises ValueError if the horizon leaves no round for one
    player.
    """
    *_, horizon, build = size_and_horizon
    switch = values["switch"]
    if switch is None:
        if horizon < 2:
            raise ValueError(f"two-phase must play at least 2 rounds, got {horizon}: play more rounds")
        switch = horizon // 2
    if horizon is not None and switch >= horizon:
        raise ValueError(
            f"two-phase: switch must be less than {horizon}, the rounds that it is to play, got {switch}"
        )
    *early, last = build(values["first"], switch)
    left = switch - sum(phase.rounds or 0 for phase in early)
    second = build(values["second"], None if horizon is None else horizon - switch)
    return (*early, replace(last, rounds=left), *second)


def two_phase(first: str, second: str) -> Kind:
    """The kind that plays one adversary first and then another; these two are its defaults."""
    return Kind(
        "two-phase",
        "one adversary first, another from half way (or from round `switch`) on",
        "mixed",
        "this library",
        (
            Parameter("first", first, "who plays first", form="adversary"),
            Parameter("second", second, "who takes over", form="adversary"),
            whole("switch", None, "rounds the first one plays, instead of half the horizon", high=math.inf),
        ),
        compose=two_phases,
        needs_horizon=True,
        horizon_unless="switch",
    )


PREFIX = "mixture"


@cache
def mixture_step(first: Step, second: Step) -> Step:
    """The step that plays `first` with a fixed probability, else `second`.

    State: [weight, length of the first one's state, state of the first, state of the second]. If the draw is
    below the weight the first plays, and draw / weight is again uniform on [0, 1); else the second plays, and
    (draw - weight) / (1 - weight) is uniform. So one draw chooses who plays and serves as that player's own.
    The one who does not play does not see the round, but both count it.
    """

    @register_jitable
    def step(state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float) -> int:
        weight = state[0]
        border = 2 + int(state[1])
        if u < weight:
            own = min(u / weight, BELOW_ONE)
            return int(first(state[2:border], t, forecast, rise_zero, rise_one, own))
        own = min((u - weight) / (1.0 - weight), BELOW_ONE)
        return int(second(state[border:], t, forecast, rise_zero, rise_one, own))

    # pickles refer to functions by name: `__getattr__` finds this one, which no line of the module defines
    names = (
        part.__qualname__
        if part.__qualname__.startswith(f"{PREFIX};")
        else f"{part.__module__}:{part.__qualname__}"
        for part in (first, second)
    )
    step.__qualname__ = ";".join((PREFIX, *names)).replace(".", "/")
    return step


def __getattr__(name: str) -> Step:
    """The mixture step with this name, as if this module defined it; AttributeError if there is none."""
    words = iter(name.replace("/", ".").split(";"))
    if name.startswith(f"{PREFIX};"):
        try:
            return _step_named(words)
        except (ImportError, AttributeError, ValueError, StopIteration):
            pass
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _step_named(words: Iterator[str]) -> Step:
    """The step that the next words name; a mixture is written as its prefix and then its two parts."""
    word = next(words)
    if word == PREFIX:
        return mixture_step(_step_named(words), _step_named(words))
    module, name = word.split(":")
    return getattr(import_module(module), name)


def mixture_phase(values: Mapping[str, Any], horizon: int | None, build: Build) -> tuple[Phase, ...]:
    """The single phase of a mixture; both players are made for the whole game, in one phase each."""
    parts = []
    for place in ("first", "second"):
        phases = build(values[place], horizon)
        if len(phases) > 1:
            raise ValueError(
                f"mixture: {place} must be played in one phase, but {values[place]} has {len(phases)}: name "
                "another adversary"
            )
        parts.append(phases[0])
    first, second = parts
    return (
        Phase(
            mixture_step(first.step, second.step),
            np.concatenate([[values["weight"], len(first.state)], first.state, second.state]),
            rounds=min((part.rounds for part in parts if part.rounds is not None), default=None),
            power=max(first.power, second.power, key=POWERS.index),
            depth=max(first.depth, second.depth),
        ),
    )


MIXTURE = Kind(
    "mixture",
    "each round is played by one adversary with probability `weight`, else by another",
    "mixed",
    "this library",
    (
        Parameter("first", "coin", "who plays with probability `weight`", form="adversary"),
        Parameter("second", "threshold", "who plays else", form="adversary"),
        chance("weight", 0.5, "probability that the first one plays a round"),
    ),
    compose=mixture_phase,
)
