"""Buckets of hints: what Theorem 17b of docs/theory.md promises where they split, and that books go on."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import AlmostOneStepAhead
from onlinecal.adversaries import misleading_hints
from onlinecal.steering.replaying import Schedule
from onlinecal.wrappers.strategies import buckets, projection
from onlinecal.wrappers.strategies.buckets import SplittingBuckets
from onlinecal.wrappers.strategies.projection import Projection
from onlinecal.wrappers.strategies.windows import Recent, WindowMoments
from tests.parts import part_of


class Buckets:
    """Theorem 17b as it is stated: a forecaster a bucket, of distance at most G sqrt(n), and given hints."""

    def __init__(self, patience, **settings):
        self.splitting, self.settings, self.tables = SplittingBuckets(patience, 4), settings, []
        self.add()

    def add(self):
        self.tables.append(AlmostOneStepAhead(**self.settings, hints=True))

    def play(self, hint, outcome_of):
        """The forecast for a hint, and the outcome it got."""
        place = self.splitting.find(hint)
        token = self.tables[place].forecast(hint)
        y = outcome_of(token.probability, hint)
        self.tables[place].observe(token, y)
        if self.splitting.note(place, 1):
            self.splitting.halve(place)
            self.add()
            self.add()
        return token.probability, y


def bound(rounds, patience, G):
    """How far above the hints' the Brier score may be."""
    T = np.asarray(rounds, dtype=float)
    return (0.61 * patience ** (1 / 3) + 3.36 * G * patience ** (-1 / 6)) * T ** (2 / 3) + 2 * G * np.sqrt(T)


OUTCOMES = {
    "coins": lambda rng: lambda p, hint: int(rng.random() < hint),
    # the outcome that costs the forecast more than the hint
    "fight": lambda rng: lambda p, hint: int((1 - p) ** 2 - (1 - hint) ** 2 > p**2 - hint**2),
    "threshold": lambda rng: lambda p, hint: int(p < 0.5),
    "against the hint": lambda rng: lambda p, hint: int(hint < 0.5),
}
HINTS = {
    "any": lambda rng, n: rng.random(n),
    "few": lambda rng, n: rng.choice([0.1, 0.3, 0.31, 0.9], n),
    "one": lambda rng, n: np.full(n, 0.5),
    "crowded": lambda rng, n: 0.6 + 0.4 * rng.random(n) ** 6,
    "misleading": lambda rng, n: misleading_hints(n, math.isqrt(n - 1) + 1).hints,
}
SETTINGS = {
    # G, and the forecasters that it belongs to
    "midpoint": (math.sqrt(3), {"slack": 0.5, "report": "midpoint"}),
    "wrapper": (2 * math.sqrt(3), {"slack": 1.0, "report": "hint"}),
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("hinted", HINTS)
@pytest.mark.parametrize("answers", OUTCOMES)
def test_the_brier_score_is_near_that_of_any_hints_on_any_outcomes(answers, hinted, setting):
    n, rng = 2000, np.random.default_rng(5)
    G, settings = SETTINGS[setting]
    patience = round(8 * G**2)
    hints = HINTS[hinted](rng, n)
    buckets, answer = Buckets(patience, **settings), OUTCOMES[answers](rng)
    p, y = np.array([buckets.play(hint, answer) for hint in hints.tolist()]).T
    rounds = np.arange(1, n + 1)
    regret = np.cumsum((p - y) ** 2 - (hints - y) ** 2)
    proved = bound(rounds, patience, G)
    assert (regret <= proved).all()
    assert (proved <= 3.6 * G ** (2 / 3) * rounds ** (2 / 3) + 2 * G * np.sqrt(rounds)).all()
    values = len(np.unique(hints))
    if values < 10:
        assert regret[-1] <= (math.sqrt(3 * patience) / 2 + 4 * G) * math.sqrt(values * n)
    # what is really paid: widths, and twice the certificates
    used = [(place, table.n_rounds) for place, table in enumerate(buckets.tables)]
    limits = buckets.splitting.limits
    widths = sum(count * math.sqrt(patience / limits[place]) for place, count in used)
    paid = widths / 2 + 2 * sum(table.certificate for table in buckets.tables)
    assert regret[-1] <= paid <= proved[-1]


@given(
    patience=st.integers(1, 40),
    hints=st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.25, 0.5, 1.0])), max_size=400),
)
@settings(deadline=None)
def test_the_buckets_in_use_are_a_partition_into_dyadic_intervals(patience, hints):
    buckets, intervals, counts = SplittingBuckets(patience, 4), {0: (0.0, 1.0)}, [0]
    for hint in hints:
        place = buckets.find(hint)
        (expected,) = (at for at, (low, high) in intervals.items() if low <= hint < high or hint == high == 1)
        assert place == expected
        counts[place] += 1
        assert counts[place] <= buckets.limits[place]
        if buckets.note(place, 1):
            buckets.halve(place)
            low, high = intervals.pop(place)
            intervals[len(counts)] = low, (low + high) / 2
            intervals[len(counts) + 1] = (low + high) / 2, high
            counts += [0, 0]
            assert not buckets.note(place, 0)
    for place, (low, high) in intervals.items():
        assert buckets.limits[place] * (high - low) ** 2 == patience
    # the counts of the proof
    a, T = patience, len(hints)
    split = [place for place, half in enumerate(buckets.halves) if half]
    inner = sum(counts[place] for place in split)
    v, u = (1 + 7 * inner / a) ** (1 / 3), (1 + 7 * T / a) ** (1 / 3)
    assert len(intervals) <= v + 1e-9
    assert sum(math.sqrt(counts[place]) for place in split) <= math.sqrt(a) * (v**2 - 1) / 3 + 1e-9
    widths = [math.sqrt(a / limit) for limit in buckets.limits]
    assert np.dot(counts, widths) <= a / 3 * (u**2 - 1) + 1e-9


@pytest.fixture
def impatient(monkeypatch):
    """Buckets that are halved in their first round, wherever their forecasts are then."""
    monkeypatch.setattr(projection, "new_splitting", lambda slack: SplittingBuckets(-1e9, 2))


def test_a_label_that_comes_after_the_split_is_charged_to_the_bucket_of_its_forecast(impatient):
    part = Projection(1.0, 1, None, steers=False, splits=True)

    def settle(ticket):
        part.present(ticket)
        part.settle(1)

    early = [(part.ask(0.5), part.ticket())[1] for _ in range(6)]
    settle(early[0])
    part.ask(0.5)
    assert (len(part.tables), part.ticket().bucket in {1, 2}) == (3, True)
    part.note_late(5)
    for ticket in early[1:]:
        settle(ticket)
    assert (len(part.tables), part.tables[0].n_rounds) == (3, 6)
    assert part.certificate <= part.guarantee


def test_buckets_that_come_later_know_of_late_labels(impatient):
    part = Projection(1.0, 1, None, steers=False, splits=True)
    part.note_late(7)
    for y in [0, 1] * 10:
        part.ask(0.5)
        part.settle(y)
    assert len(part.tables) > 1
    for late in (7, 9):
        part.note_late(late)
        for table in part.tables:
            promised = table._promise(100)
            table._note_late(late)
            assert table._promise(100) == promised
    for table in part.tables:
        promised = table._promise(100)
        table._note_late(10)
        assert table._promise(100) > promised


def test_a_replay_goes_on_in_the_buckets_that_are_there(impatient):
    part, again = (Projection(1.0, 1, None, steers=False, splits=True) for _ in range(2))
    hints, outcomes, t = np.linspace(0.1, 0.9, 40), np.arange(40) % 2, np.arange(40)
    for each in (part, again):
        for hint, y in zip(hints.tolist(), outcomes.tolist(), strict=True):
            each.ask(hint)
            each.settle(y)
        # as late labels of the first bucket may have it, whose forecasts were better than their hints
        each._splitting.limits[0], each._splitting.noted[0] = 1e9, 0.0
    assert len(part.tables) > 1
    said = []
    for hint, y in zip(hints.tolist(), outcomes.tolist(), strict=True):
        said.append(part.ask(hint))
        part.settle(y)
    tapes = again.replay(hints, outcomes == 1, Schedule(t, t + 1, np.ones(40, bool)))
    assert tapes.forecasts.tolist() == said
    assert again.certificate == part.certificate


def test_a_bucket_is_halved_once_forecasts_are_behind_by_the_theorems_tau():
    part = Projection(1.5, 1, None, steers=False, splits=True)
    a = buckets.FIRST_HALVED * 1.5
    assert part_of(part, SplittingBuckets).limits == [pytest.approx(a / 2 + 4 * math.sqrt(3 * 1.5 * a))]


def test_what_is_noted_of_a_window_leaves_with_its_moments_and_the_most_stays():
    moments = WindowMoments(3)
    recent = Recent(moments)
    for moments.now, amount in ((1, 5.0), (2, 1.0), (4, 2.0)):
        recent.note(amount)
    assert (recent.within(), recent.most) == (3.0, 6.0)
    moments.now = 10
    assert (recent.within(), recent.most) == (0.0, 6.0)


def test_what_is_given_in_place_of_forecasts_is_in_all_bounds():
    moments, rng = WindowMoments(4), np.random.default_rng(0)
    part, away = Projection(None, 2, None, moments), []
    plain = [table.guarantee for table in part.tables], part.window_guarantee
    for moments.now in range(1, 21):
        forecast, given = part.ask(rng.random()), rng.random()
        part.give(given)
        part.settle(int(rng.random() < 0.5))
        away.append(abs(given - forecast))
        own = sum(table.guarantee for table in part.tables)
        assert sum(away) <= part.guarantee - own <= sum(away) + 20 * 2.0**-25
        assert part.certificate <= part.guarantee
        assert part.window_certificate <= part.window_guarantee
    most = max(sum(away[t : t + 4]) for t in range(17))
    assert most <= part.window_guarantee - plain[1] <= most + 4 * 2.0**-25
    moments.now = 21
    before = part.certificate, part.guarantee, part.window_certificate
    part.surprise()
    after = part.certificate, part.guarantee, part.window_certificate
    assert np.subtract(after, before) == pytest.approx([1.0, 1.0, 1.0])
    assert part.promise(7) == 2 * part.tables[0]._promise(4)
