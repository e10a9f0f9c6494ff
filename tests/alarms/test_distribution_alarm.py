"""The alarm for distributions: exact means over all places of targets, false alarms, delays, directions."""

import itertools
import pickle

import numpy as np
import pytest
from scipy.stats import norm

from onlinecal import CalibrationAlarm
from onlinecal.alarms import DistributionAlarm
from onlinecal.alarms.distribution_alarm import N_BETS, interval_of, ratios_of

THRESHOLDS = np.arange(-2.0, 2.5, 0.5)
CHANGES = {
    "too high": lambda noise: noise - 0.4,
    "too low": lambda noise: noise + 0.4,
    "too narrow": lambda noise: 1.5 * noise,
    "too wide": lambda noise: 0.6 * noise,
}


def stream(seed, rounds, change=None, begin=0):
    """Chances of normal targets around centres that vary, and targets with other noise from a round on."""
    rng = np.random.default_rng(seed)
    centres, noise = rng.uniform(-1, 1, rounds), rng.standard_normal(rounds)
    if change is not None:
        noise[begin:] = change(noise[begin:])
    for centre, y in zip(centres, centres + noise, strict=True):
        yield dict(zip(THRESHOLDS.tolist(), norm.cdf(THRESHOLDS - centre).tolist(), strict=True)), float(y)


@pytest.mark.parametrize("chances", [[0.3], [0.1, 0.1, 0.8], [0.0, 0.5, 1.0], [1e-12, 0.4, 0.4 + 1e-9]])
def test_the_mean_of_every_factor_is_one(chances):
    ends = [0.0, *chances, 1.0]
    mean = sum((v - u) * ratios_of(u, v) for u, v in itertools.pairwise(ends))
    assert mean == pytest.approx(np.ones(N_BETS), rel=1e-12)


def test_means_over_all_places_are_those_of_the_theorem():
    total = 0.0
    for places in itertools.product(range(3), repeat=5):
        alarm, chance = DistributionAlarm(1e-9), 1.0
        for t, place in enumerate(places):
            # chances that depend on the targets before
            said = [{0: 0.3, 1: 0.4}, {0: 0.05, 1: 0.9}, {0: 0.0, 1: 0.5}][sum(places[:t]) % 3]
            chance *= np.diff([0.0, *said.values(), 1.0])[place]
            if chance == 0.0:
                break
            alarm.update(said, float(place))
        total += chance * alarm.statistic if chance else 0.0
    assert total == pytest.approx(5.0, rel=1e-12)


@pytest.mark.parametrize("kind", CHANGES)
def test_changes_are_found_soon_and_named(kind):
    delays, named, beginnings = [], 0, []
    for seed in range(12):
        alarm = DistributionAlarm()
        for t, (said, y) in enumerate(stream(seed, 1_200, CHANGES[kind], 400)):
            alarm.update(said, y)
            if alarm.drift_detected and t >= 400:
                break
        delays.append(t - 400)
        named += alarm.direction == kind
        beginnings.append(alarm.change_point)
    assert np.mean(delays) < 200
    assert named >= 10
    assert abs(np.median(beginnings) - 400) < 50


def test_after_an_alarm_it_begins_anew_and_copies_go_on_alike():
    alarm = DistributionAlarm(0.01)
    assert alarm.change_point is None
    for said, y in stream(0, 300, CHANGES["too narrow"]):
        before = alarm.drift_detected
        alarm.update(said, y)
        assert alarm.drift_detected == (alarm.statistic >= 100.0)
        if before:
            fresh = DistributionAlarm(0.01)
            fresh.update(said, y)
            assert alarm.statistic == fresh.statistic
            assert alarm.change_point == alarm.n_rounds - 1
    assert alarm.n_alarms > 1
    copy = pickle.loads(pickle.dumps(alarm))
    for each in (alarm, copy):
        each.update({0.0: 0.2}, 1.0)
    assert copy.statistic == alarm.statistic


@pytest.mark.parametrize(
    ("chances", "y", "message"),
    [
        ({}, 0.0, "chances must have at least one threshold"),
        ({0.0: 0.5, 1.0: 0.4}, 0.0, "chances must not decrease, got 0.4 at 1.0 after 0.5"),
        ({1.0: 0.5, 0.0: 0.6}, 0.0, "thresholds must increase, got 0.0 after 1.0"),
    ],
)
def test_what_is_no_distribution_is_refused(chances, y, message):
    alarm = DistributionAlarm()
    with pytest.raises(ValueError, match=message):
        alarm.update(chances, y)
    assert alarm.n_rounds == alarm.statistic == 0


@pytest.mark.parametrize("kind", [CalibrationAlarm, DistributionAlarm])
def test_a_rate_of_false_alarms_is_between_zero_and_one(kind):
    for alpha in (0.0, 1.0):
        with pytest.raises(ValueError, match=f"alpha must be .* got {alpha}"):
            kind(alpha)


def test_a_target_at_a_threshold_is_at_most_it():
    said = {0.0: 0.25, 1.0: 0.75}
    assert [interval_of(said, y) for y in (-1, 0, 0.5, 1, 2)] == [
        (0.0, 0.25), (0.0, 0.25), (0.25, 0.75), (0.25, 0.75), (0.75, 1.0),
    ]  # fmt: skip
