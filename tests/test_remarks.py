"""Columns that can be read but are hardly meant so are remarked on: in Python, and by every verb."""

import json
import warnings
from functools import partial

import numpy as np
import polars as pl
import pytest
from river import linear_model
from sklearn.linear_model import LinearRegression

from onlinecal import (
    BoostedRecalibrator,
    CalibratedClassifier,
    DecisionCalibratedClassifier,
    DecisionRecalibrator,
    GroupCalibratedClassifier,
    GroupRecalibrator,
    LabelWarning,
    LpRecalibrator,
    PlattScaling,
)
from onlinecal.recalibration import TemperatureScaling
from onlinecal.remarks import agreement, certain_remarks, constant_remarks, label_remarks, outcome_remarks
from tests.commands import run
from tests.estimators import learn

N, K = 600, 10
RNG = np.random.default_rng(0)
ROWS = RNG.dirichlet(np.full(K, 0.15), N)
LABELS = (RNG.random((N, 1)) > ROWS.cumsum(axis=1)).sum(axis=1).clip(0, K - 1)
"""Honest probabilities of ten classes, right about six times in ten, and labels."""
P = RNG.beta(0.3, 2.0, N)
Y = (RNG.random(N) < P).astype(np.uint8)
"""Honest forecasts of a rare event and its outcomes."""
THREE = RNG.dirichlet(np.full(3, 0.15), 150)
OF_THREE = (RNG.random((150, 1)) > THREE.cumsum(axis=1)).sum(axis=1).clip(0, 2)
"""The same of three classes, for what is measured of them takes long."""
pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")


def test_what_is_hardly_meant_so_is_remarked_on_and_honest_columns_are_passed_over():
    assert label_remarks(ROWS, LABELS) == outcome_remarks(Y, P, "won", "p") == []
    # zeros and ones are no column of ten classes
    missing, *rest = label_remarks(ROWS, (ROWS.argmax(axis=1) == LABELS).astype(int), None, "'hit'")
    assert missing.startswith("8 of the 10 classes (2, 3, 4, 5, 6, ...) never come in 'hit'")
    assert "(0 and 1 are read as class numbers)" in missing
    assert all("less than by chance" in text for text in rest)
    # columns in another order, and labels off by one, are worse than chance
    for rows, labels in ((np.roll(ROWS, 1, axis=1), LABELS), (ROWS, (LABELS + 1) % K)):
        (text,) = label_remarks(rows, labels)
        assert "less than by chance" in text
        assert "in the order of the classes" in text
    (text,) = outcome_remarks(1 - Y, P, "lost", "p")
    assert text.startswith("p is on the right side of 1/2 in ")
    assert "is lost what was forecast, or its opposite?" in text
    (text,) = outcome_remarks(0 * Y, P * 0.1, "won", "p")
    assert text == "won is 0 in all 600 rounds: is it the column of outcomes?"


def test_ties_are_shared_so_that_saying_nothing_is_exactly_chance():
    labels = np.array([0, 0, 0, 1])
    assert agreement(np.full((4, 2), 0.5), np.bincount(labels), labels) == (0.5, 0.5)
    # the agreement of independent columns: .75 * .75 + .25 * .25
    rows = np.array([[0.9, 0.1]] * 3 + [[0.2, 0.8]])
    assert agreement(rows, np.bincount(labels), labels) == (1.0, 0.625)


@pytest.mark.parametrize(
    ("fit", "right", "wrong", "words"),
    [
        *(
            (partial(kind.fit, ROWS), LABELS, LABELS % 2, "8 of the 10 classes .* never come in y")
            for kind in (TemperatureScaling(), DecisionRecalibrator(), LpRecalibrator(n_levels=2))
        ),
        (lambda y: GroupRecalibrator().fit(P, y, np.ones((N, 1), bool)), Y, 1 - Y, "or its opposite"),
        (
            partial(BoostedRecalibrator(LinearRegression(), cv=2).fit, P[:60, None]),
            Y[:60],
            0 * Y[:60] + 1,
            "y is 1 in all 60 rounds",
        ),
    ],
)
def test_recalibrators_warn_when_they_are_fitted(fit, right, wrong, words):
    with pytest.warns(LabelWarning, match=words) as caught:
        fit(wrong)
    assert next(one for one in caught if one.category is LabelWarning).filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", LabelWarning)
        fit(right)


OPPOSITE, ORDER = "lost what was forecast, or its opposite?", "in the order of the classes"
VERBS = [
    (
        "recalibrate {}/classes.csv --method lp --set n_levels=2 --label hit",
        "(c2, c3, c4, c5, c6, ...) never",
    ),
    ("recalibrate {}/events.csv --method groups --group hit --forecast p --outcome lost", OPPOSITE),
    ("measure {}/events.csv --forecast p --outcome lost", OPPOSITE),
    ("measure {}/events.csv --forecast p --outcome won", None),
    ("evaluate {}/events.csv --forecast p --outcome lost", OPPOSITE),
    ("simulate --adversary file:path=[{}/events.csv],outcome=lost,forecast=p", OPPOSITE),
    ("simulate --adversary file:path=[{}/classes.npz] --forecaster uniform", ORDER),
]


@pytest.mark.parametrize(("line", "words"), VERBS)
def test_verbs_remark_on_stderr_and_in_their_json(tmp_path, line, words):
    hit = {"hit": LABELS % 2}
    pl.DataFrame({f"p_c{c}": ROWS[:, c] for c in range(K)} | hit).write_csv(tmp_path / "classes.csv")
    events = pl.DataFrame({"p": P, "won": Y, "lost": 1 - Y} | hit)
    events.head(N // 2).write_csv(tmp_path / "events.csv")
    np.savez(tmp_path / "classes.npz", predictions=np.roll(THREE, 1, axis=1), ground_truth=OF_THREE)
    answer = run(*line.replace("{}", str(tmp_path)).split(), "--json")
    assert answer.exit_code == 0, answer.stderr
    remarks = json.loads(answer.stdout)["warnings"]
    if words is None:
        assert not any(word in answer.stderr + str(remarks) for word in ("never come", "chance", "opposite"))
    else:
        assert answer.stderr.startswith("onlinecal: warning: ")
        assert sum(words in one for one in answer.stderr.splitlines()) == 1
        assert sum(words in text for text in remarks) == 1


@pytest.mark.parametrize(
    "wrap",
    [
        CalibratedClassifier,
        PlattScaling,
        partial(GroupCalibratedClassifier, groups=["a"]),
        partial(DecisionCalibratedClassifier, first_fit=20),
    ],
)
def test_a_model_that_names_no_label_is_warned_of_once(wrap):
    words = "labels False, True, and none of them has come; those that have are '1', '0'"
    with pytest.warns(LabelWarning) as caught:
        learn(wrap(linear_model.LogisticRegression()), [({"a": t % 2}, "10"[t % 2]) for t in range(20)])
    assert len([one for one in caught if words in str(one.message)]) == 1


def test_class_numbers_from_one_are_refused_with_a_guess():
    for labels, words in (
        ([1, 2, 3, 1], r"got 3 at row 2: are they counted from 1\?"),
        ([0, 2, 3, 1], "row 2$"),
    ):
        with pytest.raises(ValueError, match=words):
            TemperatureScaling().fit(np.full((4, 3), 1 / 3), labels)


@pytest.mark.parametrize("numbers", [1, 4])
def test_what_learning_a_constant_costs_is_no_reason_for_a_remark(numbers):
    """Each of its numbers costs about log(T)/2 in all."""
    cost = numbers * np.log(101) / 200
    for share, told in ((0.95, 0), (1.05, 1)):
        worse = {"Brier score": 0.25 * 1.001 + share * cost}
        assert len(constant_remarks("p", 100, worse, {"Brier score": 0.25}, numbers)) == told


def test_certain_forecasts_that_were_wrong_are_counted_with_what_each_costs():
    p, y = np.array([0.0, 1.0, 1.0, 0.5, 0.0]), np.array([0, 1, 0, 1, 1])
    [told] = certain_remarks(y, p, "p")
    assert told.startswith("p is exactly 0 or 1, and wrong, in 2 of 5 rounds")
    assert f"{-np.log(1e-15):.1f}" in told
    assert certain_remarks(y[[0, 1, 3]], p[[0, 1, 3]]) == []
