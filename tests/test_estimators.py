"""What holds for every public estimator, whoever it is: each is found and tested without being named here."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import sklearn.base
from river import base, checks
from sklearn.exceptions import NotFittedError

from tests.estimators import EXAMPLES, SETTINGS, predictions, public_estimators

pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")
each = pytest.mark.parametrize("name", EXAMPLES)
PROVEN = ("certificate", "certificates", "guarantee", "window_certificate", "window_guarantee", "n_rounds")


def river_checks() -> Iterator[Any]:
    """River's, with each of its data for a class's first settings, with the last data for others.

    What grows with 2,000 rounds is looked at with the first data and the first settings.
    """
    known: set[tuple[type, str]] = set()
    for name, example in EXAMPLES.items():
        learner = example.build()
        # river feeds labels of its own, which one with fixed classes refuses
        if not isinstance(learner, base.Estimator) or {"n_classes", "classes"} & set(example.settings):
            continue
        found = {one.__name__: one for one in checks.yield_checks(learner)}
        is_first = type(learner) not in {kind for kind, _ in known}
        for i, check in enumerate(checks.yield_checks(learner) if is_first else found.values()):
            what = type(learner), check.__name__
            if check.__name__ not in learner._unit_test_skips() and not (
                "growth" in what[1] and what in known
            ):
                yield pytest.param(name, check, id=f"{name}-{check.__name__}-{i}")
            known.add(what)


@pytest.mark.parametrize("kind", public_estimators())
def test_a_class_has_at_most_twenty_public_attributes_of_its_own(kind):
    """Beyond its parameters, and what river's and scikit-learn's classes have: those that a user calls."""
    foreign = [one for one in kind.__mro__ if not one.__module__.startswith("onlinecal")]
    own = set(dir(kind)).difference(*map(dir, foreign), inspect.signature(kind).parameters)
    # scikit-learn makes one of these for every method with metadata
    found = [name for name in own if not (name.startswith("_") or name.endswith("_request"))]
    assert len(found) <= 20, sorted(found)


def test_every_public_estimator_is_tried():
    missing = set(public_estimators()) - set(SETTINGS)
    assert not missing, (
        f"{missing}: public estimators that nobody tries: add the settings to try them with to SETTINGS in "
        "tests/estimators.py, and there to `way_of` what they are fed and what they have to refuse"
    )
    assert set(SETTINGS) == set(public_estimators())


@pytest.mark.parametrize(("name", "check"), list(river_checks()))
def test_river_checks(name, check):
    check(EXAMPLES[name].build())


def proven(model: Any) -> list[Any]:
    return [getattr(model, what) for what in PROVEN if hasattr(model, what)]


@each
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copy_taken_mid_stream_goes_on_identically(name, duplicate):
    example = EXAMPLES[name]
    model = example.build()
    example.play(model, example.first)
    rest = example.rest
    if isinstance(model, base.Classifier):
        # with a forecast that is still open
        (x, y), *rest = rest
        model.predict_proba_one(x)
    twin = duplicate(model)
    if isinstance(model, base.Classifier):
        twin.learn_one(x, y)
        model.learn_one(x, y)
    assert example.play(twin, rest) == example.play(model, rest)
    assert proven(twin) == proven(model)


def parameters(model: Any) -> Any:
    given = model._get_params() if isinstance(model, base.Base) else model.get_params()
    return {key: repr(value) for key, value in given.items()}


@each
def test_a_clone_starts_afresh_with_the_same_parameters(name):
    example = EXAMPLES[name]
    model = example.build()
    if not isinstance(model, base.Base | sklearn.base.BaseEstimator):
        return
    expected = example.play(model, example.first)
    fresh = model.clone() if isinstance(model, base.Base) else sklearn.base.clone(model)
    assert parameters(fresh) == parameters(example.build())
    assert not getattr(fresh, "n_rounds", 0)
    if not isinstance(fresh, base.Base):
        with pytest.raises(NotFittedError):
            predictions(fresh, example.first)
    assert example.play(fresh, example.first) == expected


@each
def test_bad_input_is_named_and_leaves_everything_as_it_was(name):
    example = EXAMPLES[name]
    model = example.build()
    example.play(model, example.first)
    before = pickle.dumps(model)
    for method, arguments, message in example.refused:
        with pytest.raises(ValueError, match=message):
            getattr(model, method)(*arguments)
        assert pickle.dumps(model) == before, (method, arguments)


@each
def test_it_says_what_it_is_and_takes_no_more_than_it_keeps(name):
    """What river says it takes is what the estimator keeps, not the compiler behind it."""
    example = EXAMPLES[name]
    model = example.build()
    assert type(model).__name__ in repr(model)
    if isinstance(model, base.Base):
        example.play(model, example.first)
        put_down = pickle.dumps(model)
        # counts of many small tuples take about six times the room of their pickle
        most = max(64 * 1024, 10 * len(put_down))
        assert max(model._raw_memory_usage, pickle.loads(put_down)._raw_memory_usage) < most < 2**23
