"""Columns that can be read but are hardly meant so are remarked on: in Python, and by every verb."""

import json
import warnings

import numpy as np
import polars as pl
import pytest
from river import linear_model

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
from onlinecal.remarks import agreement, label_remarks, outcome_remarks
from tests.commands import run
from tests.estimators import learn

N, K = 600, 10
pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")


@pytest.fixture(scope="module")
def table():
    """Honest probabilities of ten classes, right about six times in ten, and labels."""
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(K, 0.15), N)
    labels = (rng.random((N, 1)) > rows.cumsum(axis=1)).sum(axis=1).clip(0, K - 1)
    return rows, labels


@pytest.fixture(scope="module")
def events():
    """Honest forecasts of a rare event and its outcomes."""
    rng = np.random.default_rng(1)
    p = rng.beta(0.3, 2.0, N)
    return p, (rng.random(N) < p).astype(np.uint8)


def test_honest_columns_are_passed_over(table, events):
    p, y = events
    assert label_remarks(*table) == outcome_remarks(y, p, "won", "p") == []


def test_what_is_hardly_meant_so_is_remarked_on(table, events):
    rows, labels = table
    # zeros and ones are no column of ten classes
    missing, *rest = label_remarks(rows, (rows.argmax(axis=1) == labels).astype(int), None, "'hit'")
    assert missing.startswith("8 of the 10 classes (2, 3, 4, 5, 6, ...) never come in 'hit'")
    assert "(0 and 1 are read as class numbers)" in missing
    assert all("less than by chance" in text for text in rest)
    # columns in another order, and labels off by one, are worse than chance
    others = (np.roll(rows, 1, axis=1), labels), (rows[:, ::-1], labels), (rows, (labels + 1) % K)
    for (text,) in (label_remarks(*one) for one in others):
        assert "less than by chance" in text
        assert "in the order of the classes" in text
    p, y = events
    (text,) = outcome_remarks(1 - y, p, "lost", "p")
    assert text.startswith("p is on the right side of 1/2 in ")
    assert "is lost what was forecast, or its opposite?" in text
    (text,) = outcome_remarks(np.zeros(N, np.uint8), p * 0.1, "won", "p")
    assert text == "won is 0 in all 600 rounds: is it the column of outcomes?"


def test_ties_are_shared_so_that_saying_nothing_is_exactly_chance():
    labels = np.array([0, 0, 0, 1])
    assert agreement(np.full((4, 2), 0.5), np.bincount(labels), labels) == (0.5, 0.5)
    # the agreement of independent columns: .75 * .75 + .25 * .25
    rows = np.array([[0.9, 0.1]] * 3 + [[0.2, 0.8]])
    assert agreement(rows, np.bincount(labels), labels) == (1.0, 0.625)


@pytest.mark.parametrize(
    "kind", [TemperatureScaling, DecisionRecalibrator, lambda: LpRecalibrator(n_levels=2)]
)
def test_recalibrators_warn_of_labels_when_they_are_fitted(table, kind):
    rows, labels = table
    with pytest.warns(LabelWarning, match="8 of the 10 classes .* never come in y") as caught:
        kind().fit(rows, labels % 2)
    assert next(one for one in caught if one.category is LabelWarning).filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", LabelWarning)
        kind().fit(rows, labels)


def test_recalibrators_of_one_event_warn_of_outcomes(events):
    p, y = events
    with pytest.warns(LabelWarning, match="is y what was forecast, or its opposite"):
        GroupRecalibrator().fit(p, 1 - y, np.ones((N, 1), bool))
    with pytest.warns(LabelWarning, match="y is 1 in all 600 rounds"):
        BoostedRecalibrator(n_folds=2).fit(p[:, None], np.ones(N))


@pytest.fixture(scope="module")
def files(tmp_path_factory, table, events):
    folder, (rows, labels), (p, y) = tmp_path_factory.mktemp("remarks"), table, events
    columns = {f"p_c{c}": rows[:, c] for c in range(K)}
    pl.DataFrame({**columns, "y": [f"c{c}" for c in labels], "hit": labels % 2}).write_csv(
        folder / "classes.csv"
    )
    pl.DataFrame({"p": p, "won": y, "lost": 1 - y, "sex": np.arange(N) % 2}).write_csv(folder / "events.csv")
    losses = ["action," + ",".join(f"c{c}" for c in range(K)), "go" + ",0" * K, "stay" + ",1,0,0,0,0" * 2]
    (folder / "losses.csv").write_text("\n".join(losses))
    np.savez(folder / "classes.npz", predictions=np.roll(rows, 1, axis=1), ground_truth=labels)
    return folder


OPPOSITE, ORDER = (
    "lost what was forecast, or its opposite?",
    "columns of probabilities in the order of the classes",
)
LP = "recalibrate {}/classes.csv --method lp --set n_levels=2"
VERBS = [
    (f"{LP} --label hit", "(c2, c3, c4, c5, c6, ...) never come"),
    (f"{LP} --label y", None),
    ("recalibrate {}/classes.npz --method decision --losses {}/losses.csv", ORDER),
    ("recalibrate {}/events.csv --method groups --group sex --forecast p --outcome lost", OPPOSITE),
    ("measure {}/events.csv --forecast p --outcome lost", OPPOSITE),
    ("measure {}/events.csv --forecast p --outcome won", None),
    ("evaluate {}/events.csv --forecast p --outcome lost", OPPOSITE),
    ("simulate --adversary file:path=[{}/events.csv],outcome=lost,forecast=p", OPPOSITE),
    ("simulate --adversary file:path=[{}/classes.npz] --forecaster uniform", ORDER),
]


@pytest.mark.parametrize(("line", "words"), VERBS)
def test_verbs_remark_on_stderr_and_in_their_json(files, line, words):
    answer = run(*line.replace("{}", str(files)).split(), "--json")
    assert answer.exit_code == 0, answer.stderr
    remarks = json.loads(answer.stdout)["warnings"]
    if words is None:
        assert not any(word in answer.stderr + str(remarks) for word in ("never come", "chance", "opposite"))
    else:
        assert answer.stderr.startswith("onlinecal: warning: ")
        assert sum(words in one for one in answer.stderr.splitlines()) == 1
        assert sum(words in text for text in remarks) == 1


@pytest.mark.parametrize(
    "wrap", [CalibratedClassifier, PlattScaling, lambda m: GroupCalibratedClassifier(m, ["a"])]
)
def test_a_model_that_names_none_of_the_labels_is_warned_of_once(wrap):
    with pytest.warns(LabelWarning) as caught:
        learn(wrap(linear_model.LogisticRegression()), [({"a": t % 2}, "10"[t % 2]) for t in range(20)])
    (text,) = [str(one.message) for one in caught if one.category is LabelWarning]
    assert "labels False, True, and none of them has come; those that have are '1', '0'" in text


def test_a_wrapper_names_the_labels_as_the_stream_does():
    model = DecisionCalibratedClassifier(linear_model.LogisticRegression(), first_fit=20)
    with pytest.warns(
        LabelWarning, match=r"^2 of the 4 classes \(False, True\) never come in the labels kept"
    ):
        learn(model, [({"a": t % 2}, "10"[t % 2]) for t in range(20)])


def test_class_numbers_from_one_are_refused_with_a_guess():
    rows = np.full((4, 3), 1 / 3)
    with pytest.raises(ValueError, match=r"0\.\.2, got 3 at row 2: are they counted from 1\?"):
        TemperatureScaling().fit(rows, [1, 2, 3, 1])
    with pytest.raises(ValueError, match=r"got 3 at row 2$"):
        TemperatureScaling().fit(rows, [0, 2, 3, 1])
