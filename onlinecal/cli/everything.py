"""The list of everything that the library compiles: each entry uses a part of it once, with usual types.

The command adds its games to it (`warmup_with`). An entry does a little of what users do, and so compiles
what they would wait for. A test compares the list with all kernels of the library.

LIBRARY is filled while the module is imported, one entry for each `step`, and never changes later. What
entries compute is thrown away. Their order, sizes and seeds may change freely, as long as every kernel is
still compiled for the types that users have.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from river import naive_bayes

import onlinecal
from onlinecal import measures
from onlinecal.engine import Engine, EngineConfig, KeyConfig, Outcome, Query
from onlinecal.measures.decision.losses import row_losses
from onlinecal.wrappers.strategies.choice import StrategyName

N_ROUNDS = 300
_rng = np.random.default_rng(0)
FORECASTS = _rng.random(N_ROUNDS)
OUTCOMES = _rng.random(N_ROUNDS) < FORECASTS
# labels that do not depend on the probabilities, so that there is something to recalibrate
CLASS_FORECASTS, LABELS = _rng.dirichlet(np.ones(3), N_ROUNDS), _rng.integers(0, 3, N_ROUNDS)

LIBRARY: dict[str, Callable[[], None]] = {}
"""The entries: what compiles a part of the library, by the name of that part."""


@contextmanager
def unwarned() -> Iterator[None]:
    """A context without warnings, since the data here are made up."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def step(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Enter a function into the library's list."""

    def entered(play: Callable[[], None]) -> Callable[[], None]:
        LIBRARY[name] = unwarned()(play)
        return LIBRARY[name]

    return entered


@step("forecasters")
def warm_forecasters() -> None:
    """The forecasters of two outcomes: hints, late labels, replay."""
    for horizon, window in ((None, None), (N_ROUNDS, None), (N_ROUNDS, 20)):
        forecaster = onlinecal.AlmostOneStepAhead(horizon=horizon, window=window)
        forecaster.learn_one({}, True)
        forecaster.replay(OUTCOMES[:40])
        forecaster.learn_one({}, 0.5)
        forecaster.replay(FORECASTS[:40])
        assert (forecaster.window_certificate is None) == (window is None)
        forecaster = onlinecal.AlmostOneStepAhead(horizon=horizon, window=window, hints=True)
        token = forecaster.forecast(hint=0.8)
        forecaster.observe(token, True)
        forecaster.replay(OUTCOMES[:40], FORECASTS[:40])


@step("simplex forecaster")
def warm_simplex() -> None:
    """The forecaster of several classes."""
    forecaster = onlinecal.SimplexAlmostOneStepAhead(n_classes=3, hints=True)
    token = forecaster.forecast(hint=CLASS_FORECASTS[0])
    forecaster.learn_one({}, 0)
    forecaster.observe(token, 1)
    forecaster.replay(LABELS[:100], CLASS_FORECASTS[:100])
    onlinecal.SimplexAlmostOneStepAhead(n_classes=3, window=10).replay(LABELS[:100])
    token = (soft := onlinecal.SimplexAlmostOneStepAhead(n_classes=3, window=10, hints=True)).forecast()
    soft.observe(token, CLASS_FORECASTS[0])
    soft.learn_one({}, CLASS_FORECASTS[1])
    soft.replay(CLASS_FORECASTS[:100], CLASS_FORECASTS[:100])


@step("wrappers")
def warm_wrappers() -> None:
    """The wrapper around a classifier, of two labels and of several."""
    cases: list[tuple[StrategyName, int, int]]
    cases = [("auto", 2, 1), ("auto", 2, 2), ("simplex", 3, 1), ("auto", 3, 2)]
    for strategy, classes, buckets in cases:
        model = onlinecal.CalibratedClassifier(naive_bayes.GaussianNB(), strategy=strategy, n_buckets=buckets)
        for t in range(40):
            model.predict_proba_one({"x": t % 5})
            model.learn_one({"x": t % 5}, t % classes)
    groups = {"zero": lambda x: x["x"] == 0}
    shared = onlinecal.GroupCalibratedClassifier(naive_bayes.GaussianNB(), groups, scheme="shared")
    for t in range(4):
        shared.predict_proba_one({"x": t})
        shared.learn_one({"x": t}, t % 2)


@step("recalibrate_stream")
def warm_stream() -> None:
    """Columns of probabilities, with and without a horizon, and a table."""
    for horizon in (None, N_ROUNDS):
        onlinecal.recalibrate_stream(FORECASTS, OUTCOMES, horizon=horizon)
    onlinecal.recalibrate_stream([[0.5, 0.3, 0.2]] * len(OUTCOMES), [t % 3 for t in range(len(OUTCOMES))])


@step("combine_forecasts")
def warm_combining() -> None:
    """Columns of two models, and two classifiers as one."""
    onlinecal.combine_forecasts({"one": FORECASTS, "other": FORECASTS}, OUTCOMES)
    model = onlinecal.CombinedClassifier([naive_bayes.GaussianNB(), naive_bayes.GaussianNB()])
    for t in range(4):
        model.predict_proba_one({"x": t})
        model.learn_one({"x": t}, t % 2)


@step("engine")
def warm_engine() -> None:
    """Keys with hints, together and alone, whose outcomes may be shares, or classes."""
    for config in (KeyConfig(), KeyConfig(horizon=N_ROUNDS), KeyConfig(lanes=2)):
        with Engine(config=EngineConfig(config)) as engine:
            for t, value in enumerate((0, 1, 0.5)):
                engine.handle([Query(f"q{t}", "k", 0.8), Outcome(f"q{t}", value)])
    # fewer hot keys than keys: some are written away and come back
    with Engine(hot_keys=N_ROUNDS // 2) as engine:
        asks = [b'{"type":"query","id":"q%d","key":"k%d"}\n' % (t, t) for t in range(N_ROUNDS)]
        tells = [b'{"type":"outcome","id":"q%d","value":1}\n' % t for t in range(2, N_ROUNDS)]
        # events that are handled alone among many
        tells += [
            b'{"type":"query","id":"a\\/b","key":"k2"}\n',
            b'{"type":"withdraw","id":"q0"}\n',
            b'{"type":"outcome","id":"q1","value":0.5}\n',
        ]
        engine.handle_lines(b"".join(asks))
        engine.handle_lines(b"".join(tells))
        engine.overview()
    # keys that are all hot, one of which withdraws alone among many
    with Engine() as engine:
        engine.handle_lines(b"".join(asks))
        engine.handle_lines(b"".join(asks).replace(b'"q', b'"r'))
        engine.handle_lines(b"".join(tells))
    with Engine(config=EngineConfig(KeyConfig(kind="simplex"))) as engine:
        for t, label in enumerate("aba"):
            engine.handle([Query(f"q{t}", "k", {"a": 0.8, "b": 0.2}), Outcome(f"q{t}", label)])


@step("distance to calibration")
def warm_distance() -> None:
    """The distance to calibration, of short and of long histories."""
    onlinecal.calibration_distance(FORECASTS[:20], OUTCOMES[:20])
    onlinecal.calibration_distance(FORECASTS, OUTCOMES, method="bracket", budget=0.1)


@step("other measures")
def warm_measures() -> None:
    """The other measures."""
    measures.smooth_calibration_error(FORECASTS, OUTCOMES)
    measures.multicalibration_error(FORECASTS, OUTCOMES, np.ones((N_ROUNDS, 1), bool))
    measures.multiclass_calibration_distance(CLASS_FORECASTS, LABELS, budget=0.1)
    measures.lp_calibration_error(CLASS_FORECASTS, LABELS)
    measures.lp_calibration_report(CLASS_FORECASTS, LABELS)
    measures.lp_calibration_interval(CLASS_FORECASTS, LABELS, n_resamples=2)


@step("LpRecalibrator")
def warm_lp_recalibrator() -> None:
    """Recalibration level set by level set."""
    onlinecal.LpRecalibrator(epsilon=0.5).fit(CLASS_FORECASTS, LABELS).predict_proba(CLASS_FORECASTS)
    onlinecal.LpRecalibrator(start="vector").fit(CLASS_FORECASTS, LABELS)


@step("DecisionRecalibrator")
def warm_decision_recalibrator() -> None:
    """Recalibration for decision makers, and the errors that they see."""
    onlinecal.DecisionRecalibrator(n_actions=2).fit(CLASS_FORECASTS, LABELS).predict_proba(CLASS_FORECASTS)
    onlinecal.decision_calibration_error(CLASS_FORECASTS, LABELS, n_actions=2)
    onlinecal.decision_loss_gap(CLASS_FORECASTS, LABELS, 1.0 - np.eye(3))
    row_losses(CLASS_FORECASTS, LABELS, 1.0 - np.eye(3)[None])


@step("GroupRecalibrator")
def warm_group_recalibrator() -> None:
    """Recalibration for overlapping groups, with the patches that are compiled, and boosting."""
    groups = np.column_stack([np.ones(N_ROUNDS, bool), FORECASTS < 0.5])
    onlinecal.GroupRecalibrator(cv=2).fit(FORECASTS, ~OUTCOMES, groups).predict_proba(FORECASTS, groups)
    onlinecal.BoostedRecalibrator(cv=2).fit(groups, OUTCOMES, FORECASTS).predict_proba(groups, FORECASTS)


@step("CalibrationAlarm")
def warm_alarm() -> None:
    """The alarm, round by round and on arrays, past its first alarm."""
    alarm = onlinecal.CalibrationAlarm(0.5)
    alarm.update_many(FORECASTS, OUTCOMES)
    while alarm.n_rounds < N_ROUNDS + 10:
        alarm.update(0.5, True)
