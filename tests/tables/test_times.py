"""Times of any format and kind: the same instants by one reader; what has two readings is refused."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import recalibrate_stream
from onlinecal.remarks import LabelWarning
from onlinecal.tables.rounds import Reading, known_from, read_rounds
from onlinecal.tables.times import INSTANT, read_times
from tests.properties import examples

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")

UTC = dt.UTC
MOMENTS = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))
STYLES = ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y/%m/%d %H:%M:%S"]
OFFSETS = st.integers(-14 * 60, 14 * 60)


def since_epoch(moment: dt.datetime) -> int:
    return (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)


def in_microseconds(times):
    return times.values if times.is_coarse else times.values // 1000


@st.composite
def written(draw):
    """A text that stands for an instant in one way, and its microseconds since 1970 in UTC."""
    moment, offset = draw(MOMENTS), draw(OFFSETS)
    digits = draw(st.sampled_from([0, 3, 6, 9]))
    moment = moment.replace(
        microsecond=moment.microsecond // 10 ** max(6 - digits, 0) * 10 ** max(6 - digits, 0)
    )
    text = moment.strftime(
        draw(st.sampled_from(["%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y/%m/%d %H:%M:%S"]))
    )
    if digits:
        text += draw(st.sampled_from(".,")) + f"{moment.microsecond:06d}000"[:digits]
    zone = draw(st.sampled_from(["Z", " Z", "UTC", " UTC", "offset", " offset"]))
    if "offset" in zone:
        sign, size = ("-" if offset < 0 else "+"), abs(offset)
        hours = f"{sign}{size // 60:02d}{draw(st.sampled_from([':', '']))}{size % 60:02d}"
        return text + zone.replace("offset", hours), since_epoch(moment - dt.timedelta(minutes=offset))
    return text + zone, since_epoch(moment)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(written(), min_size=1, max_size=6))
def test_texts_that_can_be_read_in_one_way_are_the_instants_that_they_say(rows):
    texts, right = zip(*rows, strict=True)
    found = read_times(list(texts), "times")
    assert found.kind == INSTANT
    assert in_microseconds(found).tolist() == list(right)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("01/02/2024", "read in two ways"),
        ("13/02/2024", "read in two ways"),
        ("1.2.2024 10:30", "read in two ways"),
        ("24-01-31", "two digits"),
        ("31.01.24", "two digits"),
        ("01-Aug-12", "two digits"),
        ("01 Aug 2012", "cannot be read"),
        ("Wed, 01 Aug 2012 10:00:00 +0000", "cannot be read"),
        ("2024-01-31 10:30 PM", "cannot be read"),
        ("2024-13-01", "cannot be read"),
        ("2024-02-30", "cannot be read"),
        ("2024-01-31T25:00", "cannot be read"),
        ("0024-01-31", "cannot be read"),
        ("2024-01-31 10:30 EST", "cannot be read"),
        ("2024-01-31T10:30+99:00", "cannot be read"),
        ("2024-01-31T10:30+02:75", "cannot be read"),
        ("2024-W05-1", "cannot be read"),
        ("10:30", "cannot be read"),
    ],
)
def test_other_texts_are_refused_by_row_with_the_remedy(text, words):
    for given_texts in (
        ["2024-01-31", text],
        pd.Series(["2024-01-31", text]),
        pa.array(["2024-01-31", text]),
    ):
        with pytest.raises(
            ValueError, match=rf"^times has '.*' at row 1, .*{words}.*: write times as 2024-01-31"
        ):
            read_times(given_texts, "times")


def test_times_of_one_column_have_zones_in_all_rows_or_in_none():
    with pytest.raises(ValueError, match="at row 1, without a zone where others have one"):
        read_times(["2024-01-31T10:00Z", "2024-01-31T10:00"], "times")
    with pytest.raises(ValueError, match="settled_at and times cannot be compared: times with a zone, as"):
        recalibrate_stream(
            [0.5] * 2, [0, 1], settled_at=["2024-01-02Z"[:10] + "T00:00Z"] * 2, times=["2024-01-01"] * 2
        )


START = pd.Timestamp("2024-03-31 00:00", tz="UTC")
MADE = pd.Series([START + pd.Timedelta(hours=6 * n) for n in range(8)])
SETTLED = MADE + pd.Timedelta(hours=7)
FORECASTS, OUTCOMES = [0.2, 0.7, 0.6, 0.1] * 2, [0, 1, 1, 0] * 2
NAIVE = MADE.dt.tz_localize(None), SETTLED.dt.tz_localize(None)
KINDS = {
    "of two zones": (MADE, SETTLED.dt.tz_convert("America/New_York")),
    "objects": (MADE.astype(object), SETTLED.astype(object)),
    "Python's": (MADE.dt.to_pydatetime().tolist(), SETTLED.dt.to_pydatetime().tolist()),
    "texts": (MADE.map(lambda one: one.isoformat()), SETTLED.map(lambda one: one.isoformat())),
    "without a zone": NAIVE,
    "numpy, in seconds": tuple(one.to_numpy().astype("M8[s]") for one in NAIVE),
    "numpy, in hours": tuple(one.to_numpy().astype("M8[h]") for one in NAIVE),
    "one finer": (NAIVE[0].to_numpy().astype("M8[s]"), NAIVE[1].to_numpy().astype("M8[ns]")),
    "periods": tuple(one.dt.to_period("h") for one in NAIVE),
    "spans": tuple(one.to_numpy() - NAIVE[0].to_numpy()[0] for one in NAIVE),
    "pyarrow": (pa.array(MADE), pa.array(SETTLED)),
    "pandas, pyarrow": tuple(
        pd.Series(one).convert_dtypes(dtype_backend="pyarrow") for one in (MADE, SETTLED)
    ),
    "polars": tuple(pl.Series(one.dt.to_pydatetime().tolist()) for one in NAIVE),
    "seconds": tuple(one.to_numpy().astype("M8[s]").astype(int) for one in NAIVE),
    "texts of seconds": tuple(one.to_numpy().astype("M8[s]").astype(int).astype(str) for one in NAIVE),
    "masked": tuple(np.ma.array(one.to_numpy().astype("M8[s]")) for one in NAIVE),
}


@pytest.mark.parametrize("kind", KINDS)
def test_times_of_every_kind_settle_the_same_rows(kind):
    times, settled = KINDS[kind]
    right = recalibrate_stream(FORECASTS, OUTCOMES, settled_at=[n + 1 for n in range(8)])
    found = recalibrate_stream(FORECASTS, OUTCOMES, settled_at=settled, times=times)
    assert found.probabilities.tolist() == right.probabilities.tolist()


@pytest.mark.parametrize("kind", ["of two zones", "objects", "without a zone", "periods", "pyarrow", "texts"])
def test_a_missing_outcome_needs_no_time(kind):
    times, settled = KINDS[kind]
    settled = pa.array(settled).to_pylist() if isinstance(settled, pa.Array) else settled
    holed = pd.Series(settled).copy()
    holed[2] = None
    if kind == "pyarrow":
        holed = pa.array(holed)
    outcomes = [0, 1, None, 0, 0, 1, 1, 0]
    right = recalibrate_stream(FORECASTS, outcomes, settled_at=[n + 1 for n in range(8)])
    found = recalibrate_stream(FORECASTS, outcomes, settled_at=holed, times=times)
    assert found.probabilities.tolist() == right.probabilities.tolist()
    with pytest.raises(ValueError, match="settled_at has no value at row 2"):
        recalibrate_stream(FORECASTS, OUTCOMES, settled_at=holed, times=times)


def test_whole_numbers_that_doubles_cannot_tell_apart_are_in_order():
    times = np.arange(2**60, 2**60 + 4)
    decimals = [Decimal(one) for one in times.tolist()]
    kinds = [times, times.tolist(), times.astype(str), pd.Series(times, dtype="Int64")]
    for given_times in (*kinds, decimals, pl.Series(decimals), pa.array(decimals)):
        assert read_times(given_times, "times").values.tolist() == times.tolist()


def test_a_span_in_place_of_times_is_told_what_to_do():
    for span in (dt.timedelta(30), np.timedelta64(30, "D"), 30):
        with pytest.raises(ValueError, match=r"settled_at must have a time for each row, got .*: a span"):
            recalibrate_stream(FORECASTS, OUTCOMES, settled_at=span)


def test_an_instant_before_the_first_year_is_refused_in_words():
    first = dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5)))
    with pytest.raises(
        ValueError, match=r"times has '0001-01-01 00:00:00\+05:00' at row 0, outside the years 1"
    ):
        read_times([first], "times")


def test_outcomes_that_no_forecast_knows_are_remarked_on():
    with pytest.warns(LabelWarning, match="no outcome is known before the last forecast.*settled_at"):
        report = recalibrate_stream(
            FORECASTS, OUTCOMES, settled_at=np.arange(8) * 1000 + 1000, times=np.arange(8)
        ).report()
    assert "nothing is learnt" in report.remarks[0]


UNREAD = ["%m/%d/%Y", "%d %b %Y", "%a, %d %b %Y 10:00:00 +0000", "%Y-%m-%d 10:00 PM", "%d.%m.%y"]
DAYS = [dt.date(2023, 12, 30) + dt.timedelta(days=n) for n in (3, 1, 4, 0, 2)]


def file_of(folder, form, days):
    frame = pl.DataFrame({"p": [0.1, 0.2, 0.3, 0.4, 0.5], "y": [0, 1, 0, 1, 0], "day": days})
    path = folder / f"a.{form}"
    if form == "json":
        path.write_text(json.dumps(frame.to_dicts(), default=str))
    else:
        {"csv": frame.write_csv, "jsonl": frame.write_ndjson, "parquet": frame.write_parquet}[form](path)
    return path


@pytest.mark.parametrize("form", ["csv", "jsonl", "json", "parquet"])
def test_files_of_all_formats_are_sorted_by_the_same_times(tmp_path, form):
    orders = {}
    for style in ("%Y-%m-%d", "%Y-%m-%dT00:00:00.50Z", "%Y-%m-%d 00:00:00 UTC"):
        path = file_of(tmp_path, form, [day.strftime(style) for day in DAYS])
        rounds = read_rounds(path, "y", ["p"], sort="day", more=["day"])
        orders[style] = rounds.forecasts["p"].tolist()
        assert known_from(rounds, "day", None, "day").tolist() == [1, 2, 3, 4, 5]
    assert set(map(tuple, orders.values())) == {(0.4, 0.2, 0.5, 0.1, 0.3)}


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    "style", ["%m/%d/%Y", "%d %b %Y", "%a, %d %b %Y 10:00:00 +0000", "%Y-%m-%d 10:00 PM", "%d.%m.%y"]
)
def test_no_column_of_texts_is_sorted_by_its_letters_unless_that_is_said(tmp_path, form, style):
    texts = [day.strftime(style) for day in DAYS]
    path = file_of(tmp_path, form, texts)
    with pytest.raises(ValueError, match=r"cannot sort by 'day', which has .* at row 0, .*letters:day"):
        read_rounds(path, "y", ["p"], sort="day")
    by_letters = read_rounds(path, "y", ["p"], sort="letters:day", reading=Reading())
    assert by_letters.frame["day"].to_list() == sorted(texts)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_row_without_a_time_is_named(tmp_path, form):
    for missing in ("NA", None):
        days = [missing if n == 2 else day.isoformat() for n, day in enumerate(DAYS)]
        with pytest.raises(ValueError, match="cannot sort by 'day', which has no value at row 2"):
            read_rounds(file_of(tmp_path, form, days), "y", ["p"], sort="day")
