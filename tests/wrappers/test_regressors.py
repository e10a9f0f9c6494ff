"""Wrapped regressors: certificates in the target's units, thresholds in order, late targets, skill."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import base, compose, conf, linear_model, naive_bayes, preprocessing

from onlinecal import CalibratedDistribution, CalibratedRegressor, calibration_distance
from tests.properties import examples, inside
from tests.wrappers.scripted import in_rounds


class Said(base.Regressor):
    """Answers with the number that the features carry under "p"."""

    def learn_one(self, x, y):
        pass

    def predict_one(self, x):
        return x["p"]


def played(model, rounds, late=0):
    """What a model answers if each target comes when `late` more have been asked about."""
    ask = getattr(model, "predict_distribution_one", model.predict_one)
    return list(in_rounds(model, rounds, ask, late))


LOW, HIGH = -20.0, 60.0
quarters = st.sampled_from([-20.0, 0.0, 20.0, 40.0, 60.0])
rounds_of_quarters = st.lists(st.tuples(st.floats(-50, 90), quarters), min_size=1, max_size=50).map(
    lambda pairs: [({"p": p, "t": t}, y) for t, (p, y) in enumerate(pairs)]
)


@settings(max_examples=examples(60), deadline=None)
@given(
    rounds_of_quarters,
    st.sampled_from([0, 1, 7]),
    st.sampled_from([0.5, 1.0, 3.0]),
    st.sampled_from([None, 50]),
)
def test_every_sequence_of_targets_at_every_delay_is_within_certificate_and_guarantee(
    rounds, late, slack, horizon
):
    model = CalibratedRegressor(Said(), LOW, HIGH, slack=slack, horizon=horizon)
    answers = np.array(played(model, rounds, late))
    assert ((answers >= LOW) & (answers <= HIGH)).all()
    p, y = (answers - LOW) / (HIGH - LOW), (np.array([y for _, y in rounds]) - LOW) / (HIGH - LOW)
    lower = calibration_distance(inside(p), y, budget=0.05).lower * (HIGH - LOW)
    assert lower <= model.certificate + 1e-6 <= model.guarantee + 2e-6
    assert (model.n_rounds, model.n_open) == (len(rounds), 0)


THRESHOLDS = [-10.0, 0.0, 10.0, 39.0]


@settings(max_examples=examples(60), deadline=None)
@given(rounds_of_quarters, st.sampled_from([0, 1, 7]), st.sampled_from([0.5, 1.0]))
def test_thresholds_are_in_order_and_each_is_within_its_certificate(rounds, late, slack):
    model = CalibratedDistribution(Said(), THRESHOLDS, slack=slack, window=10)
    answers = played(model, rounds, late)
    table = np.array([list(answer.values()) for answer in answers])
    assert (np.diff(table, axis=1) >= 0).all()
    assert all(list(answer) == THRESHOLDS for answer in answers)
    for i, threshold in enumerate(THRESHOLDS):
        events = [y <= threshold for _, y in rounds]
        lower = calibration_distance(table[:, i], events, budget=0.05).lower
        assert lower <= model.certificates[threshold] + 1e-9
        own = model.certificates[threshold] - model.moved[threshold]
        assert own <= model.guarantees[threshold] + 1e-9
    assert model.n_open == 0


def test_forecasts_of_one_s_own_thresholds_can_be_out_of_order_and_then_moving_is_counted():
    # the event of the lower threshold is forecast from its biases alone once the model's errors have changed
    rng = np.random.default_rng(0)
    model = CalibratedDistribution(Said(), [0.0, 0.001], slack=0.5, window=5)
    rounds = [({"p": 0.0, "t": t}, float(rng.normal(0, 1) if t % 40 < 20 else 0.0005)) for t in range(600)]
    played(model, rounds)
    assert sum(model.moved.values()) > 0.0
    for threshold, moved in model.moved.items():
        assert model.certificates[threshold] >= moved


def test_quantiles_are_read_off_the_probabilities():
    model = CalibratedDistribution(Said(), [1, 2, 3])
    rng = np.random.default_rng(1)
    played(model, [({"p": 2.0, "t": t}, float(rng.choice([0.5, 1.5, 2.5, 3.5]))) for t in range(2000)])
    x = {"p": 2.0}
    chances = model.predict_distribution_one(x)
    assert chances == pytest.approx({1: 0.25, 2: 0.5, 3: 0.75}, abs=0.1)
    assert model.quantile_one(x, 0.4) == 2
    assert model.quantile_one(x, 0.95) == np.inf
    with pytest.raises(ValueError, match=r"level must be a number between 0 and 1, got 1\.0"):
        model.quantile_one(x, 1.0)


def test_skill_is_kept_and_a_model_that_is_off_is_put_right():
    rng, rounds = np.random.default_rng(2), []
    for t, (a, b, noise) in enumerate(rng.normal(size=(2000, 3)).tolist()):
        mean = 1 / (1 + np.exp(-a + 0.5 * b - np.sign(np.sin(t / 300))))
        rounds.append(({"a": a, "b": b}, float(np.clip(mean + 0.1 * noise, 0, 1))))
    y = np.array([y for _, y in rounds])
    linear = preprocessing.StandardScaler() | linear_model.LinearRegression(intercept_lr=0.1)
    answers, plain = played(CalibratedRegressor(linear.clone()), rounds), played(linear, rounds)
    assert np.mean((answers - y) ** 2) <= 1.05**2 * np.mean((np.clip(plain, 0, 1) - y) ** 2)
    off = [({"p": min(y + 0.4, 1.0)}, y) for _, y in rounds]
    assert np.mean(played(CalibratedRegressor(Said()), off) - y) < 0.05


def promises_of(model):
    return model.guarantees if isinstance(model, CalibratedDistribution) else model.guarantee


@pytest.mark.filterwarnings("ignore:a label came for features:onlinecal.LabelWarning")
@pytest.mark.parametrize(
    "model",
    [
        CalibratedRegressor(Said(), horizon=200, most_waiting=10),
        CalibratedDistribution(Said(), [0.2, 0.5], horizon=200, most_waiting=10),
    ],
)
def test_targets_whose_forecasts_were_given_up_settle_nothing(model):
    played(model, [({"p": t / 50, "t": t}, 0.5) for t in range(50)], late=50)
    assert (model.n_rounds, model.n_unmatched) == (11, 39)
    promised = promises_of(model)
    played(model, [({"p": t / 50, "t": t}, 0.5) for t in range(50, 80)])
    # more open forecasts than ever would cost the guarantee something
    assert promises_of(model) == promised


OF_A_MEAN = [
    ({"regressor": linear_model.LinearRegression}, "regressor must be a model, got the class"),
    ({"regressor": naive_bayes.GaussianNB()}, "regressor must be a river regressor, got Gauss"),
    ({"regressor": compose.Pipeline()}, "got a pipeline that ends in NoneType"),
    ({"low": 1.0, "high": 1.0}, "low must be below high=1.0, got 1.0"),
    ({"low": 0.0, "high": float("inf")}, "high must be a finite number, got inf"),
    ({"slack": 0.1}, "slack"),
    ({"horizon": 0}, "horizon"),
]
OF_A_DISTRIBUTION = [
    ({"thresholds": []}, r"thresholds must be a sequence of numbers, at least one, got \[\]"),
    ({"thresholds": 3.0}, "thresholds must be a sequence of numbers, as a list, got 3.0"),
    ({"thresholds": [1, 1]}, "thresholds must increase, got 1 at place 1 after 1"),
    ({"thresholds": [1, float("nan")]}, "thresholds at place 1 must be a finite"),
    *(
        ({"thresholds": [q, 1.0]}, "thresholds at place 0 must be a finite number, got")
        for q in (float("nan"), float("-inf"), True, "0", None)
    ),
    *(
        ({"thresholds": bad}, "thresholds must be a sequence of numbers, as a list, got")
        for bad in ({0: 0.2, 1: 0.5}, {0, 1}, "01", np.array(1.0), np.ones((1, 1)), pd.DataFrame({0: [1]}))
    ),
    ({"thresholds": [1], "window": 0}, "window"),
]


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        *((CalibratedRegressor, *case) for case in OF_A_MEAN),
        *((CalibratedDistribution, *case) for case in OF_A_DISTRIBUTION),
    ],
)
def test_wrong_settings_are_named(kind, given, message):
    with pytest.raises(ValueError, match=message):
        kind(**{"regressor": Said(), **given})


@pytest.mark.parametrize(
    "build",
    [
        lambda: CalibratedRegressor(Said(), LOW, HIGH, horizon=50),
        lambda: CalibratedDistribution(Said(), [0.0, 20.0], horizon=50),
    ],
)
def test_a_forecast_that_is_withdrawn_is_open_nowhere(build):
    model = build()
    tokens = [model.forecast({"p": float(t)}) for t in range(3)]
    for token in tokens:
        model.withdraw(token)
    assert model.n_open == 0
    promised = promises_of(model)
    for t in range(3):
        model.forecast({"p": float(t)})
    # that no more are open than were before, the guarantee knows
    assert promises_of(model) == promised
    model.forecast({"p": 3.0})
    assert promises_of(model) != promised


SEQUENCES = {
    "tuple": tuple,
    "numpy": np.array,
    "single precision": lambda values: np.array(values, np.float32),
    "pandas, by labels": lambda values: pd.Series(values, index=[3, 0, 2, 1]),
    "pandas, of quantiles": lambda values: pd.Series(values, index=[0.1, 0.4, 0.5, 0.9]),
    "polars": pl.Series,
    "generator": iter,
    "keys": lambda values: dict.fromkeys(values).keys(),
    "range": lambda values: range(-10, 50, 15),
}


@pytest.mark.parametrize("make", SEQUENCES.values(), ids=SEQUENCES)
def test_thresholds_are_any_sequence_of_numbers_which_is_read_once(make):
    values = [-10, 5, 20, 35]
    rng = np.random.default_rng(0)
    rounds = [
        ({"p": float(p), "t": t}, float(p + 10 * rng.normal())) for t, p in enumerate(rng.normal(size=99))
    ]
    model, wanted = CalibratedDistribution(Said(), make(values)), CalibratedDistribution(Said(), values)
    model = model.clone()
    assert played(model, rounds, late=2) == played(wanted, rounds, late=2)
    assert model.thresholds == wanted.thresholds == (-10, 5, 20, 35)
    assert (model.certificates, model.moved) == (wanted.certificates, wanted.moved)
    assert model.quantile_one({"p": 0.0}, 0.5) == wanted.quantile_one({"p": 0.0}, 0.5)


@pytest.mark.parametrize(
    ("build", "method"),
    [
        (lambda model: CalibratedRegressor(model, -5, 5), "predict_one"),
        (lambda model: CalibratedDistribution(model, [-1, 0, 1]), "predict_distribution_one"),
    ],
)
def test_of_a_model_with_intervals_the_forecast_is_followed(build, method):
    rng, answers = np.random.default_rng(0), []
    rounds = [({"a": float(a)}, float(2 * a + 0.1 * rng.normal())) for a in rng.normal(size=200)]
    for keywords in ({}, {"with_interval": True}):
        model, given = build(conf.RegressionJackknife(linear_model.LinearRegression())), []
        for x, y in rounds:
            given.append(getattr(model, method)(x, **keywords))
            model.learn_one(x, y)
        answers.append(given)
    assert answers[0] == answers[1]


class Answers(base.Regressor):
    """Gives back its keyword `answer`."""

    def learn_one(self, x, y):
        pass

    def predict_one(self, x, answer=None):
        return answer


@pytest.mark.parametrize("build", [CalibratedRegressor, lambda model: CalibratedDistribution(model, [0.5])])
def test_an_answer_that_is_no_number_is_refused_and_opens_no_forecast(build):
    model = build(Answers())
    ask = getattr(model, "predict_distribution_one", model.predict_one)
    for answer in ("0.3", (0.2, 0.4), {0: 0.3}, [0.3], np.array([0.3])):
        with pytest.raises(
            ValueError, match="regressor must answer with a number, or None while it has none"
        ):
            ask({}, answer=answer)
    assert model.n_open == 0
    for answer in (None, float("nan"), 3, np.float32(0.3), np.array(0.3)):
        ask({}, answer=answer)
    assert model.n_open == 5
