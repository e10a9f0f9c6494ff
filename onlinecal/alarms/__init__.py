"""Alarms: a stream of forecasts and outcomes in; out, when the forecasts are no longer calibrated.

Names are loaded when they are first asked for.

An alarm belongs to one stream, whose rounds `update` and `update_many` take up in their order. Names and
signatures are kept in `tests/corpus/surface.txt`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

# The imports under TYPE_CHECKING are the package's public list; `lazy_names` reads them at run time. Each
# stands as `name as name`, and nothing else may stand there.
if TYPE_CHECKING:
    from onlinecal.alarms.calibration_alarm import CalibrationAlarm as CalibrationAlarm, Finding as Finding
    from onlinecal.alarms.distribution_alarm import DistributionAlarm as DistributionAlarm
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
