"""OnlineRecalibratedClassifier beside the classifier that it is around, and scikit-learn's recalibration."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

from onlinecal import OnlineRecalibratedClassifier
from onlinecal.measures.scores import class_scores
from tests import DATA
from tests.networks import predictions

METHODS = ("sigmoid", "isotonic", "temperature")
MODELS = {"naive Bayes": GaussianNB(), "gradient": SGDClassifier(loss="log_loss", random_state=0)}
BATCH = 32


def games():
    """Who plays, and what somebody forecasts; whether the first team wins."""
    if not (DATA / "nba_games.csv").exists():
        pytest.skip("nba_games.csv is not here")
    table = pl.read_csv(DATA / "nba_games.csv").sort("date", maintain_order=True)
    p = table["prob1"].to_numpy()
    teams = table.select("team1", "team2").to_dummies().to_numpy()
    return np.column_stack([np.log(p / (1.0 - p)), teams]), table["prob1_outcome"].to_numpy()


def network():
    """Logarithms of a network's probabilities of ten classes; the class that came."""
    table, labels = predictions("lenet-5-cifar-10")
    return np.log(np.maximum(table, 1e-6)), labels


def scores(table, labels):
    """Log loss and Brier score."""
    return np.array(class_scores(table, labels)[:2])[::-1]


def in_time(model, X, y):
    """What a model and what its recalibrated form said to each batch before they learnt it."""
    online, raw, answers = OnlineRecalibratedClassifier(model), [], []
    for start in range(0, len(y), BATCH):
        rows = slice(start, start + BATCH)
        if start:
            raw.append(online.estimator_.predict_proba(X[rows]))
            answers.append(online.predict_proba(X[rows]))
        online.partial_fit(X[rows], y[rows], classes=np.unique(y))
    return np.concatenate(raw), np.concatenate(answers)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("load", [games, network])
def test_beside_the_model_and_scikit_learn(note, load):
    X, y = load()
    half = len(y) // 2
    X = StandardScaler().fit(X[:half]).transform(X)
    for name, model in MODELS.items():
        before, after = (scores(table, y[BATCH:]) for table in in_time(model, X, y))
        note(f"{load.__name__:8s} {name:12s} in time: model {before.round(4)}, recalibrated {after.round(4)}")
        assert (after < before).all()
        online = OnlineRecalibratedClassifier(clone(model)).fit(X[:half], y[:half])
        ours = scores(online.predict_proba(X[half:]), y[half:])
        fitted = clone(model).fit(X[:half], y[:half])
        theirs = [CalibratedClassifierCV(clone(model), method=one).fit(X[:half], y[:half]) for one in METHODS]
        each = [scores(one.predict_proba(X[half:]), y[half:]) for one in (fitted, *theirs)]
        for what, found in zip(("fit", *METHODS, "online"), (*each, ours), strict=True):
            note(f"{load.__name__:8s} {name:12s} second half, {what:12s} {found.round(4)}")
        assert name == "gradient" or (ours[0] < min(one[0] for one in each))
