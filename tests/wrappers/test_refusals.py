"""What the wrapper refuses, or warns of: settings, shares, soft labels, answers that are no distribution."""

import warnings

import numpy as np
import pytest

from onlinecal import BinnedMean, CalibratedClassifier, LabelWarning
from tests.wrappers.scripted import Said, Scripted


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"slack": 0.4}, r"slack must be a number from 0\.5 to 1000, got 0\.4"),
        ({"n_buckets": 0}, "n_buckets must be a whole number of at least 1, got 0"),
        ({"horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
        (
            {"strategy": "simples"},
            "strategy must be one of auto, binary, simplex, top-label, classwise, tree, got 'simples'",
        ),
    ],
    ids=str,
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        CalibratedClassifier(Said(), **settings)


def test_bad_bins_are_refused():
    with pytest.raises(ValueError, match="n_bins must be a whole number of at least 1, got 0"):
        BinnedMean(Said(), n_bins=0)


@pytest.mark.parametrize("share", [0.7, np.float64(0.25), np.float32(0.5)])
@pytest.mark.parametrize("strategy", ["auto", "binary"])
def test_shares_are_refused_with_what_takes_them(share, strategy):
    model = CalibratedClassifier(Said(), strategy=strategy)
    with pytest.raises(ValueError, match=r"y must be .*, got .* between 0 and 1 go with AlmostOneStepAhead"):
        model.learn_one({"p": 0.5}, share)
    assert model.n_rounds == 0
    # whole numbers are labels, whatever their type
    model.learn_one({"p": 0.5}, 2.0)


@pytest.mark.parametrize("strategy", ["simplex", "classwise", "top-label", "tree"])
def test_an_answer_that_does_not_sum_to_one_is_warned_of_once(strategy):
    model, odd = CalibratedClassifier(Scripted(), strategy=strategy), {"u": 0.9, "v": 0.3, "w": 0.3}
    for t, label in enumerate("uvwuvw"):
        x = {"answer": {"u": np.float32(0.5), "v": np.float32(0.3), "w": np.float32(0.2)}, "t": t}
        model.predict_proba_one(x)
        model.learn_one(x, label)
    with pytest.warns(LabelWarning, match=r"classifier .* sum to 1\.5: they are divided by that") as warned:
        model.predict_proba_one({"answer": odd})
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_proba_one({"answer": odd, "t": 1})


@pytest.mark.parametrize("soft", [{"a": 0.5, "b": 0.5}, [0.5, 0.5], np.array([0.5, 0.5])])
def test_soft_labels_are_refused_with_what_takes_them(soft):
    model = CalibratedClassifier(Scripted(), classes=["a", "b"])
    with pytest.raises(
        ValueError, match=r"y must be a class label, .* soft labels go with SimplexAlmostOneStepAhead"
    ):
        model.learn_one({"answer": {"a": 0.5, "b": 0.5}}, soft)
    assert model.n_rounds == 0
