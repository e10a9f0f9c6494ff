"""A user's program, right and wrong: `tests/test_typing.py` has mypy find what is wrong, and nothing else.

It is never run. A line that mypy refuses ends with the codes of its errors.
"""
# ruff: noqa

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from polars import DataFrame
from river.linear_model import LinearRegression, LogisticRegression

import onlinecal as oc
from onlinecal import Nonsense  # error: attr-defined
from onlinecal import AlmostOneStepAhead, CalibratedClassifier, engine, forecasters, measures, metrics, plots
from onlinecal import recalibration, wrappers
from onlinecal.datasets import NBAGames
from onlinecal.engine.spark import distances, streams  # error: attr-defined
from onlinecal.measures.distance import DistanceBracket

p, y = np.full(4, 0.5), [0, 1, 1, 0]
table = np.full((4, 3), 1 / 3)
model, regressor = LogisticRegression(), LinearRegression()

version: str = oc.__version__
oc.Nonsense  # error: attr-defined

forecaster = AlmostOneStepAhead(horizon=1000, rule="sign", report="hint", hints=True)
token = forecaster.forecast(hint=0.4)
forecaster.observe(token, np.bool_(True))
forecaster.observe(token, 0.5)
probability: float = token.probability
text: str = forecaster.certificate  # error: assignment
AlmostOneStepAhead(horizon="ten", nonsense=3)  # error: arg-type call-arg
AlmostOneStepAhead(grid="dyadic")  # error: arg-type
forecaster.observe(token)  # error: call-arg
forecaster.observe(token, "yes")  # error: arg-type
oc.OneStepAhead(horizon=10, rule="balanced").answer(1)
oc.OneStepAhead(report="hint")  # error: call-arg

joint = oc.SimplexAlmostOneStepAhead(3, labels=["a", "b", "c"], hints=True)
several: forecasters.SimplexForecast = joint.forecast({"a": 0.2, "b": 0.3, "c": 0.5})
joint.observe(several, "a")
of_window: float | None = oc.SimplexAlmostOneStepAhead(3, window=100).window_guarantee
oc.SimplexAlmostOneStepAhead(3, grid="uniform")  # error: arg-type
joint.observe(token, "a")  # error: arg-type

forecasters.FosterForecaster(seed="one")  # error: arg-type

CalibratedClassifier(model, strategy="tree").current_strategy.upper()
CalibratedClassifier(model, expire_after=7, expire_as=False, classes=[False, True], prior=(0.5, 0.01))
online: oc.OnlineRecalibratedClassifier = oc.OnlineRecalibratedClassifier(model).partial_fit(table, y, [0, 1])
whole: float = online.predict_proba(table).sum()
batched = CalibratedClassifier(model)
batched.learn_many(DataFrame({"a": p}), y)
waiting: wrappers.WrappedForecast = CalibratedClassifier(model, n_buckets=4).forecast({"a": 1.0})
batched.observe(waiting, True)
CalibratedClassifier(model, expire_after="a week")  # error: arg-type
CalibratedClassifier(model, strategy="toplabel")  # error: arg-type
CalibratedClassifier(model, classes=2)  # error: arg-type
mean: float = oc.CalibratedRegressor(regressor, low=0, high=48.0, horizon=100).predict_one({"a": 1.0})
oc.CalibratedRegressor(model)  # error: arg-type
chances: dict[float, float] = oc.CalibratedDistribution(regressor, [1, 2.5]).predict_distribution_one({})
oc.DecisionCalibratedClassifier(model, memory="all")  # error: arg-type
oc.GroupCalibratedClassifier(model, groups={"young": lambda x: x["age"] < 9}, scheme="shared")
stream = oc.recalibrate_stream(p, y, settled_at=[1, 1, 3, 3], groups=["a", "a", "b", "b"], slack=1.0)
worth: float = stream.report().brier_out
oc.recalibrate_stream(table, ["a", "b"], strategy="joint")  # error: arg-type
together = oc.combine_forecasts({"one": p, "other": p}, y, settled_at=[1, 1, 3, 3], slack=1.0)
bound: float = together.report().regret_bound

alarm = oc.CalibrationAlarm(alpha=1e-3)
alarm.update(0.5, True)
if alarm.drift_detected:
    where: tuple[float, float, str, float] = alarm.finding
game, won = next(iter(NBAGames()))
metrics.Brier(pos_val="spam") + metrics.ECE(n_bins=10)

oc.LpRecalibrator(p=2, estimation="pools", classes=["a", "b", "c"]).fit(table, y).predict_proba(table)
oc.LpRecalibrator(within="nothing")  # error: arg-type
oc.DecisionRecalibrator(start="hot")  # error: arg-type
oc.GroupRecalibrator(patch="shift", predicates=[lambda x: x["age"] < 9]).fit(p, y, table)
recalibration.PerClassIsotonic().fit(table, y, weights=p)  # error: call-arg

distance: DistanceBracket = oc.calibration_distance(p, y, method="exact", normalize=True, look_ahead=p)
oc.calibration_distance(p, y, method="fast")  # error: arg-type
by_chance: float = oc.chance_level(p, "smooth", y, n_draws=9).mean
oc.chance_level(p, "ace")  # error: arg-type
measures.lp_calibration_interval(table, y, method="jackknife")  # error: arg-type
oc.CalibrationMonitor(n_bins=100).update(0.5, None)  # error: arg-type

axes: Axes = plots.reliability(p, y, n_bins=4, label="mine").ax
biases: DataFrame = plots.running_biases(p, y, ax=axes, rounds=[1, 4], n_bins=2).table

with engine.Engine(Path("ledger"), engine.EngineConfig(default=engine.KeyConfig(kind="simplex"))) as opened:
    answer = opened.query("1", "key", hint=0.4)
    if isinstance(answer, engine.Forecast):
        opened.handle([engine.Query("2", "key"), engine.Outcome("1", 1)])
    opened.outcome("1")  # error: call-arg
    opened.query("1", "key", hint="high")  # error: arg-type
    one: engine.Summary | None = opened.summary("key")
    wrong: engine.Summary = opened.total()  # error: assignment
found: list[str] = engine.check_ledger("ledger", archives=["older"]).problems
engine.archive_ledger("ledger", "older", keep="all")  # error: arg-type
engine.KeyConfig(kind="ternary")  # error: arg-type
