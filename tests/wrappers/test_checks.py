"""river's official checks on every wrapper, around models of several kinds."""

from __future__ import annotations

import copy
import pickle

import pytest
from river import checks, compose, datasets, linear_model, naive_bayes, preprocessing, tree

from onlinecal import BinnedMean, CalibratedClassifier, PlattScaling

MODELS = {
    "LogisticRegression": linear_model.LogisticRegression,
    "GaussianNB": naive_bayes.GaussianNB,
    "HoeffdingTree": tree.HoeffdingTreeClassifier,
    "pipeline": lambda: preprocessing.StandardScaler() | linear_model.LogisticRegression(),
}
WRAPPERS = {
    "CalibratedClassifier": CalibratedClassifier,
    "CalibratedClassifier-buckets": lambda model: CalibratedClassifier(model, n_buckets=4, slack=2.0),
    "CalibratedClassifier-simplex": lambda model: CalibratedClassifier(model, strategy="simplex"),
    "CalibratedClassifier-top-label": lambda model: CalibratedClassifier(model, strategy="top-label"),
    "CalibratedClassifier-classwise": lambda model: CalibratedClassifier(model, strategy="classwise"),
    "CalibratedClassifier-window": lambda model: CalibratedClassifier(model, window=50, n_buckets=2),
    "PlattScaling": PlattScaling,
    "BinnedMean": BinnedMean,
    "CalibratedClassifier(BinnedMean)": lambda model: CalibratedClassifier(BinnedMean(model)),
}
BUILT = {f"{w} of {m}": (wrap, model) for w, wrap in WRAPPERS.items() for m, model in MODELS.items()}


@pytest.mark.parametrize(
    ("learner", "check"),
    [
        pytest.param(wrap(model()), check, id=f"{name}-{check.__name__}-{i}")
        for name, (wrap, model) in BUILT.items()
        for i, check in enumerate(checks.yield_checks(wrap(model())))
    ],
)
def test_river_checks(learner, check):
    check(learner.clone())


def play(model, rounds):
    answers = []
    for x, y in rounds:
        answers.append(model.predict_proba_one(x))
        model.learn_one(x, y)
    return answers


@pytest.mark.parametrize("name", BUILT)
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_taken_mid_stream_goes_on_identically(name, duplicate):
    wrap, build = BUILT[name]
    rounds = list(datasets.Phishing().take(300))
    model = wrap(build())
    play(model, rounds[:150])
    model.predict_proba_one(rounds[150][0])
    twin = duplicate(model)
    assert play(twin, rounds[150:]) == play(model, rounds[150:])
    if isinstance(model, CalibratedClassifier):
        assert twin.certificate == model.certificate


def test_wrappers_work_on_either_side_of_a_pipeline():
    inside = preprocessing.StandardScaler() | CalibratedClassifier(linear_model.LogisticRegression())
    outside = CalibratedClassifier(
        compose.Pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression())
    )
    rounds = list(datasets.Phishing().take(400))
    assert play(inside, rounds)[-1].keys() == play(outside, rounds)[-1].keys()
    assert inside[-1].certificate <= inside[-1].guarantee
