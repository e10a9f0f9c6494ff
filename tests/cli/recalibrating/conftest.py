"""Tables that tests of `recalibrate` share."""

import numpy as np
import polars as pl
import pytest

from tests.cli.recalibrating.runs import CLASSES, ROWS


@pytest.fixture(scope="module")
def sure():
    """Overconfident probabilities of three classes, the first promised too often, and labels."""
    rng = np.random.default_rng(3)
    truth = rng.dirichlet([0.6, 0.6, 0.6], ROWS)
    labels = (truth.cumsum(axis=1) < rng.random((ROWS, 1))).sum(axis=1)
    bold = truth**3 * [3.0, 1.0, 1.0] + 1e-6
    return bold / bold.sum(axis=1, keepdims=True), labels


@pytest.fixture(scope="module")
def halves():
    order = np.random.default_rng(0).permutation(ROWS)
    return order[: ROWS // 2], order[ROWS // 2 :]


@pytest.fixture(scope="module")
def folder(sure, tmp_path_factory):
    """The same probabilities as NPZ and CSV, a loss table, and a table of one event with groups."""
    path = tmp_path_factory.mktemp("recalibrated")
    table, labels = sure
    np.savez(path / "net.npz", predictions=table, ground_truth=labels)
    columns = {f"p_{name}": table[:, number] for number, name in enumerate(CLASSES)}
    frame = pl.DataFrame({**columns, "finding": [CLASSES[label] for label in labels]})
    frame.write_csv(path / "net.csv")
    frame.head(40).drop("finding").write_parquet(path / "new.parquet")
    (path / "costs.csv").write_text("# what mistakes cost\naction,owl,cat,dog\nleave,0,0,4\nact,1,1,0\n")
    rng = np.random.default_rng(4)
    side, age = rng.choice(["left", "right"], ROWS), rng.integers(20, 80, ROWS)
    truth = np.where((side == "left") == (age > 50), 0.75, 0.25)
    events = pl.DataFrame(
        {
            "risk": np.clip(0.5 + 0.1 * rng.standard_normal(ROWS), 0, 1),
            "ill": rng.random(ROWS) < truth,
            "side": side,
            "old": np.where(age > 50, "yes", "no"),
            "age": age,
            "height": rng.random(ROWS),
        }
    )
    events.write_csv(path / "events.csv")
    events.head(30).drop("ill").write_csv(path / "events-new.csv")
    return path
