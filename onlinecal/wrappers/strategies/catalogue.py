"""All strategies by name, which of them "auto" is, and what they were in version 0.1.0."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

from onlinecal.wrappers.strategies.binary import Binary
from onlinecal.wrappers.strategies.buckets import Buckets
from onlinecal.wrappers.strategies.certain import Certain
from onlinecal.wrappers.strategies.classwise import Classwise
from onlinecal.wrappers.strategies.moments import Moments
from onlinecal.wrappers.strategies.simplex import Simplex
from onlinecal.wrappers.strategies.steered_vectors import SteeredVectors
from onlinecal.wrappers.strategies.strategy import Strategy
from onlinecal.wrappers.strategies.top_label import TopLabel

StrategyName = Literal["auto", "binary", "simplex", "top-label", "classwise"]
STRATEGIES: tuple[StrategyName, ...] = get_args(StrategyName)
AUTO = "auto"
CHOICES = {2: Binary.name, 10: Classwise.name, math.inf: TopLabel.name}
"""What "auto" is for up to so many labels."""
OLDER_CHOICES = {2: Binary.name, 3: Simplex.name, **CHOICES}
"""What it was in version 0.1.0, whose states go on by it."""


def chosen(strategy: str, n_labels: int, older: bool = False) -> str:
    """The name of the strategy for so many labels."""
    if strategy != AUTO:
        return strategy
    choices = sorted((OLDER_CHOICES if older else CHOICES).items())
    return next(name for most, name in choices if n_labels <= most)


SLACK, SLACK_ON_FIXED_GRIDS = 1.5, 1.0
"""Defaults for single events: 1.5 costs the self-tuning grid least skill for its certificate; 1 is enough
on a grid that a horizon or a window fixed."""


def new_strategies(
    slack: float | None,
    n_buckets: Buckets,
    horizon: int | None,
    moments: Moments | None = None,
    steering: SteeredVectors | None = None,
) -> dict[str, Strategy]:
    """One of each by name, before its first round; those that several labels come to share a steering.

    Bounds are added up in this order, on which the last bit of a sum depends.
    """
    fixed = SLACK_ON_FIXED_GRIDS if slack is None else slack
    each = SLACK if slack is None and horizon is None and moments is None else fixed
    several: list[Strategy] = [Binary(each, n_buckets, horizon, moments)]
    several += [kind(each, n_buckets, horizon, moments, steering) for kind in (Classwise, TopLabel)]
    several += [Certain(moments), Simplex(slack, n_buckets, horizon, steering)]
    return {strategy.name: strategy for strategy in several}


def renewed(state: dict[str, Any]) -> dict[str, Any]:
    """The state of a CalibratedClassifier of 0.1.0, which kept all strategies' parts itself, as of today."""
    then = {"_projections", "_joint", "_surprises", "_plan", "_kind"}
    now = {name: value for name, value in state.items() if name not in then}
    strategies = new_strategies(state["slack"], state["n_buckets"], state["horizon"])
    for strategy in strategies.values():
        strategy.goes_on_as_before = True
    for (plan, label), projection in state["_projections"].items():
        strategies[plan].projections[label] = projection
    certain, simplex = strategies[Certain.name], strategies[Simplex.name]
    assert isinstance(certain, Certain)
    assert isinstance(simplex, Simplex)
    certain.surprises, simplex.joint = state["_surprises"], state["_joint"]
    # rounds that forecast nothing had a name of their own
    for place, (key, waiting) in state["_pending"]._waiting.items():
        if waiting.kind not in strategies:
            state["_pending"]._waiting[place] = key, waiting._replace(kind=Certain.name)
    now["_strategies"], now["_plan"] = strategies, strategies[state["_plan"]]
    now["_asking"] = strategies.get(state["_kind"], certain)
    return now
