"""Rounds from a change to the alarm, against river's drift detectors at equal false alarm rate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from river import drift

from onlinecal import CalibrationAlarm

ALPHA, BEFORE, STREAMS, LONGEST = 1e-3, 300, 100, 12_000


def slope(p, power):
    return p**power / (p**power + (1.0 - p) ** power)


CHANGES = {
    "shift of .02": lambda p: np.minimum(p + 0.02, 1.0),
    "shift of .05": lambda p: np.minimum(p + 0.05, 1.0),
    "shift of .1": lambda p: np.minimum(p + 0.1, 1.0),
    "temperature 2": lambda p: slope(p, 0.5),
    "temperature .7": lambda p: slope(p, 1 / 0.7),
    "one eighth, by .15": lambda p: np.where((p >= 0.75) & (p < 0.875), p - 0.15, p),
}


def first_alarm(detector, values) -> int:
    """The round of the first alarm, from 1 on; LONGEST if there is none."""
    for t, value in enumerate(values):
        detector.update(value)
        if detector.drift_detected:
            return t + 1
    return LONGEST


def ours(_: float) -> Callable:
    def run(p, y):
        found = CalibrationAlarm(ALPHA).update_many(p, y)
        return int(found[0]) + 1 if len(found) else LONGEST

    return run


def on_residuals(make) -> Callable:
    return lambda threshold: lambda p, y: first_alarm(make(threshold), (y - p).tolist())


DETECTORS = {
    "CalibrationAlarm": (ours, None),
    "ADWIN": (on_residuals(lambda h: drift.ADWIN(delta=np.exp(-h), clock=1)), (0.1, 40.0)),
    "PageHinkley": (on_residuals(lambda h: drift.PageHinkley(threshold=h)), (2.0, 100.0)),
    "DDM": (
        lambda h: (
            lambda p, y: first_alarm(drift.binary.DDM(drift_threshold=h), ((p >= 0.5) != (y > 0.5)).tolist())
        ),
        (0.5, 20.0),
    ),
}


def streams(number, change, rounds):
    for seed in range(number):
        rng = np.random.default_rng(seed)
        p = rng.random(rounds)
        means = p if change is None else np.where(np.arange(rounds) < BEFORE, p, change(p))
        yield p, (rng.random(rounds) < means).astype(float)


def mean_wait(run) -> float:
    return float(np.mean([run(p, y) for p, y in streams(STREAMS, None, LONGEST)]))


def tuned(make, ends, target):
    """The threshold with that mean time to a false alarm, by bisection of its logarithm."""
    low, high = np.log(ends)
    for _ in range(9):
        middle = (low + high) / 2.0
        low, high = (middle, high) if mean_wait(make(np.exp(middle))) < target else (low, middle)
    return float(np.exp((low + high) / 2.0))


def test_delays_are_first_or_second_at_equal_false_alarm_rate(note):
    waits = mean_wait(ours(0.0))
    assert waits >= 1.0 / ALPHA
    runs = {}
    for name, (make, ends) in DETECTORS.items():
        runs[name] = make(0.0 if ends is None else tuned(make, ends, waits))
    note("| change | " + " | ".join(runs) + " |")
    note("| none | " + " | ".join(f"{mean_wait(run):,.0f}" for run in runs.values()) + " |")
    for kind, change in CHANGES.items():
        delays = {}
        for name, run in runs.items():
            alarms = [run(p, y) for p, y in streams(STREAMS, change, LONGEST)]
            delays[name] = float(np.mean([t - BEFORE for t in alarms if t > BEFORE]))
        note(f"| {kind} | " + " | ".join(f"{delay:,.0f}" for delay in delays.values()) + " |")
        assert sorted(delays.values()).index(delays["CalibrationAlarm"]) <= 1, kind
