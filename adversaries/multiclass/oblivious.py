"""Adversaries of k classes that never look at a forecast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba.extending import register_jitable

from adversaries.multiclass.path import drawn, move, path_state
from adversaries.multiclass.protocol import MOST_ROUNDS, Floats, MulticlassKind
from adversaries.protocol import State, state_of
from onlinecal.specs import Parameter

BELOW_ONE = 1.0 - 2.0**-53
"""The largest draw there is."""


@register_jitable
def uniform_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """Every class with the same probability. State: []."""
    return int(u * len(forecast))


def uniform_initial(values: Mapping[str, Any], n_classes: int, horizon: int | None) -> State:
    """State of `uniform_step`, empty."""
    return state_of()


@register_jitable
def weights_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """Every class with a probability of its own. State: [weight of each class]."""
    return drawn(state, u)


def weights_initial(values: Mapping[str, Any], n_classes: int, horizon: int | None) -> State:
    """State of `weights_step`; without shares 1, 2, ..., k. ValueError unless there is one for each class."""
    if values["shares"] is None:
        return np.arange(1.0, n_classes + 1)
    shares = read_shares(values["shares"])
    if len(shares) != n_classes:
        raise ValueError(
            f"weights: shares must be {n_classes} numbers, one for each class, got {values['shares']}"
        )
    return np.array(shares)


def read_shares(text: str) -> list[float]:
    """Numbers of at least 0, not all 0, separated by commas; ValueError for anything else."""
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError:
        shares = []
    if not shares or not all(0.0 <= share <= 1e9 for share in shares) or sum(shares) == 0.0:
        raise ValueError(
            f"must be numbers of at least 0 with commas between them, like [5,3,2], got {text!r}"
        )
    return shares


def canonical_shares(text: str) -> str:
    """The text with every number in its shortest form."""
    return ",".join(
        f"{share:g}" if share == float(f"{share:g}") else repr(share) for share in read_shares(text)
    )


@register_jitable
def rotating_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """Runs of every class in turn. State: [length]."""
    return (t // int(state[0])) % len(forecast)


def rotating_initial(values: Mapping[str, Any], n_classes: int, horizon: int | None) -> State:
    """State of `rotating_step`."""
    return state_of(values["length"])


@register_jitable
def markov_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """The previous class again with a fixed probability, else one of the others. State: [stay, previous].

    Given that the draw is not below `stay`, what it exceeds it by is uniform and picks among the others.
    """
    k, stay, previous = len(forecast), state[0], int(state[1])
    if previous < 0:
        outcome = int(u * k)
    elif u < stay:
        outcome = previous
    else:
        step = int(min((u - stay) / (1.0 - stay), BELOW_ONE) * (k - 1))
        outcome = (previous + 1 + step) % k
    state[1] = outcome
    return outcome


def markov_initial(values: Mapping[str, Any], n_classes: int, horizon: int | None) -> State:
    """State of `markov_step`; before the first round there is no previous class."""
    return state_of(values["stay"], -1.0)


@register_jitable
def dirichlet_drift_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """Drawn from class probabilities that wander through the simplex. State: see `path`."""
    return drawn(move(state, t, len(forecast)), u)


def dirichlet_drift_initial(values: Mapping[str, Any], n_classes: int, horizon: int | None) -> State:
    """State of `dirichlet_drift_step`: the last leg ends with the horizon, unless `spacing` is given."""
    if values["spacing"] is not None:
        return path_state(n_classes, values["spacing"])
    assert horizon is not None
    return path_state(n_classes, horizon / values["legs"])


@register_jitable
def late_class_step(state: State, t: int, forecast: Floats, rises: Floats, u: float) -> int:
    """The last class does not exist at first, then it comes often. State: [first round, weight].

    Before that round all other classes are equally likely; from then on the last class has this weight and
    the others share the rest.
    """
    k, weight = len(forecast), state[1] if t >= state[0] else 0.0
    if u < weight:
        return k - 1
    return int(min((u - weight) / (1.0 - weight), BELOW_ONE) * (k - 1))


def late_class_initial(values: Mapping[str, Any], n_classes: int, horizon: int | None) -> State:
    """State of `late_class_step`."""
    if values["start"] is not None:
        return state_of(values["start"], values["weight"])
    assert horizon is not None
    return state_of(horizon // 2, values["weight"])


LEGS = Parameter("legs", 12, "straight lines from the first round to the last", 1, MOST_ROUNDS, form="whole")
SPACING = Parameter("spacing", None, "rounds each line takes, instead of legs", 1, MOST_ROUNDS, form="whole")

KINDS = (
    MulticlassKind(
        "uniform",
        "every class with the same probability",
        "oblivious",
        "folklore",
        (),
        uniform_step,
        uniform_initial,
    ),
    MulticlassKind(
        "weights",
        "every class with a fixed probability of its own",
        "oblivious",
        "folklore",
        (
            Parameter(
                "shares",
                None,
                "in proportion; 1, 2, ..., k if not set",
                form="text",
                canonical=canonical_shares,
            ),
        ),
        weights_step,
        weights_initial,
    ),
    MulticlassKind(
        "rotating",
        "runs of every class in turn",
        "oblivious",
        "folklore",
        (Parameter("length", 1, "rounds a class stays", 1, MOST_ROUNDS, form="whole"),),
        rotating_step,
        rotating_initial,
    ),
    MulticlassKind(
        "markov",
        "the previous class again with a fixed probability, else one of the others",
        "oblivious",
        "folklore",
        (Parameter("stay", 0.9, "probability of the previous class", low=0.0, high=1.0),),
        markov_step,
        markov_initial,
    ),
    MulticlassKind(
        "dirichlet-drift",
        "class probabilities that wander through the simplex in straight lines",
        "oblivious",
        "this library; Roberts (2018)",
        (LEGS, SPACING),
        dirichlet_drift_step,
        dirichlet_drift_initial,
        needs_horizon=True,
        horizon_unless="spacing",
    ),
    MulticlassKind(
        "late-class",
        "the last class first appears half way (or in round `start`), then it comes often",
        "oblivious",
        "this library",
        (
            Parameter("weight", 0.5, "its probability from then on", low=0.0, high=1.0),
            Parameter("start", None, "its first round, instead of half way", 0, MOST_ROUNDS, form="whole"),
        ),
        late_class_step,
        late_class_initial,
        needs_horizon=True,
        horizon_unless="start",
    ),
)
