"""Smooth maps fitted on Spark: temperature, vector scaling, Dirichlet calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onlinecal.engine.spark.parts import ClassTable, SparkRows

if TYPE_CHECKING:
    from onlinecal.recalibration.probability_recalibrator import ProbabilityRecalibrator


def fit_smooth(model: ProbabilityRecalibrator, rows: ClassTable) -> None:
    """Temperature, vector scaling or Dirichlet calibration of all rows, from those of a sample."""
    from onlinecal.recalibration.classical.dirichlet import MOST_NEWTON_CLASSES, DirichletCalibration
    from onlinecal.recalibration.classical.temperature import (
        TemperatureScaling,
        best_factor,
        logs_of,
        slopes_of,
    )

    n_classes = rows.size[1]

    def temperature() -> float:
        P, y = rows.sample
        return best_factor(rows.slopes, slopes_of(logs_of(P), y, np.ones(len(y))))

    if isinstance(model, TemperatureScaling):
        model.inverse_temperature_, model.fixed_order_ = temperature(), True
        return
    if isinstance(model, DirichletCalibration) and n_classes > MOST_NEWTON_CLASSES:
        raise ValueError(
            f"recalibrator: DirichletCalibration takes at most {MOST_NEWTON_CLASSES} classes on Spark,"
            f" got {n_classes}"
        )
    if isinstance(model, DirichletCalibration) and model.pull:
        model._learn_rows(SparkRows(rows), n_classes, temperature())
        return
    model._learn_rows(SparkRows(rows), n_classes)
