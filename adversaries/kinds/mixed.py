"""Adversaries made of other adversaries: one plays first, another takes over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from adversaries.protocol import Build, Kind, Phase
from onlinecal.specs import Parameter


def two_phases(values: Mapping[str, Any], horizon: int | None, build: Build) -> tuple[Phase, ...]:
    """The phases of both players; each is built for the rounds it will play and counts them from 0.

    Parameters
    ----------
    values
        Spec strings `first` and `second`, and `switch` (None: half the horizon, rounded down).
    horizon
        Rounds of the whole game, None if unknown.
    build
        Gives the phases of a spec for a horizon.

    Raises
    ------
    ValueError
        If the horizon leaves no round for one of the two.
    """
    switch = values["switch"]
    if switch is None:
        assert horizon is not None
        if horizon < 2:
            raise ValueError(f"two-phase needs a horizon of at least 2 rounds, got {horizon}")
        switch = horizon // 2
    if horizon is not None and switch >= horizon:
        raise ValueError(f"two-phase: switch must be less than the horizon of {horizon} rounds, got {switch}")
    *early, last = build(values["first"], switch)
    left = switch - sum(phase.rounds or 0 for phase in early)
    return (
        *early,
        replace(last, rounds=left),
        *build(values["second"], None if horizon is None else horizon - switch),
    )


TWO_PHASE = Kind(
    "two-phase",
    "one adversary first, another from half way (or from round `switch`) on",
    "mixed",
    "this library",
    (
        Parameter("first", "coin", "who plays first", form="adversary"),
        Parameter("second", "threshold", "who takes over", form="adversary"),
        Parameter(
            "switch", None, "rounds the first one plays, instead of half the horizon", low=1, form="whole"
        ),
    ),
    compose=two_phases,
    needs_horizon=True,
    horizon_unless="switch",
)
