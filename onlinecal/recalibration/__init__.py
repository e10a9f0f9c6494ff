"""Batch recalibration: a fixed predictor's probabilities in, better ones out.

Names are loaded when they are first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

if TYPE_CHECKING:
    from onlinecal.recalibration.boosted.recalibrator import BoostedRecalibrator, BoostingRound
    from onlinecal.recalibration.classical.dirichlet import DirichletCalibration
    from onlinecal.recalibration.classical.temperature import TemperatureScaling
    from onlinecal.recalibration.classical.top_label import TopLabelIsotonic
    from onlinecal.recalibration.decision.losses import (
        LossTable,
        classwise_losses,
        gaussian_losses,
        refrain_losses,
    )
    from onlinecal.recalibration.decision.recalibrator import DecisionRecalibrator
    from onlinecal.recalibration.groups.recalibrator import GroupRecalibrator
    from onlinecal.recalibration.lp.recalibrator import LpRecalibrator, SampleSizeWarning
    from onlinecal.recalibration.lp.sizes import (
        SampleComplexity,
        epsilon_for,
        lp_sample_complexity,
    )

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
    "BoostedRecalibrator": ".boosted.recalibrator",
    "BoostingRound": ".boosted.recalibrator",
    "DecisionRecalibrator": ".decision.recalibrator",
    "DirichletCalibration": ".classical.dirichlet",
    "GroupRecalibrator": ".groups.recalibrator",
    "LossTable": ".decision.losses",
    "LpRecalibrator": ".lp.recalibrator",
    "SampleComplexity": ".lp.sizes",
    "SampleSizeWarning": ".lp.recalibrator",
    "TemperatureScaling": ".classical.temperature",
    "TopLabelIsotonic": ".classical.top_label",
    "classwise_losses": ".decision.losses",
    "epsilon_for": ".lp.sizes",
    "gaussian_losses": ".decision.losses",
    "lp_sample_complexity": ".lp.sizes",
    "refrain_losses": ".decision.losses",
}


__getattr__, __dir__ = lazy_names(__name__, _HOME)
