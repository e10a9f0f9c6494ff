"""Distance to calibration: exact, in a bracket, from below, and for several classes."""

from onlinecal.lazy import lazy_names

# pickles of 0.1.0 look for it here
__getattr__, __dir__ = lazy_names(__name__, {"CalibrationDistance": ".calibration_distance"})
