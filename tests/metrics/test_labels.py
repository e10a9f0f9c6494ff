"""No metric is silent about labels that it cannot read: it raises, or is asked about the top label."""

import copy
import pickle

import numpy as np
import pytest
from river import utils

from onlinecal.metrics import ECE, Brier, CalibrationDistance, SmoothCalibration

KINDS = [Brier, ECE, lambda **k: ECE(bins=15, **k), SmoothCalibration, CalibrationDistance]
SPAM = [("spam", {"spam": 0.3, "ham": 0.7}), ("ham", {"spam": 0.2, "ham": 0.8})]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("label", ["spam", 2, "1", None, float("nan"), ["spam"]])
def test_a_label_that_is_neither_true_nor_false_is_refused_and_not_counted(kind, label):
    metric = kind()
    metric.update(True, 0.6)
    before = metric.get()
    for y, answer in [(label, 0.3), (label, {True: 0.3})]:
        with pytest.raises(ValueError, match=r"y_true has the label .* must be named: \w+\(pos_val="):
            metric.update(y, answer)
    if isinstance(label, (str, int)):
        with pytest.raises(ValueError, match=r"y_pred has the label .* or \w+\(top_label=True\)"):
            metric.update(True, {label: 1.0})
    assert metric.get() == before > 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_positive_label_that_nobody_names_is_said_when_the_number_is_asked_for(kind):
    metric = kind(pos_val="Spam")
    for y, answer in SPAM:
        metric.update(y, answer)
    for ask in (metric.get, lambda: getattr(metric, "interval", metric.get())):
        with pytest.raises(ValueError, match=r"pos_val='Spam' has not come, .* 'spam' and 'ham' have"):
            ask()
    assert repr(metric) == f"{type(metric).__name__}: none yet, pos_val='Spam' has not come"
    metric.update("Spam", {"spam": 0.5, "ham": 0.5})
    assert metric.get() > 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_rare_event_that_has_not_come_yet_is_no_error(kind):
    rare, named, lone = kind(), kind(pos_val="fraud"), kind(pos_val="fraud")
    for _ in range(5):
        rare.update(False, {False: 1.0})
        named.update("fine", {"fine": 0.7, "late": 0.2, "fraud": 0.1})
        lone.update("fine", {"fine": 1.0})
    assert rare.get() == lone.get() == 0.0 < named.get()


def test_the_number_one_may_be_one_label_of_many():
    metric = Brier(pos_val=1)
    for y in (0, 1, 2):
        metric.update(y, {0: 0.2, 1: 0.5, 2: 0.3})
    assert metric.get() == pytest.approx(0.25)


@pytest.mark.parametrize("kind", KINDS)
def test_the_top_label_is_the_event_that_the_most_probable_label_comes(kind):
    rng = np.random.default_rng(2)
    top, plain, pairs = kind(top_label=True), kind(), []
    for row in rng.dirichlet(np.ones(3), 60).round(2).tolist():
        answer = dict(zip("uvw", row, strict=True))
        y = "uvw"[rng.integers(3)]
        top.update(y, answer)
        best = max(answer, key=answer.get)
        plain.update(y == best, answer[best])
        pairs.append((y, answer))
    top.update("u", {})  # says nothing: not counted
    top.revert("u", {})
    assert top.get() == plain.get() > 0.0
    for y, answer in pairs[1:]:
        top.revert(y, answer)
    alone = top.clone()
    alone.update(*pairs[0])
    assert top.get() == pytest.approx(alone.get())


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_asked_is_refused(kind):
    with pytest.raises(ValueError, match="pos_val and top_label exclude each other, got pos_val='a'"):
        kind(pos_val="a", top_label=True)
    with pytest.raises(ValueError, match="top_label must be False or True, got 1"):
        kind(top_label=1)
    with pytest.raises(
        ValueError, match=r"y_pred must be a dictionary of labels for top_label=True, got 0\.3"
    ):
        kind(top_label=True).update("a", 0.3)
    with pytest.raises(ValueError, match="y_pred must be a number"):
        kind(top_label=True).update("a", {"a": 0.3, "b": float("nan")})


@pytest.mark.parametrize("kind", KINDS)
def test_copies_remember_which_labels_came_and_windows_do_too(kind):
    metric = kind(pos_val="Spam")
    for y, answer in SPAM:
        metric.update(y, answer)
    for twin in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        with pytest.raises(ValueError, match="has not come"):
            twin.get()
    rolling = utils.Rolling(Brier, window_size=2, pos_val="spam")
    for y, answer in [("spam", {"spam": 0.5}), *[("ham", {"ham": 1.0}), ("eggs", {"ham": 1.0})] * 3]:
        rolling.update(y, answer)
    assert rolling.get() == 0.0
