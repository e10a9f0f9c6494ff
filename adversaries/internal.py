"""Adversaries that see the forecaster's inner state, through what each outcome would do to its certificate.

They are told, before they choose, how much the forecaster's proven bound on its distance to calibration would
rise for either outcome. No bound that holds for every sequence can exclude them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numba.extending import register_jitable

from .protocol import Kind, Parameter, State, state_of

ROUNDING = 1e-12
"""Rises closer than this are equal: forecasters add them up in floating point."""


@register_jitable
def certificate_greedy_step(
    state: State, t: int, forecast: float, rise_zero: float, rise_one: float, u: float
) -> int:
    """The outcome with the larger rise; between equal ones, 1 with a fixed probability. State: [tie]."""
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
        "the outcome for which the forecaster's certificate rises more",
        "internal",
        "this library",
        (Parameter("tie", 0.5, "probability of a 1 when both rise alike", low=0.0, high=1.0),),
        certificate_greedy_step,
        certificate_greedy_initial,
    ),
)
