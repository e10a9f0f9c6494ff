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

import onlinecal
from onlinecal import (
    AlmostOneStepAhead,
    BinnedMean,
    BoostedRecalibrator,
    CalibratedClassifier,
    CalibratedDistribution,
    CalibratedRegressor,
    CalibrationAlarm,
    CalibrationMonitor,
    CombinedClassifier,
    DecisionCalibratedClassifier,
    DecisionRecalibrator,
    GroupCalibratedClassifier,
    GroupRecalibrator,
    LpCalibratedClassifier,
    LpRecalibrator,
    OneStepAhead,
    PlattScaling,
    RecalibratedClassifierCV,
    SimplexAlmostOneStepAhead,
    brier_decomposition,
    calibration_distance,
    chance_level,
    combine_forecasts,
    decision_calibration_error,
    expected_calibration_error,
    multicalibration_error,
    recalibrate_stream,
)
from onlinecal import Nonsense  # error: attr-defined
from onlinecal import plots
from onlinecal.engine import archive_ledger, check_ledger, export_ledger, read_report, repair_ledger
from onlinecal.datasets import NBAGames
from onlinecal.engine import Archived, Check, Noted, Overview, Repaired, Report, Summary, Total
from onlinecal.engine import AsyncEngine, Engine, EngineConfig, Forecast, KeyConfig, Outcome, Query
from onlinecal.engine.spark import distances, streams  # error: attr-defined
from onlinecal.forecasters import FosterForecaster, RunningMean, SimplexForecast
from onlinecal.forecasters.baselines import MinimaxForecaster
from onlinecal.measures import Interval, lp_calibration_interval, smooth_calibration_error
from onlinecal.measures.distance import CalibrationDistance
from onlinecal.metrics import ECE, Brier
from onlinecal.plots import level_sets, running_biases
from onlinecal.recalibration import (
    AveragedCalibration,
    BetaCalibration,
    PerClassIsotonic,
    TemperatureScaling,
    VectorScaling,
    epsilon_for,
)
from onlinecal.wrappers import WrappedForecast

p, y = np.full(4, 0.5), [0, 1, 1, 0]
table = np.full((4, 3), 1 / 3)
model = LogisticRegression()

version: str = onlinecal.__version__
onlinecal.Nonsense  # error: attr-defined

forecaster = AlmostOneStepAhead(horizon=1000, rule="sign", report="hint", hints=True)
token = forecaster.forecast(hint=0.4)
forecaster.observe(token, np.bool_(True))
probability: float = token.probability
certificate: float = forecaster.certificate
AlmostOneStepAhead(horizon="ten", nonsense=3)  # error: arg-type call-arg
AlmostOneStepAhead(grid="dyadic")  # error: arg-type
AlmostOneStepAhead(report="middle")  # error: arg-type
AlmostOneStepAhead(hints="yes")  # error: arg-type
forecaster.observe(token)  # error: call-arg
forecaster.observe(token, "yes")  # error: arg-type
forecaster.observe(0.5, 1)  # error: arg-type
forecaster.certify()  # error: attr-defined
text: str = forecaster.certificate  # error: assignment
OneStepAhead(horizon=10, rule="balanced").answer(1)
OneStepAhead(report="hint")  # error: call-arg

joint = SimplexAlmostOneStepAhead(3, labels=["a", "b", "c"], hints=True)
several: SimplexForecast = joint.forecast({"a": 0.2, "b": 0.3, "c": 0.5})
joint.observe(several, "a")
SimplexAlmostOneStepAhead(n_classes="three")  # error: arg-type
SimplexAlmostOneStepAhead(report="midpoint")  # error: arg-type
SimplexAlmostOneStepAhead(3, grid="adaptive")
of_window: float | None = SimplexAlmostOneStepAhead(3, window=100).window_guarantee
SimplexAlmostOneStepAhead(3, grid="uniform")  # error: arg-type
joint.observe(token, "a")  # error: arg-type

MinimaxForecaster(horizon=100, seed=[1, 2])
FosterForecaster(seed="one")  # error: arg-type
RunningMean(at=0.5)  # error: call-arg

CalibratedClassifier(model, strategy="top-label", horizon=100)
CalibratedClassifier(model, strategy="tree").current_strategy.upper()
CalibratedClassifier(model, n_buckets="auto")
CalibratedClassifier(model, n_buckets="many")  # error: arg-type
CalibratedClassifier(model, expire_after=7, expire_as=False, classes=[False, True], prior=(0.5, 0.01))
CalibratedClassifier(model, expire_after="a week")  # error: arg-type
CalibratedClassifier(model, strategy="toplabel")  # error: arg-type
CalibratedClassifier(strategy="auto")  # error: call-arg
batched: CalibratedClassifier = CalibratedClassifier(model).partial_fit(table, y, classes=[0, 1])
whole: float = batched.predict_proba(table).sum()
batched.learn_many(DataFrame({"a": p}), y)
CalibratedClassifier(model, classes=2)  # error: arg-type
waiting: WrappedForecast = CalibratedClassifier(model, most_waiting=1000).forecast({"a": 1.0})
batched.observe(waiting, True)
batched.observe(0.5, True)  # error: arg-type
CalibratedClassifier(model, most_waiting="all")  # error: arg-type
batched.partial_fit(table)  # error: call-arg
regressor = LinearRegression()
mean: float = CalibratedRegressor(regressor, low=0, high=48.0, horizon=100).predict_one({"a": 1.0})
CalibratedRegressor(regressor, high="much")  # error: arg-type
CalibratedRegressor(model)  # error: arg-type
chances: dict[float, float] = CalibratedDistribution(regressor, [1, 2.5]).predict_distribution_one({})
CalibratedDistribution(regressor)  # error: call-arg
CalibratedDistribution(regressor, thresholds="low")  # error: arg-type
forecaster.observe(token, 0.5)
CalibrationMonitor().update(0.5, 0.25)
games = NBAGames()
game, won = next(iter(games))
lost: str = won  # error: assignment
NBAGames("nba.csv")  # error: call-arg
alarm = CalibrationAlarm(alpha=1e-3)
alarm.update(0.5, True)
if alarm.drift_detected:
    where: tuple[float, float, str, float] = alarm.finding
CalibrationAlarm(alpha="low")  # error: arg-type
BinnedMean(model, n_bins=2.5)  # error: arg-type
PlattScaling(model, rate=1)  # error: call-arg
DecisionCalibratedClassifier(model, losses=table, labels=["a", "b", "c"], memory="reservoir")
DecisionCalibratedClassifier(model, memory="all")  # error: arg-type
GroupCalibratedClassifier(model, groups={"young": lambda x: x["age"] < 9})
GroupCalibratedClassifier(model, groups=["sex", "region"], scheme="shared")
GroupCalibratedClassifier(model, groups=3)  # error: arg-type
GroupCalibratedClassifier(model, ["sex"], scheme="own")  # error: arg-type
LpCalibratedClassifier(model, within="shift", window=100)
LpCalibratedClassifier(model, estimation="plugin")  # error: arg-type
stream = recalibrate_stream(p, y, settled_at=[1, 1, 3, 3], groups=["a", "a", "b", "b"], slack=1.0)
worth: float = stream.report().brier_out
recalibrate_stream(p)  # error: call-arg
recalibrate_stream(table, ["a", "b"], strategy="classwise")
recalibrate_stream(table, ["a", "b"], strategy="joint")  # error: arg-type
stream.update(0.5)  # error: attr-defined
together = combine_forecasts({"one": p, "other": p}, y, settled_at=[1, 1, 3, 3], slack=1.0)
bound: float = together.report().regret_bound
combine_forecasts(p)  # error: call-arg
CombinedClassifier([model, model], most_waiting=10)
CombinedClassifier(model)  # error: arg-type

LpRecalibrator(p=2, estimation="pools", classes=["a", "b", "c"]).fit(table, y).predict_proba(table)
LpRecalibrator.as_in_paper(2, 0.05, start="beta").fit(table, y, sample_weight=p).predict(table)
LpRecalibrator(start="isotonic", share=0.5, limit=None, keep=0)
LpRecalibrator(within="nothing")  # error: arg-type
LpRecalibrator().fit(table)  # error: call-arg
DecisionRecalibrator(n_actions=3, losses=table, partition="hard", step="full")
DecisionRecalibrator(start="hot")  # error: arg-type
GroupRecalibrator(patch="shift", predicates=[lambda x: x["age"] < 9]).fit(p, y, table)
GroupRecalibrator(target="mean")  # error: arg-type
BoostedRecalibrator(step="log-odds").fit(table, y).predict(table)
BoostedRecalibrator(alpha="small")  # error: arg-type
RecalibratedClassifierCV(model, AveragedCalibration([TemperatureScaling()]), ensemble=False, n_jobs=2)
RecalibratedClassifierCV(model, LpRecalibrator(), cv=3).fit(table, y, sample_weight=p).predict_proba(table)
RecalibratedClassifierCV(model, ensemble="sometimes")  # error: arg-type
RecalibratedClassifierCV()  # error: call-arg
named = TemperatureScaling().fit(table, y).get_feature_names_out()
TemperatureScaling(classes=3)  # error: arg-type
BetaCalibration().fit(table, y, sample_weight=[1, 2])
VectorScaling(classes=["a", "b"]).fit(table, y).predict(table)
PerClassIsotonic().fit(table, y, weights=p)  # error: call-arg
enough: float = epsilon_for(1000, 2.0, estimation="plug-in")

distance: CalibrationDistance = calibration_distance(p, y, "exact", normalize=True, look_ahead=p)
calibration_distance(p, y, "fast")  # error: arg-type
calibration_distance(p)  # error: call-arg
error: float = expected_calibration_error(p, y, bins=10) + smooth_calibration_error(p, y)
by_chance: float = chance_level(p, "smooth", y, n_draws=9).mean + brier_decomposition(p, y).miscalibration
chance_level(p, lambda p, y: float(p @ y), seed=[1, 2], groups=y)
chance_level(p, "ace")  # error: arg-type
smooth_calibration_error(p, y, bins=10)  # error: call-arg
lp_calibration_interval(table, y, method="bootstrap").upper
lp_calibration_interval(table, y, method="jackknife")  # error: arg-type
decision_calibration_error(table, y, 2, partition="none")  # error: arg-type
multicalibration_error(p, y, table, levels=3)  # error: call-arg
monitor = CalibrationMonitor(resolution=100)
monitor.update(0.5, True)
monitor.update(0.5)  # error: call-arg
monitor.update(0.5, None)  # error: arg-type

axes: Axes = plots.reliability(p, y, bins=4, label="mine")
biases: DataFrame = plots.running_biases_data(p, y, rounds=[1, 4], bins=2)
plots.running_biases(p, y, axes, course=True)
plots.running_biases(p, y, axes, parts=2)  # error: call-arg
plots.level_sets(table, y, after=table, classes=["a", "b", "c"]).set_title("level sets")
plots.level_sets(table, y, n_levels="five")  # error: arg-type
plots.decision_losses(table, y, np.ones((2, 3)), ax=axes, color="black")
plots.decision_losses(table)  # error: call-arg
plots.group_biases(p, y, np.ones((4, 2), dtype=bool), names=["all", "all of them"])
plots.group_biases(p, y)  # error: call-arg
plots.group_mean_biases(p, y, np.ones((4, 2), dtype=bool), after=p, confidence=0.9)

Brier(pos_val="spam") + ECE(bins=10)
ECE(bins="ten")  # error: arg-type

with Engine(Path("ledger"), EngineConfig(default=KeyConfig(kind="simplex"))) as engine:
    answer = engine.query("1", "key", hint=0.4)
    if isinstance(answer, Forecast):
        engine.handle([Query("2", "key"), Outcome("1", 1)])
    engine.outcome("1")  # error: call-arg
    engine.query("1", "key", hint="high")  # error: arg-type
moved = archive_ledger("ledger", "older", keep=1000)
archived: int = 0 if moved is None else moved.events
exported: int = export_ledger(Path("ledger"), "table.parquet")
archive_ledger("ledger", "older", keep="all")  # error: arg-type
found: list[str] = check_ledger("ledger", archives=["older"]).problems


def glance(engine: Engine) -> Overview:
    together: Total = engine.total()
    one: Summary | None = engine.summary("key")
    wrong: Summary = engine.total()  # error: assignment
    noted: Noted | None = engine.noted("events.jsonl")
    return engine.overview()


checked: Check = check_ledger("ledger")
known: Archived | None = moved
saved: Repaired = repair_ledger("ledger", "saved")
shown: Report = read_report("ledger")
Engine(3)  # error: arg-type
KeyConfig(kind="ternary")  # error: arg-type
AsyncEngine(waiting=3)  # error: call-arg
