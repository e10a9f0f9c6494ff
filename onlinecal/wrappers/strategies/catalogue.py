"""All strategies by name, which of them "auto" is, and what they were in version 0.1.0."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from onlinecal.forecasters.binary.defaults import SLACK_ON_FIXED_GRIDS, SLACK_WITH_HINTS
from onlinecal.wrappers.labels import Label
from onlinecal.wrappers.strategies.binary import Binary
from onlinecal.wrappers.strategies.buckets import Buckets
from onlinecal.wrappers.strategies.certain import Certain
from onlinecal.wrappers.strategies.classwise import Classwise
from onlinecal.wrappers.strategies.moments import Moments
from onlinecal.wrappers.strategies.simplex import Simplex
from onlinecal.wrappers.strategies.strategy import Strategy
from onlinecal.wrappers.strategies.top_label import TopLabel
from onlinecal.wrappers.strategies.tree import Tree

StrategyName = Literal["auto", "binary", "simplex", "top-label", "classwise", "tree"]
STRATEGIES: tuple[StrategyName, ...] = get_args(StrategyName)
AUTO = "auto"
CHOICES = {2: Binary.name, 3: Simplex.name, 10: Classwise.name, math.inf: TopLabel.name}
"""What "auto" is for up to so many labels, if nothing else is known."""


INFORMATIVE = {Simplex.name: 0.2, Classwise.name: 0.5, Tree.name: 0.5, TopLabel.name: math.inf}
"""With a horizon "auto" is the first of these whose guarantee is at most this share of the trivial one.

What promises more comes first. A joint guarantee near the trivial one comes from cells so coarse that they
cost skill; with the others forecasts stay near their hints.
"""


def chosen(
    strategy: str,
    n_labels: int,
    windowed: bool = False,
    strategies: Mapping[str, Strategy] | None = None,
    horizon: int | None = None,
) -> str:
    """The name of the strategy for so many labels; of those that can keep windows, if there are any.

    With strategies and a horizon "auto" goes by what they guarantee.
    """
    if strategy != AUTO:
        return strategy
    if strategies is not None and horizon is not None and n_labels > 2:
        outlooks = {name: strategies[name].outlook(n_labels, horizon) for name in INFORMATIVE}
        allowed = (name for name in outlooks if not (windowed and name == Simplex.name))
        return next(name for name in allowed if outlooks[name].share <= INFORMATIVE[name])
    name = next(name for most, name in CHOICES.items() if n_labels <= most)
    return Classwise.name if windowed and name == Simplex.name else name


def new_strategy(
    name: str,
    slack: float | None,
    n_buckets: Buckets,
    horizon: int | None,
    moments: Moments | None = None,
    declared: Sequence[Label] = (),
) -> Strategy:
    """The strategy of that name before its first round; `declared`: all labels, if known beforehand.

    The slack, if not set, is that of binary forecasters from the first hint on; of several labels together
    that of fixed grids.
    """
    joint = SLACK_ON_FIXED_GRIDS if slack is None else slack
    each = SLACK_WITH_HINTS if slack is None and horizon is None and moments is None else joint
    if name == Certain.name:
        return Certain(moments)
    if name == Simplex.name:
        return Simplex(joint, n_buckets, horizon, declared)
    kind = next(kind for kind in (Binary, Classwise, TopLabel, Tree) if kind.name == name)
    return kind(each, n_buckets, horizon, moments)


def new_strategies(
    slack: float | None,
    n_buckets: Buckets,
    horizon: int | None,
    moments: Moments | None = None,
    declared: Sequence[Label] = (),
) -> dict[str, Strategy]:
    """One of each by name, before its first round.

    Bounds are added up in this order, on which the last bit of a sum depends.
    """
    names = [kind.name for kind in (Binary, Classwise, TopLabel, Certain, Simplex, Tree)]
    return {name: new_strategy(name, slack, n_buckets, horizon, moments, declared) for name in names}


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
