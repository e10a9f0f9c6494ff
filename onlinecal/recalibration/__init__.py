"""Batch recalibration: a fixed predictor's probabilities in, better ones out.

Names are loaded when they are first asked for, and nothing here has a state. The names are public.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

# The imports under TYPE_CHECKING are the package's public list; `lazy_names` reads them at run time. Each
# stands as `name as name`, and nothing else may stand there.
if TYPE_CHECKING:
    from onlinecal.recalibration.boosted import BoostedRecalibrator as BoostedRecalibrator
    from onlinecal.recalibration.boosted import BoostingRound as BoostingRound
    from onlinecal.recalibration.classical.linear import (
        AveragedCalibration as AveragedCalibration,
        DirichletCalibration as DirichletCalibration,
        VectorScaling as VectorScaling,
    )
    from onlinecal.recalibration.classical.temperature import (
        BetaCalibration as BetaCalibration,
        PerClassIsotonic as PerClassIsotonic,
        TemperatureScaling as TemperatureScaling,
        TopLabelIsotonic as TopLabelIsotonic,
    )
    from onlinecal.recalibration.cross_validated import RecalibratedClassifierCV as RecalibratedClassifierCV
    from onlinecal.recalibration.decision.losses import (
        LossTable as LossTable,
        classwise_losses as classwise_losses,
        gaussian_losses as gaussian_losses,
        refrain_losses as refrain_losses,
    )
    from onlinecal.recalibration.decision.recalibrator import (
        CompressedPredictor as CompressedPredictor,
        DecisionRecalibrator as DecisionRecalibrator,
    )
    from onlinecal.recalibration.folds import SampleSizeWarning as SampleSizeWarning
    from onlinecal.recalibration.groups.maker import GroupRepair as GroupRepair
    from onlinecal.recalibration.groups.recalibrator import GroupRecalibrator as GroupRecalibrator
    from onlinecal.recalibration.lp.recalibrator import LpRecalibrator as LpRecalibrator
    from onlinecal.recalibration.lp.statistics import (
        SampleComplexity as SampleComplexity,
        epsilon_for as epsilon_for,
        lp_sample_complexity as lp_sample_complexity,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
