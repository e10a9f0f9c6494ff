"""Columns of several models become one, as the wrapper around the models makes it row by row."""

from collections import deque

import numpy as np
import polars as pl
import pytest
from river import naive_bayes

from onlinecal import (
    AlmostOneStepAhead,
    CombinedClassifier,
    calibration_distance,
    combine_forecasts,
    recalibrate_stream,
)
from onlinecal.adversaries import misleading_hints
from onlinecal.steering.replaying import Schedule
from onlinecal.wrappers.strategies.projection import Projection
from tests import DATA
from tests.estimators import learn
from tests.wrappers.scripted import Scripted

ROWS = 3000
pytestmark = pytest.mark.filterwarnings("ignore:the recalibrated probabilities:onlinecal.LabelWarning")


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def made(name, rows=ROWS, seed=0):
    """Two models' probabilities, shape (T, 2), and outcomes."""
    rng = np.random.default_rng(seed)
    one, other = rng.normal(size=(2, rows))
    columns, place = np.column_stack([sigmoid(2 * one), sigmoid(other)]), np.arange(rows)
    if name == "half way":
        return columns, (rng.random(rows) < sigmoid(1.5 * np.where(place < rows // 2, one, other))).astype(
            int
        )
    if name == "adversarial":
        # the one is right until it has been trusted for long, then says the opposite for as long, and so on
        true = rng.random(rows)
        said = np.where(place // 300 % 2 == 1, 1 - true, true)
        y = (rng.random(rows) < true).astype(int)
        return np.column_stack([said, np.clip(true + rng.normal(0, 0.3, rows), 0, 1)]), y
    if name == "copy":
        return columns[:, [0, 0]], (rng.random(rows) < sigmoid(one)).astype(int)
    return columns, (rng.random(rows) < sigmoid(one + other)).astype(int)


def matches():
    """The public forecasts of NBA games and Elo's ratings, and whether the home team won."""
    games = pl.read_csv(DATA / "nba_games.csv").sort("date", maintain_order=True)
    ratings, found, won = {}, [], games["prob1_outcome"].to_numpy()
    for (home, guest), outcome in zip(games.select("team1", "team2").rows(), won.tolist(), strict=True):
        lead = ratings.get(home, 0.0) - ratings.get(guest, 0.0) + 80.0
        found.append(1 / (1 + 10 ** (-lead / 400)))
        for team, sign in ((home, 1), (guest, -1)):
            ratings[team] = ratings.get(team, 0.0) + sign * 20.0 * (outcome - found[-1])
    return np.column_stack([games["prob1"].to_numpy(), found]), won


def brier(p, y):
    return float(((np.asarray(p) - y) ** 2).mean())


def against_the_best(columns, y, settled_at=None):
    """The Brier score of the combination over that of the best single model, recalibrated."""
    alone = [brier(recalibrate_stream(p, y, settled_at=settled_at).probabilities, y) for p in columns.T]
    return brier(combine_forecasts(columns, y, settled_at=settled_at).probabilities, y) / min(alone)


def test_better_than_the_best_model_on_three_of_four_streams_and_nowhere_half_a_percent_worse():
    streams = [made(name) for name in ("half way", "adversarial", "copy")]
    streams.append(matches() if (DATA / "nba_games.csv").exists() else made("both"))
    quotients = [against_the_best(*stream) for stream in streams]
    assert max(quotients) < 1.005
    assert sum(quotient < 1.0 for quotient in quotients) >= 3
    late = against_the_best(*made("half way"), np.arange(ROWS) + 50)
    assert late < 0.95, "late outcomes leave most of the gain"


class Column(Scripted):
    """Answers True with the probability that the features carry at its place; nothing for NaN."""

    def __init__(self, place):
        self.place = place

    def predict_proba_one(self, x):
        p = x[self.place]
        return {} if p != p else {False: 1 - p, True: p}


def two_columns():
    return CombinedClassifier([Column(0), Column(1)], classes=[False, True])


@pytest.mark.parametrize("at", [np.arange(400), np.arange(400) + 7, np.arange(400) // 50 * 50 + 49])
def test_columns_are_combined_as_row_by_row(at):
    columns, y = made("both", 400)
    columns[::3, 1], columns[5] = np.nan, np.nan
    model = two_columns()
    result = combine_forecasts(columns, y, settled_at=None if at[0] == 0 else at)
    due, certificates, weights = deque(np.argsort(at, kind="stable").tolist()), [], []
    rounds = [{"row": t, 0: a, 1: b} for t, (a, b) in enumerate(columns.tolist())]
    for t, x in enumerate(rounds):
        answer = model.predict_proba_one(x)
        assert answer[True] == result.probabilities[t]
        weights.append(model.weights)
        while due and (at[due[0]] <= t or t == 399):
            row = due.popleft()
            model.learn_one(rounds[row], bool(y[row]))
        certificates.append(model.certificate)
    assert np.array_equal(weights, result.weights)
    assert np.array_equal(certificates, result.certificate)
    assert model.guarantee == result.guarantee


def test_the_report_adds_up():
    columns, y = made("both", 1000)
    columns[:400, 0] = np.nan
    result = combine_forecasts({"late": columns[:, 0], "early": columns[:, 1]}, y)
    report = result.report()
    late = report.models["late"]
    assert (late.n_rounds, report.best in ("late", "early")) == (600, True)
    assert late.brier_in == pytest.approx(brier(columns[400:, 0], y[400:]))
    assert late.brier_out == pytest.approx(brier(result.probabilities[400:], y[400:]))
    assert report.brier_out == pytest.approx(brier(result.probabilities, y))
    assert report.decision_certificate(0.1) == pytest.approx(11 * report.certificate)
    assert (result.certificate <= result.guarantee).all()
    assert np.allclose(result.weights.sum(axis=1), 1.0)
    assert (result.weights[:400, 0] == 0).all()
    assert "at most 0.0015 per row behind the best model" in str(report)


def test_a_model_without_a_settled_row_is_not_the_best():
    columns = {"silent": [*[None] * 9, 0.5], "other": [0.3] * 10}
    report = combine_forecasts(columns, [*[0, 1, 0] * 3, None], missing="later").report()
    assert np.isnan(report.models["silent"].brier_alone)
    assert report.best == "other"


@pytest.mark.parametrize(("late", "bound"), [(0, np.log(20) / 2), (1, 25.17), (6, 115.25), (7, 118.37)])
def test_the_bound_on_the_regret_is_that_of_theorem_17g(late, bound):
    columns, y = made("both", 300)
    report = combine_forecasts(columns, y, settled_at=np.arange(300) + late).report()
    # a tenth of the weight is shared by the models
    assert report.regret_bound == pytest.approx(bound, abs=0.01)


def test_forecasts_do_not_change_when_later_rows_are_late():
    columns, y = made("both", 300)
    # what comes of the first 200 rows is in time
    at = np.arange(300) + np.where(np.arange(300) < 200, 0, 40)
    whole = combine_forecasts(columns, y, settled_at=at)
    part = combine_forecasts(columns[:200], y[:200])
    assert np.array_equal(whole.probabilities[:200], part.probabilities)
    assert np.array_equal(whole.weights[:200], part.weights)


def test_whatever_table_it_is():
    columns, y = made("both", 200)
    columns[3, 1] = np.nan
    plain = combine_forecasts(columns, y).probabilities
    listed = [None if p != p else p for p in columns[:, 1].tolist()]
    frame = pl.DataFrame({"one": columns[:, 0], "other": listed})
    pytest.importorskip("pandas")
    for given in (
        frame,
        frame.to_dict(),
        frame.to_pandas(),
        frame.to_arrow(),
        frame.to_dict(as_series=False),
    ):
        result = combine_forecasts(given, pl.Series("won", y))
        assert result.probabilities.equals(pl.Series("won", plain), check_names=True)
        assert result.names == ["one", "other"]


HALVES = [0.5] * 50
BAD = [
    ({"columns": np.zeros((50, 1))}, "columns must be of at least 2 models, got 1"),
    ({"columns": np.zeros(50)}, r"columns must be a mapping, .* got shape \(50,\)"),
    ({"columns": {"a": HALVES, "b": [1.5] * 50}}, "column 'b' must lie in .* got 1.5 at row 0"),
    ({"columns": {"a": HALVES, "b": ["x"] * 50}}, "column 'b' must hold probabilities"),
    ({"columns": {"a": HALVES, "b": [None] * 50}}, "column 'b' has no probability in any of 50 rows"),
    ({"columns": {"a": HALVES, "b": HALVES[1:]}}, "columns 'a' and 'b' must have the same length"),
    ({"outcomes": [0] * 49}, "columns and outcomes must have the same length, got 50 and 49"),
    ({"outcomes": [2] * 50}, "outcomes must be 0/1 or boolean, got 2 at row 0"),
    ({"settled_at": [3] * 50}, "before the forecast itself"),
    ({"slack": 0.1}, "slack must be"),
]


@pytest.mark.parametrize(("changed", "message"), BAD)
def test_bad_input_is_refused_in_words(changed, message):
    with pytest.raises(ValueError, match=message):
        combine_forecasts(**{"columns": np.full((50, 2), 0.5), "outcomes": [0, 1] * 25, **changed})


def test_labels_without_forecasts_teach_whom_to_trust_and_settle_nothing():
    (columns, y), model = made("half way", 600), two_columns()
    for t, (a, b) in enumerate(columns[:200].tolist()):
        model.learn_one({0: a, 1: b}, bool(y[t]))
    assert (model.n_rounds, model.n_unmatched, model.certificate) == (0, 200, 0)
    assert model.weights[0] > 0.8


def test_a_third_label_is_refused_and_nothing_is_learnt():
    model, x = CombinedClassifier([naive_bayes.GaussianNB(), naive_bayes.GaussianNB()]), {"x": 1.0}
    learn(model, [(x, "a"), (x, "b")])
    model.predict_proba_one(x)
    with pytest.raises(ValueError, match=r"y must be one of the two labels .* got 'c'"):
        model.learn_one(x, "c")
    # the first answer was empty, and so no forecast
    assert (model.n_rounds, model.n_open, model.n_unmatched) == (1, 1, 1)


def test_forecasts_are_never_far_behind_their_hints():
    """Theorem 17g, 4; and hints that do not mislead leave one table."""
    stream, slack = misleading_hints(20_000, 141, 1.5), 1.5
    hints, outcomes = stream.hints, stream.outcomes.astype(int)
    buckets, again = (Projection(slack, 1, None, steers=False, splits=True) for _ in range(2))
    said = []
    for hint, y in zip(hints.tolist(), outcomes.tolist(), strict=True):
        said.append(buckets.ask(hint))
        buckets.settle(y)
    ahead = ((np.array(said) - outcomes) ** 2 - (hints - outcomes) ** 2).cumsum()
    t = np.arange(1, len(hints) + 1)
    bound = 8.24 * slack ** (1 / 3) * t ** (2 / 3) + 4 * np.sqrt(3 * slack * t)
    bound += (7 * t / (96 * slack)) ** (1 / 3)
    assert (ahead <= bound).all()
    alone = AlmostOneStepAhead(slack=slack, hints=True).replay(outcomes, hints)
    behind = float(((alone - outcomes) ** 2 - (hints - outcomes) ** 2).sum())
    assert ahead[-1] < behind
    assert behind > 174
    assert len(buckets.tables) > 1
    assert calibration_distance(np.array(said), outcomes).lower <= buckets.certificate + 1e-6
    tapes = again.replay(hints, outcomes == 1, Schedule(t - 1, t, np.ones(len(t), bool)))
    assert np.array_equal(tapes.forecasts, said)
    assert again.certificate == buckets.certificate == tapes.certificates[-1]


def test_answers_over_three_names_count_in_full_while_labels_are_discovered():
    model = CombinedClassifier([Scripted(), Scripted()])
    said = {"answer": ((0, 0.3), (2, 0.6), (True, 0.1))}
    model.learn_one({**said, "t": -1}, 0)
    tokens = [model.forecast({**said, "t": t}) for t in range(3)]
    given = [token.answer[2] for token in tokens]
    for token in tokens:
        model.observe(token, 2)
    assert set(tokens[0].answer) == {0, 1, 2}
    assert calibration_distance(given, [1, 1, 1]).upper <= model.certificate == 3.0 <= model.guarantee
