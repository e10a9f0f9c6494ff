"""Tables on Spark: distances of groups and recalibrated rows are those of one machine.

These take half a minute; `test_without_spark.py` has their small forms.
"""

from datetime import date
from decimal import Decimal

import numpy as np
import pytest

from onlinecal.engine import spark as on_spark
from onlinecal.engine.spark.tables import INITIAL
from onlinecal.measures import (
    calibration_distance,
    expected_calibration_error,
    smooth_calibration_error,
)
from onlinecal.recalibration import (
    BoostedRecalibrator,
    DecisionRecalibrator,
    GroupRecalibrator,
    LpRecalibrator,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"


@pytest.fixture(scope="module")
def rounds():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(5)
    n = 3000
    shop, hour = rng.choice(["north", "south", "east"], n), rng.integers(0, 2, n)
    frame = pd.DataFrame({"shop": shop, "hour": hour, "p": rng.integers(0, 21, n) / 20})
    frame["y"] = (rng.random(n) < frame["p"] ** np.where(shop == "north", 3.0, 1.0)).astype(int)
    # a group of few rounds, whose distance the plain lattice finds
    frame.loc[:29, "shop"] = None
    return frame


@pytest.fixture(scope="module")
def table(spark, rounds):
    return spark.createDataFrame(rounds).cache()


def predictions(n, k, seed):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(k), n)
    y = np.array([rng.choice(k, p=row**2 / np.sum(row**2)) for row in P])
    return P, y


def as_table(spark, P, **columns):
    import pandas as pd

    return spark.createDataFrame(pd.DataFrame({f"c{j}": P[:, j] for j in range(P.shape[1])} | columns))


def collected(answer, column):
    return np.array([row[column] for row in answer.orderBy("row").select(column).collect()])


def test_every_group_is_measured_as_on_one_machine(table, rounds):
    answer = on_spark.distances(table, "p", "y", by=["shop", "hour"], budget=0.2)
    found = {(row.shop, row.hour): row for row in answer.collect()}
    parts = dict(list(rounds.fillna({"shop": "nobody"}).groupby(["shop", "hour"])))
    assert len(found) == len(parts) == 8
    whole = on_spark.distances(table, "p", "y", budget=0.2).first()
    pairs = [(found[None if shop == "nobody" else shop, hour], part) for (shop, hour), part in parts.items()]
    for row, part in (*pairs, (whole, rounds)):
        p, y = part["p"].to_numpy(), part["y"].to_numpy()
        local = calibration_distance(p, y, budget=0.2)
        assert (row.rounds, row.ones, row.distinct) == (len(y), y.sum(), len(np.unique(p)))
        assert (row.distance_lower, row.distance_upper) == (local.lower, local.upper)
        assert row.exact == (local.exact is not None)
        assert row.ece == expected_calibration_error(p, y, normalize=False)
        assert row.smooth == smooth_calibration_error(p, y, normalize=False)
        assert row.brier == pytest.approx(float(np.sum((p - y) ** 2)), rel=1e-13)


def test_group_values_keep_their_types_and_any_name_will_do(spark):
    rows = [(2**60 + 1, date(2025, 1, 2), Decimal("1.10"), 0.5, 1), (None, None, None, 0.5, 0)]
    schema = "`a.b` long, `the ``day``` date, price decimal(5,2), p double, y int"
    table = spark.createDataFrame(rows, schema)
    answer = on_spark.distances(table, "p", "y", by=["a.b", "the `day`", "price"])
    assert {tuple(row)[:5] for row in answer.collect()} == {(*rows[0][:3], 1, 1), (None, None, None, 1, 0)}


NO_FORECAST = r"column 'p' must lie in \[0, 1\], got {}"
NO_OUTCOME = "column 'y' must be 0/1 or boolean, got {}"


@pytest.mark.parametrize(
    "p, y, message",
    [
        (float("nan"), 1.0, NO_FORECAST.format("nan")),
        (None, 1.0, NO_FORECAST.format("null")),
        (-0.25, 1.0, NO_FORECAST.format("-0.25")),
        (0.5, 2.0, NO_OUTCOME.format("2.0")),
        (0.5, float("nan"), NO_OUTCOME.format("nan")),
        (0.5, None, NO_OUTCOME.format("null")),
    ],
)
def test_bad_values_are_refused_at_once_with_their_column_and_number(spark, p, y, message):
    rows = spark.createDataFrame([(0.5, 1.0), (p, y), (p, y)], "p double, y double")
    with pytest.raises(ValueError, match=rf"{message} \(bad in 2 of the rows\): correct"):
        on_spark.distances(rows, "p", "y")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"forecast": "q"},
            "names the column 'q', which the table does not have; it has 'shop', 'hour'",
        ),
        ({"outcome": "shop"}, "outcome: column 'shop' must hold numbers, but it holds string"),
        ({"by": ["hour", "hour"]}, "by must name different columns, got 'hour' twice"),
        ({"by": "ece"}, "by must not name 'ece'"),
        ({"budget": 0}, "budget must be a positive number, got 0"),
        ({"table": ["p", "p", "y"]}, "forecast names the column 'p', which the table has twice"),
        ({"table": "p > 2"}, "table has no rows"),
    ],
)
def test_distances_that_cannot_be_are_refused(table, given, message):
    rows, some = table.withColumn("ece", table.p), given.get("table", ["*"])
    rows = rows.where(some) if isinstance(some, str) else rows.select(*some)
    with pytest.raises(ValueError, match=message):
        on_spark.distances(**{"forecast": "p", "outcome": "y", **given, "table": rows})


@pytest.mark.filterwarnings("ignore::onlinecal.recalibration.lp.recalibrator.SampleSizeWarning")
@pytest.mark.parametrize("make", [LpRecalibrator, DecisionRecalibrator])
def test_recalibrated_rows_are_those_of_one_machine_bit_for_bit(spark, make):
    P, y = predictions(500, 3, 0)
    fitted = make(epsilon=0.02).fit(P, y)
    fresh, _ = predictions(301, 3, 1)
    wanted = fitted.predict_proba(fresh)
    rows = as_table(spark, fresh, row=range(301))
    # batches of every size, and a last one of a single row
    spark.conf.set(BATCH_ROWS, "7")
    try:
        apart = on_spark.recalibrated(rows, fitted, ["c0", "c1", "c2"], into="better")
        assert apart.columns == ["c0", "c1", "c2", "row", "better_c0", "better_c1", "better_c2"]
        for j in range(3):
            np.testing.assert_array_equal(collected(apart, f"better_c{j}"), wanted[:, j])
        packed = rows.selectExpr("row", "array(c0, c1, c2) AS P")
        together = on_spark.recalibrated(packed, fitted, "P")
        np.testing.assert_array_equal(collected(together, "recalibrated"), wanted)
    finally:
        spark.conf.unset(BATCH_ROWS)


def test_a_group_recalibrator_finds_its_groups_in_their_columns(spark, rounds, table):
    fitted = GroupRecalibrator(alpha=0.001).fit(rounds["p"], rounds["y"], rounds[["shop", "hour"]])
    wanted = fitted.predict_proba(rounds["p"], rounds[["shop", "hour"]])
    is_half, is_north = rounds["p"] == 0.5, rounds["shop"] == "north"
    assert wanted[is_half & is_north].max() < wanted[is_half & ~is_north].min() - 0.1
    rows = spark.createDataFrame(rounds.assign(row=range(len(rounds))))
    answer = on_spark.recalibrated(rows, fitted, "p", groups=["shop", "hour"])
    np.testing.assert_array_equal(collected(answer, "recalibrated"), wanted)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.filterwarnings("error::UserWarning")
def test_a_boosted_recalibrator_takes_features_and_initial_forecasts(spark, named):
    import pandas as pd

    rng = np.random.default_rng(2)
    X = pd.DataFrame({"age": rng.random(800), "size": rng.integers(0, 5, 800)})
    y = (rng.random(800) < 0.2 + 0.15 * X["size"]).astype(int)
    start = np.full(800, 0.5)
    known = X if named else X.to_numpy()
    fitted = BoostedRecalibrator.as_in_paper(alpha=0.01).fit(known, y, initial=start)
    wanted = fitted.predict_proba(known, initial=start)
    rows = spark.createDataFrame(X.assign(row=range(800), start=start))
    answer = on_spark.recalibrated(rows, fitted, ["age", "size"], initial="start")
    np.testing.assert_array_equal(collected(answer, "recalibrated"), wanted)


def test_a_column_may_have_the_name_that_initial_forecasts_travel_under(spark):
    P, y = predictions(200, 2, 0)
    fitted = DecisionRecalibrator(epsilon=0.1).fit(P, y)
    rows = as_table(spark, P, row=range(200)).withColumnRenamed("c1", INITIAL)
    answer = on_spark.recalibrated(rows, fitted, ["c0", INITIAL])
    wanted = fitted.predict_proba(P)
    np.testing.assert_array_equal(collected(answer, f"recalibrated_{INITIAL}"), wanted[:, 1])


THREE = ["c0", "c1", "c2"]


@pytest.fixture(scope="module")
def fitted(spark, rounds):
    """Rows of three classes and of groups, and what was fitted on each."""
    P, y = predictions(200, 3, 0)
    rows = as_table(spark, P, name="x", p=0.5)
    groups = GroupRecalibrator().fit(rounds["p"], rounds["y"], rounds[["shop"]])
    features, came = np.arange(400.0).reshape(200, 2), np.arange(200) % 2
    start = np.full(200, 0.5)
    return {
        "rows": rows,
        "classes": DecisionRecalibrator(epsilon=0.1).fit(P, y),
        "groups": groups,
        "matrix": GroupRecalibrator().fit(rounds["p"], rounds["y"], rounds[["hour"]].to_numpy() == 1),
        "features": BoostedRecalibrator(cv=2).fit(features, came),
        "forecasts": BoostedRecalibrator(cv=2).fit(features, came, start),
    }


@pytest.mark.parametrize(
    ("what", "columns", "given", "message"),
    [
        (DecisionRecalibrator(), THREE, {}, "not fitted"),
        (3, THREE, {}, "recalibrator must have predict_proba, got 3"),
        ("classes", THREE[:2], {}, "columns must be the 3 columns of the fit, got 2"),
        ("classes", ["c0", "c1", "c3"], {}, "columns names the column 'c3'"),
        ("classes", ["c0", "c1", "name"], {}, "'name' must hold numbers, but it holds string"),
        ("classes", "c0", {}, "'c0' alone must hold arrays of probabilities, but it holds double"),
        ("classes", THREE, {"groups": "name"}, "groups must be given for a GroupRecalibrator and"),
        ("classes", THREE, {"initial": "c0"}, "initial goes with a BoostedRecalibrator only, got 'c0'"),
        ("classes", THREE, {"into": "name"}, "into must make new columns, but the table has 'name'"),
        ("groups", "p", {}, "groups must be given for a GroupRecalibrator"),
        ("groups", "p", {"groups": ["name", "p"]}, "together must name different columns, got 'p'"),
        ("groups", ["p", "c0"], {"groups": "name"}, "columns must be the name of one column of forecasts"),
        ("groups", "p", {"groups": "name"}, "groups must have the column 'shop', which it had in fit"),
        ("matrix", "p", {"groups": ["name", "c0"]}, "groups must have the 1 columns of fit, got 2"),
        ("classes", [], {}, r"columns is empty, \[\]: name at least one"),
        ("features", ["c0", "name"], {}, "column 'name' must hold no texts, as it held none in the fit, but"),
        ("features", ["c0", "c1"], {"initial": "p"}, "initial must be left out, got 'p': fit was given none"),
        ("forecasts", ["c0", "c1"], {}, "initial must be given, got None"),
    ],
)
def test_recalibrators_are_refused_other_columns(fitted, what, columns, given, message):
    recalibrator = fitted[what] if isinstance(what, str) else what
    with pytest.raises(ValueError, match=message):
        on_spark.recalibrated(fitted["rows"], recalibrator, columns, **given)


def test_a_bad_probability_is_named_when_the_answer_is_used(spark):
    from pyspark.errors import PySparkException

    P, y = predictions(200, 2, 0)
    fitted = DecisionRecalibrator(epsilon=0.1).fit(P, y)
    P[3] = 0.7, 0.7
    with pytest.raises(PySparkException, match=r"X must sum to 1 in every row, got 1\.4"):
        on_spark.recalibrated(as_table(spark, P), fitted, ["c0", "c1"]).collect()


def test_workers_of_the_version_of_the_driver_are_fine_and_others_are_refused(spark, monkeypatch):
    import onlinecal

    on_spark.check_workers(spark)
    monkeypatch.setattr(onlinecal, "__version__", "99.0")
    told = r"onlinecal is 0\..* for the worker's Python .*, 99\.0 for the driver"
    with pytest.raises(ValueError, match=told):
        on_spark.check_workers(spark)
