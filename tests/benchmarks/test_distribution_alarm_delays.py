"""Rounds to an alarm for distributions: of what is not calibrated, and of what has changed."""

from bisect import bisect_left, bisect_right, insort

import numpy as np

from onlinecal.alarms import DistributionAlarm
from onlinecal.alarms.distribution_alarm import interval_of
from tests.alarms.test_distribution_alarm import stream

ALPHA, BEFORE, STREAMS, LONGEST, BINS = 1e-3, 300, 40, 4_000, 10


class RankAlarm:
    """The idea of PITMonitor (Farran 2026) as a detector with as many false alarms.

    Each PIT, drawn at random between its chances, is ranked among those before. While PITs can be exchanged,
    calibrated or not, ranks are independent and uniform; bets on them follow a histogram of the ranks so far.
    """

    def __init__(self, seed):
        self.rng, self.values, self.counts = np.random.default_rng(seed), [], np.ones(BINS)
        self.statistic, self.drift_detected = 0.0, False

    def update(self, chances, y):
        low, high = interval_of(chances, y)
        value = low + self.rng.random() * (high - low)
        below = bisect_left(self.values, value)
        same = bisect_right(self.values, value) - below + 1
        rank = (below + self.rng.random() * same) / (len(self.values) + 1)
        insort(self.values, value)
        place = min(int(rank * BINS), BINS - 1)
        ratio = BINS * self.counts[place] / self.counts.sum()
        self.counts[place] += 1
        self.statistic = (self.statistic + 1.0) * ratio
        self.drift_detected = self.statistic >= 1.0 / ALPHA


KINDS = {
    "none, calibrated": (None, 0),
    "none, too narrow by 1.3 from the first round": (lambda noise: 1.3 * noise, 0),
    "higher by .2": (lambda noise: noise + 0.2, BEFORE),
    "higher by .5": (lambda noise: noise + 0.5, BEFORE),
    "wider by 1.3": (lambda noise: 1.3 * noise, BEFORE),
    "narrower by .7": (lambda noise: 0.7 * noise, BEFORE),
}


def first_alarm(alarm, rounds):
    for t, (said, y) in enumerate(rounds):
        alarm.update(said, y)
        if alarm.drift_detected:
            return t
    return LONGEST


def test_delays_beside_an_alarm_on_changes_alone(note):
    note(f"| change in round {BEFORE} | DistributionAlarm | ranks: changes alone |")
    for name, (change, begin) in KINDS.items():
        row = []
        for make in (lambda seed: DistributionAlarm(ALPHA), RankAlarm):
            found = [first_alarm(make(seed), stream(seed, LONGEST, change, begin)) for seed in range(STREAMS)]
            waits = [t - begin for t in found if t >= begin]
            missed = sum(t == LONGEST for t in found)
            row.append(f"{np.mean(waits):,.0f}" + (f" ({missed} of {STREAMS} without)" if missed else ""))
            if change is None:
                # proven of the mean; that of so many streams may be three standard errors less
                assert np.mean(waits) + 3.0 * np.std(waits) / STREAMS**0.5 >= 1.0 / ALPHA
        note(f"| {name} | {row[0]} | {row[1]} |")
