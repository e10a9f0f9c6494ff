"""River metrics of calibration: they plug into `river.evaluate` and combine with `+`.

All of them take the answers of a classifier's `predict_proba_one`. `get()` is an average over rounds, so that
streams of different lengths can be compared; the functions in `onlinecal.measures` return sums by default.
Names are loaded when they are first asked for.

A metric owns what it has counted, and shares nothing with another. Names and signatures are kept in
`tests/corpus/surface.txt`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

# The imports under TYPE_CHECKING are the package's public list; `lazy_names` reads them at run time. Each
# stands as `name as name`, and nothing else may stand there.
if TYPE_CHECKING:
    from onlinecal.metrics.probability_metric import (
        Brier as Brier,
        CalibrationDistance as CalibrationDistance,
        CumulativeCalibration as CumulativeCalibration,
        ECE as ECE,
        SmoothCalibration as SmoothCalibration,
        TwoBinCalibration as TwoBinCalibration,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
