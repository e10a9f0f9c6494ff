"""Tables on Spark: distances of groups are those of one machine."""

from datetime import date
from decimal import Decimal

import numpy as np
import pytest

from onlinecal.engine import spark as on_spark
from onlinecal.measures import (
    calibration_distance,
    expected_calibration_error,
    smooth_calibration_error,
)

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")


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
    with pytest.raises(ValueError, match=rf"{message} .*: 2\)"):
        on_spark.distances(rows, "p", "y")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"forecast": "q"}, "forecast names the column 'q', which is not among 'shop', 'hour'"),
        ({"outcome": "shop"}, "outcome: column 'shop' must hold numbers, but it holds string"),
        ({"by": ["hour", "hour"]}, "by must name different columns, got 'hour' twice"),
        ({"by": "ece"}, "by must not name 'ece'"),
        ({"budget": 0}, "budget must be positive, got 0"),
        ({"table": ["p", "p", "y"]}, "forecast names the column 'p', which is there twice"),
        ({"table": "p > 2"}, "table has no rows"),
    ],
)
def test_distances_that_cannot_be_are_refused(table, given, message):
    rows, some = table.withColumn("ece", table.p), given.get("table", ["*"])
    rows = rows.where(some) if isinstance(some, str) else rows.select(*some)
    with pytest.raises(ValueError, match=message):
        on_spark.distances(**{"forecast": "p", "outcome": "y", **given, "table": rows})


def test_missing_java_or_pyspark_is_said_before_spark_starts(monkeypatch, tmp_path):
    from onlinecal.engine.spark import session

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ValueError, match="Spark needs Java 17 or newer, but JAVA_HOME is"):
        session.check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="there is no java on the PATH"):
        session.check_java()
    monkeypatch.setattr(session, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pyspark is missing: .*, pip install '.\[spark\]'"):
        session.local_session()
