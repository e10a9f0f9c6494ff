"""Adversaries that see the forecaster's inner state, through what each outcome would do to its certificate.

They are told, before they choose, how much the forecaster's proven bound on its distance to calibration would
rise for either outcome. No bound that holds for every sequence can exclude them.

Best response by look-ahead: a driver that honours `Phase.depth` tells them about more than this one round.
With depth d it tries every continuation of d rounds on a copy of the forecaster and hands over, for either
outcome of the present round, the largest rise that can follow. The step takes the larger one, which is the
first move of the best attack d rounds long, and the next round plans anew. The work doubles with every
round of depth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numba.extending import register_jitable

from adversaries.protocol import Kind, State, state_of
from onlinecal.specs import Parameter

ROUNDING = 1e-12
"""Rises closer than this are equal: forecasters add them up in floating point."""

DEEPEST = 10
"""Most rounds of look-ahead: a driver tries 2 ** depth continuations in every round."""


@register_jitable
def certificate_greedy_step(
    state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float
) -> int:
    """The outcome with the larger rise; between equal ones, 1 with a fixed probability. State: [tie].

    How far ahead the rises look is the business of whoever works them out (`Phase.depth`), not of this step.
    """
    lead = rise_one - rise_zero
    if abs(lead) <= ROUNDING:
        return int(u < state[0])
    return int(lead > 0.0)


def certificate_greedy_initial(values: Mapping[str, Any], horizon: int | None) -> State:
    """State of `certificate_greedy_step`."""
    return state_of(values["tie"])


KINDS = (
    Kind(
        "certificate-greedy",
        "the outcome for which the forecaster's certificate can rise more within `depth` rounds",
        "internal",
        "this library",
        (
            Parameter("tie", 0.5, "probability of a 1 when both rise alike", low=0.0, high=1.0),
            Parameter("depth", 1, "rounds it looks ahead", low=1, high=DEEPEST, form="whole"),
        ),
        certificate_greedy_step,
        certificate_greedy_initial,
        depth_parameter="depth",
    ),
)
