"""The joint strategy with all classes named: its grid tunes itself, at hardly any cost in skill."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

from onlinecal import CalibratedClassifier, GuaranteeWarning, recalibrate_stream
from tests.wrappers.scripted import Scripted

N, K = 4000, 4


def stream(seed=0):
    """Overconfident vectors over K classes, and what came."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(K, 0.6), N)
    rows = truth**2 / (truth**2).sum(1, keepdims=True)
    return rows, np.minimum((truth.cumsum(1) < rng.random(N)[:, None]).sum(1), K - 1)


ROWS, LABELS = stream()


def losses(result):
    q = np.clip(result.probabilities, 1e-3, 1.0)
    of_label = q[np.arange(N), LABELS]
    return np.array(
        [((result.probabilities - np.eye(K)[LABELS]) ** 2).sum(1).mean(), -np.log(of_label).mean()]
    )


def played(**settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuaranteeWarning)
        return recalibrate_stream(ROWS, LABELS, **settings)


@pytest.mark.parametrize(
    ("settings", "most"), [({"strategy": "simplex"}, (0.004, 0.005)), ({"horizon": N}, (0.003, 0.006))]
)
def test_neither_the_joint_certificate_nor_a_horizon_costs_skill(settings, most):
    assert (losses(played(**settings)) / losses(played()) <= 1 + np.array(most)).all()


@pytest.mark.parametrize("late", [0, 3])
def test_the_grid_tunes_itself_and_the_certificate_is_bounded_with_classes_named_or_discovered(late):
    rounds = [{"answer": dict(enumerate(row)), "t": t} for t, row in enumerate(ROWS[:1000].tolist())]
    guaranteed = []
    for classes in (None, range(K)):
        model = CalibratedClassifier(Scripted(), strategy="simplex", classes=classes)
        for t, x in enumerate(rounds):
            if t == 300:
                # labels may come late from here on; and a copy goes on
                model = pickle.loads(pickle.dumps(model))
            model.predict_proba_one(x)
            behind = late if t >= 300 else 0
            if behind == 0 or t >= 300 + late:
                model.learn_one(rounds[t - behind], int(LABELS[t - behind]))
            assert model.certificate <= model.guarantee
        guaranteed.append(model.guarantee)
    found, named = guaranteed
    assert named < found < 1.1 * named
