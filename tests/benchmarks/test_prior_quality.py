"""What `prior` is worth: the first rows of streams of rare events, the model trained on an even table."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from onlinecal import recalibrate_stream
from onlinecal.measures.scores import event_scores
from tests.benchmarks.conftest import recorded

MODELS = {
    "logistic regression": LogisticRegression(),
    "boosting": HistGradientBoostingClassifier(max_iter=60, random_state=0),
    "forest": RandomForestClassifier(100, min_samples_leaf=5, random_state=0),
}
FIRST = 100, 1_000, 10_000


def shifted():
    """The recorded streams of one event in 200, as a model would say them, had half its table been events.

    The rate is that of the first half.
    """
    for name, p, y, _ in recorded("streams"):
        if name in ("rare_honest", "rare_model_lr", "rare_over2"):
            half = len(y) // 2
            rate, p = y[:half].mean(), p[half:]
            odds = p / (1.0 - p) * (1.0 - rate) / rate
            yield name, np.where(p < 1.0, odds / (1.0 + odds), 1.0), y[half:], rate


def trained(rate=0.01, rows=60_000):
    """Models trained on as many rows without event as with one, and streams of one event in a hundred."""
    X, y = make_classification(
        rows, 12, n_informative=6, weights=[1 - rate], flip_y=0, class_sep=0.7, random_state=0
    )
    half = rows // 2
    events = np.flatnonzero(y[:half] == 1)
    others = np.random.default_rng(0).choice(np.flatnonzero(y[:half] == 0), len(events), replace=False)
    table = np.concatenate([events, others])
    for name, model in MODELS.items():
        said = model.fit(X[table], y[table]).predict_proba(X[half:])[:, 1]
        yield f"trained: {name}", said, y[half:], y[:half].mean()


@pytest.mark.filterwarnings("ignore::onlinecal.LabelWarning")
def test_the_first_rows_are_better_with_the_base_rates(note):
    note("Brier score and log loss of the first 100, 1,000, 10,000 rows: came in, without prior, with it")
    for name, p, y, rate in [*shifted(), *trained()]:
        p, y = p[: FIRST[-1]], y[: FIRST[-1]]
        plain, helped = recalibrate_stream(p, y), recalibrate_stream(p, y, prior=(0.5, rate))
        for first in FIRST:
            outs = (p, plain.probabilities, helped.probabilities)
            each = [event_scores(one[:first], y[:first])[:2] for one in outs]
            note(f"{name:28} {first:6,d} rows: " + ", ".join(f"{a:.4f} {b:.4f}" for a, b in each))
            most = 1.0 if first < FIRST[-1] else 1.02
            assert all(a < most * b for a, b in zip(each[2], each[1], strict=True)), (name, first)
