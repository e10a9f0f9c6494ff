"""Every kind of thing that is kept: written in one process, gone on with in another, or in another Python.

    python tests/keeping_program.py write FOLDER     writes, goes on, and prints what came of it
    python tests/keeping_program.py go-on FOLDER     reads, goes on, and prints the same, if all is well

It needs onlinecal alone. `tests/test_keeping.py` compares what two interpreters print.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from river import linear_model, preprocessing, tree
from sklearn.linear_model import SGDClassifier

import onlinecal as oc
from onlinecal.engine import Engine, Outcome, Query
from onlinecal.recalibration import TemperatureScaling

LENGTH, HALF = 240, 120
RNG = np.random.default_rng(0)
FEATURES, NUMBERS = RNG.normal(size=(LENGTH, 2)), RNG.integers(0, 3, LENGTH)
ROWS = [dict(zip("ab", row, strict=True)) for row in FEATURES.tolist()]
TABLE = RNG.dirichlet([1, 1, 1], LENGTH)


def scaled(model: Any) -> Any:
    return preprocessing.StandardScaler() | model


def learners() -> dict[str, Any]:
    """River's kind: wrappers and forecasters, each with two labels or three."""
    logistic = linear_model.LogisticRegression
    return {
        "wrapper": oc.CalibratedClassifier(scaled(logistic())),
        "wrapper of three": oc.CalibratedClassifier(scaled(linear_model.SoftmaxRegression())),
        "wrapper with buckets": oc.CalibratedClassifier(tree.HoeffdingTreeClassifier(), n_buckets=2),
        "combined": oc.CombinedClassifier([scaled(logistic()), tree.HoeffdingTreeClassifier()]),
        "decisions": oc.DecisionCalibratedClassifier(logistic(), first_fit=50),
        "regressor": oc.CalibratedRegressor(linear_model.LinearRegression(), high=1.0),
        "forecaster": oc.AlmostOneStepAhead(),
        "forecaster with a window": oc.AlmostOneStepAhead(window=50),
        "forecaster of three": oc.SimplexAlmostOneStepAhead(),
    }


def label_of(name: str, row: int) -> Any:
    number = int(NUMBERS[row])
    return "abc"[number] if "three" in name else number == 2


def learn(name: str, learner: Any, rows: range) -> list[Any]:
    """What it answers, each time before it learns, and what is proven in the end."""
    answers = []
    for row in rows:
        ask = learner.predict_proba_one if hasattr(learner, "predict_proba_one") else learner.predict_one
        answers.append(ask(ROWS[row]))
        learner.learn_one(ROWS[row], label_of(name, row))
    return [*answers, getattr(learner, "certificate", None)]


def batches(model: Any, rows: range) -> list[Any]:
    answers = []
    for start in rows[::20]:
        batch = slice(start, start + 20)
        if start:
            answers += model.predict_proba(FEATURES[batch]).tolist()
        model.partial_fit(FEATURES[batch], NUMBERS[batch], classes=[0, 1, 2])
    return answers


def events(path: Path, rows: range) -> list[Any]:
    """What an engine answers that keeps its ledger there; labels come one event late."""
    with Engine(path) as engine:
        given = [
            event
            for row in rows
            for event in (Query(str(row), "key", TABLE[row, 1]), Outcome(str(row), int(NUMBERS[row] == 1)))
        ]
        return [str(answer) for answer in engine.handle(given)]


def digest(answers: Any) -> str:
    """Of all answers, to the last bit."""
    exact = json.dumps(answers, default=float, sort_keys=True)
    return hashlib.sha256(exact.encode()).hexdigest()[:12]


def write(folder: Path) -> None:
    for name, learner in learners().items():
        learn(name, learner, range(HALF))
        (folder / f"{name}.pickle").write_bytes(pickle.dumps(learner))
    online = oc.OnlineRecalibratedClassifier(SGDClassifier(loss="log_loss", random_state=0))
    batches(online, range(HALF))
    (folder / "online.pickle").write_bytes(pickle.dumps(online))
    fitted = TemperatureScaling().fit(TABLE[:HALF], NUMBERS[:HALF])
    (folder / "temperature.pickle").write_bytes(pickle.dumps(fitted))
    oc.DecisionRecalibrator(cv=0, max_rounds=3).fit(TABLE[:HALF], NUMBERS[:HALF]).save(folder / "map.npz")
    oc.recalibrate_stream(TABLE[:HALF, 1], NUMBERS[:HALF] == 1).save(folder / "column.npz")
    events(folder / "ledger.db", range(HALF))


def go_on(folder: Path) -> dict[str, str]:
    rest, found = range(HALF, LENGTH), {}
    for name in learners():
        learner = pickle.loads((folder / f"{name}.pickle").read_bytes())
        found[name] = digest(learn(name, learner, rest))
    online, fitted = (
        pickle.loads((folder / f"{name}.pickle").read_bytes()) for name in ("online", "temperature")
    )
    found["online"] = digest(batches(online, rest))
    found["temperature"] = digest(fitted.predict_proba(TABLE[HALF:]).tolist())
    read = oc.DecisionRecalibrator.load(folder / "map.npz")
    found["map"] = digest(read.predict_proba(TABLE[HALF:]).tolist())
    column = oc.RecalibratedStream.load(folder / "column.npz")
    column = column.extend(TABLE[HALF:, 1], NUMBERS[HALF:] == 1)
    found["column"] = digest([column.probabilities.tolist(), column.certificate.tolist()])
    copy = folder / f"ledger-{sys.version_info.minor}-{np.__version__}.db"
    copy.write_bytes((folder / "ledger.db").read_bytes())
    found["ledger"] = digest(events(copy, rest))
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    place = Path(sys.argv[2])
    if sys.argv[1] == "write":
        write(place)
    print(json.dumps(go_on(place)))
