"""Batch recalibration: a fixed predictor's probabilities in, better ones out.

Names are loaded when they are first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

if TYPE_CHECKING:
    from onlinecal.recalibration.boosted_recalibrator import BoostedRecalibrator, BoostingRound
    from onlinecal.recalibration.decision_recalibrator import DecisionRecalibrator
    from onlinecal.recalibration.dirichlet import DirichletCalibration
    from onlinecal.recalibration.group_recalibrator import GroupRecalibrator
    from onlinecal.recalibration.losses import LossTable, classwise_losses, gaussian_losses, refrain_losses
    from onlinecal.recalibration.lp_recalibrator import LpRecalibrator, SampleSizeWarning
    from onlinecal.recalibration.lp_sizes import (
        SampleComplexity,
        epsilon_for,
        lp_sample_complexity,
    )
    from onlinecal.recalibration.temperature import TemperatureScaling
    from onlinecal.recalibration.top_label import TopLabelIsotonic

__all__ = [
    "BoostedRecalibrator",
    "BoostingRound",
    "DecisionRecalibrator",
    "DirichletCalibration",
    "GroupRecalibrator",
    "LossTable",
    "LpRecalibrator",
    "SampleComplexity",
    "SampleSizeWarning",
    "TemperatureScaling",
    "TopLabelIsotonic",
    "classwise_losses",
    "epsilon_for",
    "gaussian_losses",
    "lp_sample_complexity",
    "refrain_losses",
]

_HOME = {
    "BoostedRecalibrator": ".boosted_recalibrator",
    "BoostingRound": ".boosted_recalibrator",
    "DecisionRecalibrator": ".decision_recalibrator",
    "DirichletCalibration": ".dirichlet",
    "GroupRecalibrator": ".group_recalibrator",
    "LossTable": ".losses",
    "LpRecalibrator": ".lp_recalibrator",
    "SampleComplexity": ".lp_sizes",
    "SampleSizeWarning": ".lp_recalibrator",
    "TemperatureScaling": ".temperature",
    "TopLabelIsotonic": ".top_label",
    "classwise_losses": ".losses",
    "epsilon_for": ".lp_sizes",
    "gaussian_losses": ".losses",
    "lp_sample_complexity": ".lp_sizes",
    "refrain_losses": ".losses",
}


__getattr__, __dir__ = lazy_names(__name__, _HOME)
