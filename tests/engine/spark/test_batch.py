import numpy as np
import pytest

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

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

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
    from onlinecal.engine.spark import distances

    answer = distances(table, "p", "y", by=["shop", "hour"], budget=0.2)
    found = {(row.shop, row.hour): row for row in answer.collect()}
    parts = dict(list(rounds.fillna({"shop": "nobody"}).groupby(["shop", "hour"])))
    assert len(found) == len(parts) == 8
    for (shop, hour), part in parts.items():
        row = found[None if shop == "nobody" else shop, hour]
        p, y = part["p"].to_numpy(), part["y"].to_numpy()
        local = calibration_distance(p, y, budget=0.2)
        assert (row.rounds, row.ones, row.distinct) == (len(y), y.sum(), len(np.unique(p)))
        assert (row.distance_lower, row.distance_upper) == (local.lower, local.upper)
        assert row.exact == (local.exact is not None)
        assert row.ece == expected_calibration_error(p, y, normalize=False)
        assert row.smooth == smooth_calibration_error(p, y, normalize=False)
        assert row.brier == pytest.approx(float(np.sum((p - y) ** 2)), rel=1e-13)


def test_without_groups_all_rounds_are_measured_together(table, rounds):
    from onlinecal.engine.spark.tables import MEASURES, distances

    answer = distances(table, "p", "y")
    assert answer.columns == list(MEASURES)
    (row,) = answer.collect()
    local = calibration_distance(rounds["p"], rounds["y"], budget=0.1)
    assert (row.rounds, row.distance_lower, row.distance_upper) == (3000, local.lower, local.upper)


def test_a_rough_bracket_still_contains_the_distance(spark):
    from onlinecal.engine.spark import distances

    rng = np.random.default_rng(3)
    p = rng.random(400)
    y = rng.random(400) < 0.3 + 0.4 * p
    rows = spark.createDataFrame(
        list(zip(p.tolist(), y.tolist(), strict=True)), "forecast double, outcome boolean"
    )
    rough = distances(rows, budget=0.01, rtol=0.5).first()
    exact = calibration_distance(p, y, method="exact").exact
    assert rough.distance_lower <= exact <= rough.distance_upper
    assert not rough.exact
    assert rough.distance_lower < rough.distance_upper


def test_very_long_groups_are_measured_without_their_rounds_in_memory():
    from onlinecal.engine.spark.tables import measures_of_counts
    from onlinecal.measures.counts import check_counts

    counts = check_counts([0.2, 0.4, 0.9], [10**9, 10**8, 10**7], [3 * 10**8, 10**8, 10**8])
    found = measures_of_counts(counts, budget=0.1, rtol=0.0)
    assert found["rounds"] == 1_610_000_000
    assert 0 < found["distance_lower"] <= found["distance_upper"] <= found["ece"] * (1 + 1e-12)
    assert found["smooth"] <= 2 * found["distance_upper"]


def test_group_values_keep_their_types_and_any_name_will_do(spark):
    from datetime import date
    from decimal import Decimal

    from onlinecal.engine.spark import distances

    rows = [(2**60 + 1, date(2025, 1, 2), Decimal("1.10"), 0.5, 1), (None, None, None, 0.5, 0)]
    schema = "`a.b` long, `the ``day``` date, price decimal(5,2), p double, y int"
    answer = distances(spark.createDataFrame(rows, schema), "p", "y", by=["a.b", "the `day`", "price"])
    assert {tuple(row)[:5] for row in answer.collect()} == {(*rows[0][:3], 1, 1), (None, None, None, 1, 0)}


@pytest.mark.parametrize(
    "p, y, message",
    [
        (float("nan"), 1, r"forecast column 'p' must lie in \[0, 1\], got nan .*: 2\)"),
        (None, 1, r"forecast column 'p' must lie in \[0, 1\], got null .*: 2\)"),
        (-0.25, 1, r"forecast column 'p' must lie in \[0, 1\], got -0.25 .*: 2\)"),
        (0.5, 2.0, r"outcome column 'y' must be 0/1 or boolean, got 2.0 .*: 2\)"),
        (0.5, float("nan"), r"outcome column 'y' must be 0/1 or boolean, got nan .*: 2\)"),
        (0.5, None, r"outcome column 'y' must be 0/1 or boolean, got null .*: 2\)"),
    ],
)
def test_bad_values_are_refused_at_once_with_their_column_and_number(spark, p, y, message):
    from onlinecal.engine.spark import distances

    rows = spark.createDataFrame([(0.5, 1.0), (p, y and float(y)), (p, y and float(y))], "p double, y double")
    with pytest.raises(ValueError, match=message):
        distances(rows, "p", "y")


def test_requests_that_cannot_be_met_are_refused(spark, table, rounds):
    from onlinecal.engine.spark import distances

    with pytest.raises(ValueError, match="table must be a Spark data frame, got DataFrame"):
        distances(rounds, "p", "y")
    with pytest.raises(ValueError, match="forecast names the column 'q', which is not among 'shop', 'hour'"):
        distances(table, "q", "y")
    with pytest.raises(ValueError, match="outcome: column 'shop' must hold numbers, but it holds string"):
        distances(table, "p", "shop")
    with pytest.raises(ValueError, match="by must name different columns, got 'hour' twice"):
        distances(table, "p", "y", by=["hour", "hour"])
    with pytest.raises(ValueError, match="by must not name 'ece'"):
        distances(table.withColumnRenamed("hour", "ece"), "p", "y", by="ece")
    with pytest.raises(ValueError, match="forecast names the column 'p', which is there twice"):
        distances(table.select("p", "p", "y"), "p", "y")
    with pytest.raises(ValueError, match="budget must be positive, got 0"):
        distances(table, "p", "y", budget=0)
    with pytest.raises(ValueError, match="table has no rows"):
        distances(table.where("p > 2"), "p", "y")


@pytest.mark.filterwarnings("ignore::onlinecal.recalibration.lp.recalibrator.SampleSizeWarning")
@pytest.mark.parametrize("make", [LpRecalibrator, DecisionRecalibrator])
def test_recalibrated_rows_are_those_of_one_machine_bit_for_bit(spark, make):
    from onlinecal.engine.spark import recalibrated

    P, y = predictions(500, 3, 0)
    fitted = make(epsilon=0.02).fit(P, y)
    fresh, _ = predictions(301, 3, 1)
    wanted = fitted.predict_proba(fresh)
    rows = as_table(spark, fresh, row=range(301))
    # batches of every size, and a last one of a single row
    spark.conf.set(BATCH_ROWS, "7")
    try:
        apart = recalibrated(rows, fitted, ["c0", "c1", "c2"], into="better")
        assert apart.columns == ["c0", "c1", "c2", "row", "better_c0", "better_c1", "better_c2"]
        for j in range(3):
            np.testing.assert_array_equal(collected(apart, f"better_c{j}"), wanted[:, j])
        packed = rows.selectExpr("row", "array(c0, c1, c2) AS P")
        np.testing.assert_array_equal(collected(recalibrated(packed, fitted, "P"), "recalibrated"), wanted)
    finally:
        spark.conf.unset(BATCH_ROWS)


def test_a_group_recalibrator_finds_its_groups_in_their_columns(spark, rounds, table):
    from onlinecal.engine.spark import recalibrated

    fitted = GroupRecalibrator(alpha=0.001).fit(rounds["p"], rounds["y"], rounds[["shop", "hour"]])
    wanted = fitted.predict(rounds["p"], rounds[["shop", "hour"]])
    is_half, is_north = rounds["p"] == 0.5, rounds["shop"] == "north"
    assert wanted[is_half & is_north].max() < wanted[is_half & ~is_north].min() - 0.1
    rows = spark.createDataFrame(rounds.assign(row=range(len(rounds))))
    answer = recalibrated(rows, fitted, "p", groups=["shop", "hour"])
    np.testing.assert_array_equal(collected(answer, "recalibrated"), wanted)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.filterwarnings("error::UserWarning")
def test_a_boosted_recalibrator_takes_features_and_initial_forecasts(spark, named):
    import pandas as pd

    from onlinecal.engine.spark import recalibrated

    rng = np.random.default_rng(2)
    X = pd.DataFrame({"age": rng.random(800), "size": rng.integers(0, 5, 800)})
    y = (rng.random(800) < 0.2 + 0.15 * X["size"]).astype(int)
    start = np.full(800, 0.5)
    known = X if named else X.to_numpy()
    fitted = BoostedRecalibrator.as_in_paper(alpha=0.01).fit(known, y, initial=start)
    wanted = fitted.predict(known, initial=start)
    rows = spark.createDataFrame(X.assign(row=range(800), start=start))
    answer = recalibrated(rows, fitted, ["age", "size"], initial="start")
    np.testing.assert_array_equal(collected(answer, "recalibrated"), wanted)


def test_recalibrators_are_refused_what_they_were_not_fitted_on(spark, table, rounds):
    from onlinecal.engine.spark import recalibrated

    P, y = predictions(200, 3, 0)
    rows = as_table(spark, P, name="x")
    fitted = DecisionRecalibrator(epsilon=0.1).fit(P, y)
    three = ["c0", "c1", "c2"]
    with pytest.raises(ValueError, match="not fitted"):
        recalibrated(rows, DecisionRecalibrator(), three)
    with pytest.raises(ValueError, match="columns must be the 3 columns of the fit, got 2"):
        recalibrated(rows, fitted, three[:2])
    with pytest.raises(ValueError, match="columns names the column 'c3'"):
        recalibrated(rows, fitted, ["c0", "c1", "c3"])
    with pytest.raises(ValueError, match="column 'name' must hold numbers, but it holds string"):
        recalibrated(rows, fitted, ["c0", "c1", "name"])
    with pytest.raises(ValueError, match="'c0' alone must hold arrays of probabilities, but it holds double"):
        recalibrated(rows, fitted, "c0")
    with pytest.raises(ValueError, match="groups must be given for a GroupRecalibrator and for no other"):
        recalibrated(rows, fitted, three, groups="name")
    with pytest.raises(ValueError, match="initial goes with a BoostedRecalibrator only, got 'c0'"):
        recalibrated(rows, fitted, three, initial="c0")
    with pytest.raises(ValueError, match="into must make new columns, but the table has 'name'"):
        recalibrated(rows, fitted, three, into="name")
    with pytest.raises(ValueError, match="recalibrator must have predict_proba, got 3"):
        recalibrated(rows, 3, three)
    with pytest.raises(ValueError, match="table must be a Spark data frame, got ndarray"):
        recalibrated(P, fitted, three)
    grouped = GroupRecalibrator().fit(rounds["p"], rounds["y"], rounds[["shop"]])
    with pytest.raises(ValueError, match="groups must be given for a GroupRecalibrator"):
        recalibrated(table, grouped, "p")
    with pytest.raises(ValueError, match="groups and columns together must name different columns, got 'p'"):
        recalibrated(table, grouped, "p", groups=["shop", "p"])
    with pytest.raises(ValueError, match="columns must be one column of forecasts"):
        recalibrated(table, grouped, ["p", "y"], groups="shop")


def test_a_bad_probability_is_named_when_the_answer_is_used(spark):
    from pyspark.errors import PySparkException

    from onlinecal.engine.spark import recalibrated

    P, y = predictions(200, 2, 0)
    fitted = DecisionRecalibrator(epsilon=0.1).fit(P, y)
    P[3] = 0.7, 0.7
    with pytest.raises(PySparkException, match=r"P must sum to 1 in every row, got 1\.4"):
        recalibrated(as_table(spark, P), fitted, ["c0", "c1"]).collect()


def test_workers_of_this_session_run_what_the_driver_runs(spark):
    from onlinecal.engine.spark import check_workers

    check_workers(spark)


def test_a_driver_of_another_version_is_refused_by_its_workers(spark, monkeypatch):
    import onlinecal
    from onlinecal.engine.spark import check_workers

    monkeypatch.setattr(onlinecal, "__version__", "99.0")
    with pytest.raises(
        ValueError, match=r"onlinecal is 0\..* for the worker's Python .*, 99\.0 for the driver"
    ):
        check_workers(spark)


def test_missing_java_is_said_before_spark_starts(monkeypatch, tmp_path):
    from onlinecal.engine.spark.session import check_java

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ValueError, match="Spark needs Java 17 or newer, but JAVA_HOME is"):
        check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="there is no java on the PATH"):
        check_java()


def test_missing_pyspark_is_said_with_what_installs_it(monkeypatch):
    from onlinecal.engine.spark import session

    monkeypatch.setattr(session, "find_spec", lambda name: None)
    with pytest.raises(
        ValueError, match=r"pyspark is missing: in a checkout of onlinecal, pip install '.\[spark\]'"
    ):
        session.local_session()
