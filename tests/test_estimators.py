"""What holds for every public estimator, whoever it is: each is found and tested without being named here."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import pickle
import random
from collections.abc import Iterator
from typing import Any

import joblib
import pytest
import sklearn.base
from river import base, checks
from sklearn.exceptions import NotFittedError

from tests.estimators import EXAMPLES, SETTINGS, asker, fit, learn, predictions, public_estimators
from tests.pickles import pickled, read_only, shared

pytestmark = [
    pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning"),
    pytest.mark.usefixtures("wide_brackets", "few_corrections"),
]
each = pytest.mark.parametrize("name", EXAMPLES)
PROVEN = ("certificate", "certificates", "guarantee", "window_certificate", "window_guarantee", "n_rounds")


def river_examples() -> Iterator[tuple[str, Any]]:
    """Each class of river's kind, with the first of its settings that river can feed."""
    known: set[type] = set()
    for example in EXAMPLES.values():
        learner = example.build()
        # river feeds labels of its own, which one with fixed classes refuses
        is_fed = isinstance(learner, base.Estimator) and not {"n_classes", "classes"} & set(example.settings)
        if is_fed and type(learner) not in known:
            known.add(type(learner))
            yield type(learner).__name__, example


RIVER_EXAMPLES = dict(river_examples())


def checks_of(learner: Any) -> dict[str, list[Any]]:
    """River's checks for it by name: one for each of river's data sets, or a single one that needs no data.

    What grows with 2,000 rounds is looked at with the first data only.
    """
    found: dict[str, list[Any]] = {}
    for check in checks.yield_checks(learner):
        name = check.__name__
        if name not in learner._unit_test_skips() and not ("growth" in name and name in found):
            found.setdefault(name, []).append(check)
    return found


@pytest.mark.parametrize("kind", public_estimators())
def test_a_class_has_at_most_twenty_public_attributes_of_its_own(kind):
    """Beyond its parameters: those that a user calls. Of forecasters river's own are counted, too."""
    foreign = [one for one in kind.__mro__ if not one.__module__.startswith("onlinecal")]
    foreign = [object] if kind.__module__.startswith("onlinecal.forecasters") else foreign
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


CHECKS = {kind: checks_of(one.build()) for kind, one in RIVER_EXAMPLES.items()}
RIVER_CHECKS = [
    pytest.param(
        kind,
        check,
        id=f"{kind}-{check.removeprefix('check_')}",
        # of memory over 2,000 rounds, which river lets grow with the rounds
        marks=pytest.mark.slow if "growth" in check and kind != "CalibratedClassifier" else (),
    )
    for kind, checks_of_kind in CHECKS.items()
    for check in checks_of_kind
]
AGAIN = 1
"""The data of river's classifiers that are the data before once more, with labels of numpy."""
FEW_ROUNDS = 80
"""Of river's 200, by default; a memory that grows shows in 2,000 only."""
DATA: dict[tuple[bool, int], list[Any]] = {}
"""First rounds of river's data sets, which are read once: for classifiers or not, by number."""


def in_few_rounds(check: Any, key: tuple[bool, int]) -> Any:
    """A check of river's with the first rounds of its data set, if it has one."""
    if "dataset" not in getattr(check, "keywords", {}):
        return check
    if key not in DATA:
        DATA[key] = list(itertools.islice(check.keywords["dataset"], FEW_ROUNDS))
    return functools.partial(check.func, dataset=[(dict(x), y) for x, y in DATA[key]])


@pytest.mark.parametrize("all_data", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize(("kind", "check"), RIVER_CHECKS)
def test_river_checks(kind, check, all_data):
    """Labels of numpy are tried with all checks in the long form, and by default with one.

    By default the streams are shorter, and the memory is looked at over many rounds of one class only, and of
    all over few rounds below.
    """
    build = RIVER_EXAMPLES[kind].build
    is_classifier = isinstance(build(), base.Classifier)
    is_short = is_classifier and check != "check_predict_proba_one" and not all_data
    # a data set of river's is read once
    has_all_rounds = all_data or "growth" in check
    for number, run in enumerate((checks_of(build()) if has_all_rounds else CHECKS[kind])[check]):
        if number == AGAIN and is_short:
            continue
        if not has_all_rounds:
            run = in_few_rounds(run, (is_classifier, number))
        try:
            run(build())
        except Exception as error:
            error.add_note(f"with number {number} of the data sets that river has for it")
            raise


def labels_of(rounds: Any) -> set[Any]:
    return {y for _, y in rounds}


@pytest.mark.filterwarnings("ignore::onlinecal.LabelWarning")
@pytest.mark.parametrize("name", [name for name, one in EXAMPLES.items() if one.play is learn])
def test_asking_is_pure_and_features_may_change_places_and_come_and_go(name):
    """What river's checks ask of the first settings, of all settings, in one short stream."""
    example, rng = EXAMPLES[name], random.Random(0)
    model, twin = example.build(), example.build()
    for x, y in example.first:
        mixed, before = dict(rng.sample(list(x.items()), len(x))), copy.deepcopy(x)
        assert asker(twin)(mixed) == pytest.approx(asker(model)(x), rel=1e-6)
        for one, features in ((model, x), (twin, mixed)):
            one.learn_one(features, y)
        assert x == before
    for x, y in example.rest[:30]:
        few = dict(rng.sample(list(x.items()), len(x) // 2))
        answer = asker(model)(few)
        model.learn_one({**few, "new": 1.0} if rng.random() < 0.5 else few, y)
        if isinstance(model, base.Classifier):
            assert sum(answer.values()) == pytest.approx(1.0)
            assert min(answer.values()) >= 0.0
            assert labels_of(example.first) <= set(answer)


def proven(model: Any) -> list[Any]:
    return [getattr(model, what) for what in PROVEN if hasattr(model, what)]


@each
def test_copies_and_pickles_taken_mid_stream_go_on_identically(name):
    example = EXAMPLES[name]
    model = example.build()
    example.play(model, example.first)
    rest = example.rest[:40] if example.play is learn else example.rest
    if isinstance(model, base.Classifier):
        # with a forecast that is still open
        (x, y), *rest = rest
        model.predict_proba_one(x)
    copiers = copy.deepcopy, pickled, read_only, shared
    twins = [copier(model) for copier in copiers]
    if isinstance(model, base.Classifier):
        for one in (model, *twins):
            one.learn_one(x, y)
    if example.play is fit:
        # they map as the one that was fitted; one of them is fitted once more below
        expected = predictions(model, example.first)
        for twin, copier in zip(twins, copiers, strict=True):
            assert predictions(twin, example.first) == expected, copier.__name__
        twins, copiers = twins[-1:], copiers[-1:]
    expected = example.play(model, rest)
    for twin, copier in zip(twins, copiers, strict=True):
        assert example.play(twin, rest) == expected, copier.__name__
        assert proven(twin) == proven(model), copier.__name__


@pytest.mark.parametrize(
    "name", ["AlmostOneStepAhead-1", "SimplexAlmostOneStepAhead-3", "OnlineRecalibratedClassifier-1"]
)
def test_models_whose_arrays_are_a_file_go_on_and_leave_the_file_as_it_is(name, tmp_path):
    """joblib gives its workers large arrays in this way."""
    example, path = EXAMPLES[name], tmp_path / "model"
    model = example.build()
    example.play(model, example.first)
    joblib.dump(model, path)
    before = path.read_bytes()
    assert example.play(joblib.load(path, mmap_mode="r+"), example.rest) == example.play(model, example.rest)
    assert path.read_bytes() == before


def parameters(model: Any) -> Any:
    given = model._get_params() if isinstance(model, base.Base) else model.get_params()
    return {key: repr(value) for key, value in given.items()}


@each
def test_a_clone_starts_afresh_with_the_same_parameters(name):
    example = EXAMPLES[name]
    model = example.build()
    if not isinstance(model, base.Base | sklearn.base.BaseEstimator):
        return
    first = example.first[:40] if example.play is learn else example.first
    expected = example.play(model, first)
    fresh = model.clone() if isinstance(model, base.Base) else sklearn.base.clone(model)
    assert parameters(fresh) == parameters(example.build())
    assert not getattr(fresh, "n_rounds", 0)
    if not isinstance(fresh, base.Base):
        with pytest.raises(NotFittedError):
            predictions(fresh, first)
    assert example.play(fresh, first) == expected


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
