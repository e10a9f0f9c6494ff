"""The alarm for distributions: exact means over all places of targets, false alarms, delays, directions."""

import itertools
import pickle

import numpy as np
import pandas as pd
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
    chances = norm.cdf(THRESHOLDS - centres[:, None]).tolist()
    for said, y in zip(chances, (centres + noise).tolist(), strict=True):
        yield dict(zip(THRESHOLDS.tolist(), said, strict=True)), y


@pytest.mark.parametrize("chances", [[0.3], [0.1, 0.1, 0.8], [0.0, 0.5, 1.0], [1e-12, 0.4, 0.4 + 1e-9]])
def test_the_mean_of_every_factor_is_one(chances):
    ends = [0.0, *chances, 1.0]
    mean = sum((v - u) * np.array(ratios_of(u, v)) for u, v in itertools.pairwise(ends))
    assert mean == pytest.approx(np.ones(N_BETS), rel=1e-12)


def test_means_over_all_places_are_those_of_the_theorem():
    total = 0.0
    for places in itertools.product(range(3), repeat=5):
        alarm, chance, taken_back = DistributionAlarm(1e-9), 1.0, 0.0
        for t, place in enumerate(places):
            # chances that depend on the targets before
            said = [{0: 0.3, 1: 0.4}, {0: 0.05, 1: 0.9}, {0: 0.0, 1: 0.5}][sum(places[:t]) % 3]
            low, high = interval_of(said, place)
            chance *= high - low
            if chance == 0.0:
                break
            alarm.update(said, float(place))
            taken_back += sum(ratio for ratio in ratios_of(low, high) if abs(ratio - 1.0) < 1e-9) / N_BETS
        total += chance * (alarm.statistic + taken_back)
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
        ({}, 0.0, r"chances must have at least one threshold, got \{\}"),
        ([0.2, 0.5], 0.0, "chances must be a dict of thresholds and their chances, as .*, got"),
        ({0.0: 0.5, 1.0: 0.4}, 0.0, "chances must not decrease, got 0.4 at threshold 1.0 after 0.5: give"),
        ({0.0: 0.5, 1.0: 0.499998}, 0.0, "chances must not decrease, got 0.499998 at threshold 1.0 after"),
        ({0.0: 0.5, 1.0: 1.000002}, 0.0, r"chances must be numbers in \[0, 1\], got 1.000002 at thr"),
        ({0.0: np.nan}, 0.0, r"chances must be numbers in \[0, 1\], got nan at threshold 0.0"),
        ({1.0: 0.5, 0.0: 0.6}, 0.0, "thresholds of chances must increase, got 0.0 at place 1 after 1.0"),
        ({1.0: 0.6, 0.0: 0.5}, 0.0, "thresholds of chances must increase, got 0.0 at place 1 after 1.0"),
        *(
            ({q: 0.5, 1.0: 0.6}, 0.0, "the thresholds of chances at place 0 must be a finite number, got")
            for q in (np.nan, np.inf, -np.inf, True, "0", None)
        ),
        ({0.0: 0.5}, np.nan, "y must be a finite number, got nan"),
    ],
)
def test_what_is_no_distribution_is_refused(chances, y, message):
    alarm = DistributionAlarm()
    with pytest.raises(ValueError, match=message):
        alarm.update(chances, y)
    assert alarm.n_rounds == alarm.statistic == 0


def test_chances_that_miss_their_bounds_by_rounding_are_those_within_them():
    said = {0: -1e-17, 1: 0.3, 2: 0.3 - 1e-16, 3: 0.7, 4: 1.0 + 2e-16, 5: 1.0 - 1e-7}
    assert [interval_of(said, y) for y in range(6)] == [
        (0.0, 0.0), (0.0, 0.3), (0.3, 0.3), (0.3, 0.7), (0.7, 1.0), (1.0, 1.0),
    ]  # fmt: skip
    rows = np.random.default_rng(0).dirichlet(np.ones(5), size=300).cumsum(axis=1)
    assert (rows[:, -1] > 1.0).any()
    alarm = DistributionAlarm()
    for row in rows:
        alarm.update(pd.Series(row), 2)
    assert alarm.n_rounds == 300


def first_alarm(said, targets, alpha):
    """The round of the first alarm, its direction, and since when; None if there is none."""
    alarm = DistributionAlarm(alpha)
    for t in range(round(3 / alpha)):
        alarm.update(said, targets[t % len(targets)])
        if alarm.drift_detected:
            return t, alarm.direction, alarm.change_point
    return None


ZEROS = [
    # chances, which of them is raised by next to nothing, and targets
    ([0.5, 0.5], 1, [0.5]),
    ([0.2, 0.2], 1, [0.5]),
    ([0.2, 0.2, 0.7], 1, [0.5, -1.0, 1.5]),
    ([0.0, 1.0], 0, [-1.0]),
    ([0.0, 1.0], 0, [0.5, -1.0]),
    ([0.0, 0.6], 0, [0.5, 0.5, 2.0, -1.0]),
    ([0.0, 0.0, 0.6], 1, [0.5]),
]


@pytest.mark.parametrize("alpha", [1e-3, 1e-6])
@pytest.mark.parametrize(("chances", "place", "targets"), ZEROS)
@pytest.mark.parametrize("turned", [False, True])
def test_what_was_declared_impossible_is_heard_as_the_least_of_chances(
    chances, place, targets, turned, alpha
):
    nearly = list(chances)
    nearly[place] += 1e-15 if chances[place] else 1e-300
    if turned:  # from above to below; 1 - 1e-300 is 1
        top = len(chances) - 1
        chances, nearly = ([1.0 - p for p in each[::-1]] for each in (chances, nearly))
        targets = [top - y for y in targets]
    found = [first_alarm(dict(enumerate(each)), targets, alpha) for each in (chances, nearly)]
    assert found[0] == found[1] is not None
    if not turned:
        mirrored = dict(enumerate(1.0 - p for p in chances[::-1]))
        there = first_alarm(mirrored, [len(chances) - 1 - y for y in targets], alpha)
        assert there[::2] == found[0][::2]
        opposite = {"too high": "too low", "too low": "too high"}
        assert there[1] == opposite.get(found[0][1], found[0][1])


@pytest.mark.parametrize("alpha", [0.3, 0.05, 1e-3])
@pytest.mark.parametrize(
    "chances", [[0.0, 1.0], [1.0], [0.0], [1e-300, 1.0], [1e-12, 1 - 1e-12], [0.0, 0.0, 1.0, 1.0]]
)
def test_a_cell_that_has_all_chance_is_no_evidence_however_often_it_comes(chances, alpha):
    said, y = dict(enumerate(chances)), int(np.argmax(np.diff([0.0, *chances, 1.0]))) - 0.5
    alarm = DistributionAlarm(alpha)
    for _ in range(round(3 / alpha)):
        alarm.update(said, y)
    assert alarm.n_alarms == alarm.statistic == 0
    assert alarm.change_point is None


def test_honest_distributions_with_cells_of_no_chance_keep_the_rate_of_false_alarms():
    alpha, streams, rounds, waits = 0.05, 40, 500, []
    for seed in range(streams):
        rng, alarm, since = np.random.default_rng(seed), DistributionAlarm(alpha), 0
        counts = rng.multinomial(6, [0.25] * 4, size=rounds)  # an ensemble of six, without some of the cells
        most, members = counts.cumsum(axis=1), rng.integers(6, size=(rounds, 1))
        # the cell of the member that comes true is the first with more of them up to there
        places = (most <= members).sum(axis=1).tolist()
        for t, (chances, place) in enumerate(zip((most / 6).tolist(), places, strict=True)):
            alarm.update(dict(enumerate(chances)), place)
            if alarm.drift_detected:
                waits.append(t + 1 - since)
                since = t + 1
        waits.append(rounds - since)
    # proven of the mean; that of so many may be three standard errors less
    assert np.mean(waits) + 3.0 * np.std(waits) / len(waits) ** 0.5 >= 1.0 / alpha


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
