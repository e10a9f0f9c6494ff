"""Everything that is compiled, used once with the usual types of arguments: the one list of it.

Each entry does a little of what its users do, so it compiles what they would wait for. A test holds the list
against every kernel of the library.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

ROUNDS = 300


def _history() -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    rng = np.random.default_rng(0)
    forecasts = rng.random(ROUNDS)
    return forecasts, rng.random(ROUNDS) < forecasts


def _table() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.ones(3), ROUNDS)
    # labels in no relation to the probabilities: there is something to recalibrate
    return table, rng.integers(0, 3, ROUNDS)


def warm_forecasters() -> None:
    """The forecasters of two outcomes: hints, late labels, replay."""
    from onlinecal import AlmostOneStepAhead

    forecasts, outcomes = _history()
    for horizon, window in ((None, None), (ROUNDS, None), (ROUNDS, 20)):
        forecaster = AlmostOneStepAhead(horizon=horizon, window=window)
        forecaster.learn_one({}, True)
        forecaster.replay(outcomes[:40])
        forecaster.learn_one({}, 0.5)
        forecaster.replay(forecasts[:40])
        assert (forecaster.window_certificate is None) == (window is None)
        forecaster = AlmostOneStepAhead(horizon=horizon, window=window, hints=True)
        token = forecaster.forecast(hint=0.8)
        forecaster.observe(token, True)
        forecaster.replay(outcomes[:40], forecasts[:40])


def warm_simplex() -> None:
    """The forecaster of several classes."""
    from onlinecal import SimplexAlmostOneStepAhead

    table, labels = _table()
    forecaster = SimplexAlmostOneStepAhead(n_classes=3, hints=True)
    token = forecaster.forecast(hint=table[0])
    forecaster.learn_one({}, 0)
    forecaster.observe(token, 1)
    forecaster.replay(labels[:100], table[:100])
    SimplexAlmostOneStepAhead(n_classes=3, window=10).replay(labels[:100])
    token = (soft := SimplexAlmostOneStepAhead(n_classes=3, window=10, hints=True)).forecast()
    soft.observe(token, table[0])
    soft.learn_one({}, table[1])
    soft.replay(table[:100], table[:100])


def warm_wrappers() -> None:
    """The wrapper around a classifier, of two labels and of several."""
    from river import naive_bayes

    from onlinecal import CalibratedClassifier, GroupCalibratedClassifier
    from onlinecal.wrappers.strategies.catalogue import StrategyName

    cases: list[tuple[StrategyName, int, int]] = [
        ("auto", 2, 1),
        ("auto", 2, 2),
        ("simplex", 3, 1),
        ("auto", 3, 2),
    ]
    for strategy, labels, buckets in cases:
        model = CalibratedClassifier(naive_bayes.GaussianNB(), strategy=strategy, n_buckets=buckets)
        for t in range(40):
            model.predict_proba_one({"x": t % 5})
            model.learn_one({"x": t % 5}, t % labels)
    shared = GroupCalibratedClassifier(
        naive_bayes.GaussianNB(), {"zero": lambda x: x["x"] == 0}, scheme="shared"
    )
    for t in range(4):
        shared.predict_proba_one({"x": t})
        shared.learn_one({"x": t}, t % 2)


def warm_stream() -> None:
    """Columns of probabilities, with and without a horizon, and a table."""
    from onlinecal import LabelWarning, recalibrate_stream

    forecasts, outcomes = _history()
    with warnings.catch_warnings():
        # that there is nothing to gain in so few rows
        warnings.simplefilter("ignore", LabelWarning)
        for horizon in (None, ROUNDS):
            recalibrate_stream(forecasts, outcomes, horizon=horizon)
        recalibrate_stream([[0.5, 0.3, 0.2]] * len(outcomes), [t % 3 for t in range(len(outcomes))])


def warm_combining() -> None:
    """Columns of two models, and two classifiers as one."""
    from river import naive_bayes

    from onlinecal import CombinedClassifier, combine_forecasts

    forecasts, outcomes = _history()
    combine_forecasts({"one": forecasts, "other": forecasts}, outcomes)
    model = CombinedClassifier([naive_bayes.GaussianNB(), naive_bayes.GaussianNB()])
    for t in range(4):
        model.predict_proba_one({"x": t})
        model.learn_one({"x": t}, t % 2)


def warm_engine() -> None:
    """Keys with hints, together and alone, whose outcomes may be shares, or classes."""
    from onlinecal.engine import Engine, EngineConfig, KeyConfig, Outcome, Query

    for config in (KeyConfig(), KeyConfig(horizon=ROUNDS), KeyConfig(lanes=2)):
        with Engine(config=EngineConfig(config)) as engine:
            for t, value in enumerate((0, 1, 0.5)):
                engine.handle([Query(f"q{t}", "k", 0.8), Outcome(f"q{t}", value)])
    # fewer than there are: keys are written, and come back
    with Engine(hot_keys=ROUNDS // 2) as engine:
        asks = [b'{"type":"query","id":"q%d","key":"k%d"}\n' % (t, t) for t in range(ROUNDS)]
        tells = [b'{"type":"outcome","id":"q%d","value":1}\n' % t for t in range(2, ROUNDS)]
        # what comes alone among many
        tells += [
            b'{"type":"query","id":"a\\/b","key":"k2"}\n',
            b'{"type":"withdraw","id":"q0"}\n',
            b'{"type":"outcome","id":"q1","value":0.5}\n',
        ]
        engine.handle_lines(b"".join(asks))
        engine.handle_lines(b"".join(tells))
    # keys that are all hot, one of which withdraws alone among many
    with Engine() as engine:
        engine.handle_lines(b"".join(asks))
        engine.handle_lines(b"".join(asks).replace(b'"q', b'"r'))
        engine.handle_lines(b"".join(tells))
    with Engine(config=EngineConfig(KeyConfig(kind="simplex"))) as engine:
        for t, label in enumerate("aba"):
            engine.handle([Query(f"q{t}", "k", {"a": 0.8, "b": 0.2}), Outcome(f"q{t}", label)])


def warm_distance() -> None:
    """The distance to calibration, of short and of long histories."""
    from onlinecal import calibration_distance

    forecasts, outcomes = _history()
    calibration_distance(forecasts[:20], outcomes[:20])
    calibration_distance(forecasts, outcomes, method="bracket", budget=0.1)


def warm_measures() -> None:
    """The other measures."""
    from onlinecal.measures import (
        lp_calibration_error,
        lp_calibration_interval,
        lp_calibration_report,
        multicalibration_error,
        multiclass_calibration_distance,
        smooth_calibration_error,
    )

    forecasts, outcomes = _history()
    smooth_calibration_error(forecasts, outcomes)
    multicalibration_error(forecasts, outcomes, np.ones((ROUNDS, 1), bool))
    table, labels = _table()
    multiclass_calibration_distance(table, labels, budget=0.1)
    lp_calibration_error(table, labels)
    lp_calibration_report(table, labels)
    lp_calibration_interval(table, labels, n_resamples=2)


def warm_lp_recalibrator() -> None:
    """Recalibration level set by level set."""
    from onlinecal import LpRecalibrator

    table, labels = _table()
    with warnings.catch_warnings():
        # that there are too few rows for the guarantee
        warnings.simplefilter("ignore")
        LpRecalibrator(epsilon=0.5).fit(table, labels).predict_proba(table)
        LpRecalibrator(start="vector").fit(table, labels)


def warm_decision_recalibrator() -> None:
    """Recalibration for decision makers, and the errors that they see."""
    from onlinecal import DecisionRecalibrator, LabelWarning, decision_calibration_error, decision_loss_gap
    from onlinecal.measures.decision.losses import row_losses

    table, labels = _table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)
        DecisionRecalibrator(n_actions=2).fit(table, labels).predict_proba(table)
    decision_calibration_error(table, labels, n_actions=2)
    decision_loss_gap(table, labels, 1.0 - np.eye(3))
    row_losses(table, labels, 1.0 - np.eye(3)[None])


def warm_group_recalibrator() -> None:
    """Recalibration for overlapping groups, with the patches that are compiled, and boosting."""
    from onlinecal import BoostedRecalibrator, GroupRecalibrator, LabelWarning

    forecasts, outcomes = _history()
    groups = np.column_stack([np.ones(ROUNDS, bool), forecasts < 0.5])
    with warnings.catch_warnings():
        # that forecasts are the opposite of what comes, so that there is much to patch
        warnings.simplefilter("ignore", LabelWarning)
        GroupRecalibrator(n_folds=2).fit(forecasts, ~outcomes, groups).predict(forecasts, groups)
        BoostedRecalibrator(n_folds=2).fit(groups, outcomes, forecasts).predict(groups, forecasts)


def warm_alarm() -> None:
    """The alarm, round by round and on arrays, past its first alarm."""
    from onlinecal import CalibrationAlarm

    forecasts, outcomes = _history()
    alarm = CalibrationAlarm(0.5)
    alarm.update_many(forecasts, outcomes)
    while alarm.n_rounds < ROUNDS + 10:
        alarm.update(0.5, True)


LIBRARY: dict[str, Callable[[], None]] = {
    "forecasters": warm_forecasters,
    "simplex forecaster": warm_simplex,
    "wrappers": warm_wrappers,
    "recalibrate_stream": warm_stream,
    "combine_forecasts": warm_combining,
    "engine": warm_engine,
    "distance to calibration": warm_distance,
    "other measures": warm_measures,
    "LpRecalibrator": warm_lp_recalibrator,
    "DecisionRecalibrator": warm_decision_recalibrator,
    "GroupRecalibrator": warm_group_recalibrator,
    "CalibrationAlarm": warm_alarm,
}
"""What the library compiles, by what people use it for."""
