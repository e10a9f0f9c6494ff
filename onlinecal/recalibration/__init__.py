"""Batch recalibration: a fixed predictor's probabilities in, better ones out.

Names are loaded when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onlinecal.recalibration.boosted_recalibrator import BoostedRecalibrator, BoostingRound
    from onlinecal.recalibration.group_recalibrator import GroupRecalibrator
    from onlinecal.recalibration.lp_recalibrator import LpRecalibrator, SampleSizeWarning
    from onlinecal.recalibration.lp_sample_complexity import (
        SampleComplexity,
        epsilon_for,
        lp_sample_complexity,
    )

__all__ = [
    "BoostedRecalibrator",
    "BoostingRound",
    "GroupRecalibrator",
    "LpRecalibrator",
    "SampleComplexity",
    "SampleSizeWarning",
    "epsilon_for",
    "lp_sample_complexity",
]

_HOME = {
    "BoostedRecalibrator": "boosted_recalibrator",
    "BoostingRound": "boosted_recalibrator",
    "GroupRecalibrator": "group_recalibrator",
    "LpRecalibrator": "lp_recalibrator",
    "SampleComplexity": "lp_sample_complexity",
    "SampleSizeWarning": "lp_recalibrator",
    "epsilon_for": "lp_sample_complexity",
    "lp_sample_complexity": "lp_sample_complexity",
}


def __getattr__(name: str) -> Any:
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
