"""What `prior` is worth: the first rows of streams of rare events, the model trained on an even table."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from onlinecal import recalibrate_stream

STREAMS = Path(__file__).parents[3] / "shared" / "data" / "streams"
MODELS = {
    "logistic regression": lambda: LogisticRegression(),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=60, random_state=0),
    "forest": lambda: RandomForestClassifier(100, min_samples_leaf=5, random_state=0),
}
FIRST = 100, 1_000, 10_000

pytestmark = pytest.mark.filterwarnings("ignore::onlinecal.LabelWarning")


def of_an_even_table(p, rate):
    """What a model with these probabilities would say, had half of its table been events."""
    odds = p / (1.0 - p) * (1.0 - rate) / rate
    return np.where(p < 1.0, odds / (1.0 + odds), 1.0)


def recorded():
    """The recorded streams of one event in 200, shifted; the rate is that of the first half."""
    for name in ("rare_honest", "rare_model_lr", "rare_over2"):
        stream = np.load(STREAMS / f"{name}.npz")
        half = len(stream["y"]) // 2
        rate = stream["y"][:half].mean()
        yield name, of_an_even_table(stream["p"][half:], rate), stream["y"][half:], rate


def trained(rate=0.01, rows=60_000, seed=0):
    """Models trained on as many rows without event as with one, and streams of one event in a hundred."""
    X, y = make_classification(
        rows, 12, n_informative=6, weights=[1 - rate], flip_y=0, class_sep=0.7, random_state=seed
    )
    half = rows // 2
    events = np.flatnonzero(y[:half] == 1)
    others = np.random.default_rng(seed).choice(np.flatnonzero(y[:half] == 0), len(events), replace=False)
    table = np.concatenate([events, others])
    for name, make in MODELS.items():
        said = make().fit(X[table], y[table]).predict_proba(X[half:])[:, 1]
        yield f"trained: {name}", said, y[half:], y[:half].mean()


def scores(q, y, first):
    q, y = q[:first], y[:first]
    given = np.clip(np.where(y == 1, q, 1 - q), 1e-15, 1)
    return np.mean((q - y) ** 2), -np.log(given).mean()


@pytest.mark.skipif(not STREAMS.exists(), reason="needs ../shared/data/streams")
def test_the_first_rows_are_better_with_the_base_rates(note):
    note("Brier score and log loss of the first 100, 1,000, 10,000 rows: came in, without prior, with it")
    for name, p, y, rate in [*recorded(), *trained()]:
        p, y = p[: FIRST[-1]], y[: FIRST[-1]]
        plain, helped = recalibrate_stream(p, y), recalibrate_stream(p, y, prior=(0.5, rate))
        outs = p, plain.probabilities, helped.probabilities
        cells = []
        for first in FIRST:
            came, without, with_prior = (scores(out, y, first) for out in outs)
            cells += [f"{a:.4f} {b:.4f} {c:.4f}" for a, b, c in zip(came, without, with_prior, strict=True)]
            most = 1.0 if first < FIRST[-1] else 1.02
            assert all(a < most * b for a, b in zip(with_prior, without, strict=True)), (name, first)
        note(f"{name:28} {y.mean():.4f} | " + " | ".join(cells))
