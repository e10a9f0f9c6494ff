"""Columns go on: rows are added, outcomes of earlier ones told, files written; all as of one call."""

import warnings
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlinecal import CombinedForecasts, RecalibratedStream, combine_forecasts, recalibrate_stream
from onlinecal.tables import keeping
from tests.properties import examples
from tests.wrappers.test_stream import history

pytestmark = pytest.mark.filterwarnings(
    "ignore::onlinecal.LabelWarning", "ignore::onlinecal.GuaranteeWarning"
)
START = datetime(2024, 1, 1)


def same(one, other):
    """Whether two results are equal to the last digit."""
    assert np.array_equal(np.asarray(one.probabilities), np.asarray(other.probabilities))
    assert np.array_equal(one.certificate, other.certificate)
    assert one.guarantee == other.guarantee
    assert repr(one.report()) == repr(other.report())
    if isinstance(one, CombinedForecasts):
        assert np.array_equal(one.weights, other.weights)


class Log:
    """Rows of k classes, or of two models, which a job sees night by night.

    `made` and `came` are hours, which never decrease and are often the same.
    """

    def __init__(self, k, rows, seed, late):
        rng = np.random.default_rng(seed)
        if k == "models":
            self.said, self.y = rng.random((rows, 2)), rng.integers(0, 2, rows)
            self.said[rng.random((rows, 2)) < 0.2] = np.nan
            self.said[0] = 0.5
        else:
            self.said, self.y = history(k, rows)
        self.made = np.cumsum(rng.integers(0, 3, rows))
        self.came = self.made + rng.integers(0, late, rows)
        self.lost = rng.random(rows) < 0.2
        self.groups = rng.choice(["a", "b", "c"], rows)
        self.ids = np.array([f"id{row}" for row in rng.permutation(rows)])
        self.is_new = k == "models"

    def begin(self, rows, now, settings):
        """The first rows, of which outcomes are known that came by `now`."""
        call = combine_forecasts if self.is_new else recalibrate_stream
        return call(self.said[rows], **self.given(rows, now, settings), **settings)

    def given(self, rows, now, settings):
        """What else is known of rows at a time."""
        y, came = self.y[rows].astype(float), self.came[rows].astype(float)
        unknown = self.lost[rows] | (self.came[rows] > now)
        y[unknown], came[unknown] = np.nan, np.nan
        given = {"outcomes": y, "settled_at": came, "times": self.made[rows], "ids": self.ids[rows]}
        if "due" not in settings and self.with_due_times:
            given["due"] = self.made[rows] + 20
        if not self.is_new and self.with_groups:
            given["groups"] = self.groups[rows]
        return given

    with_groups = with_due_times = False

    def night_by_night(self, cuts, settings, around):
        """All nights, one after the other: outcomes that came meanwhile are told before rows are added."""
        ends = [*cuts, len(self.y)]
        now = self.made[ends[0] - 1]
        result = self.begin(np.arange(ends[0]), now, settings)
        for begin, end in pairwise(ends):
            before, now = now, self.made[end - 1]
            rows = np.arange(begin)
            told = rows[~self.lost[rows] & (self.came[rows] > before) & (self.came[rows] <= now)]
            result = result.observe(self.ids[told], self.y[told], settled_at=self.came[told])
            rows = np.arange(begin, end)
            result = around(result).extend(self.said[rows], **self.given(rows, now, settings))
        rest = np.flatnonzero(~self.lost & (self.came > now))
        return around(result).observe(self.ids[rest], self.y[rest], settled_at=self.came[rest])


CASES = {
    "one column": (1, {"missing": "later"}),
    "due": (1, {"due": 15}),
    "due times, absent": (2, {"absent": 1}),
    "prior": (1, {"missing": "later", "prior": (0.5, 0.1)}),
    "three classes": (3, {"missing": "later"}),
    "simplex": (3, {"missing": "later", "strategy": "simplex"}),
    "top, horizon": (4, {"missing": "later", "strategy": "top-label", "horizon": 60}),
    "models": ("models", {"missing": "later"}),
}


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=examples(6), deadline=None)
@given(st.sets(st.integers(1, 59), max_size=4), st.integers(0, 1 << 20), st.integers(1, 60), st.booleans())
def test_night_by_night_is_to_the_last_digit_as_at_once(case, cuts, seed, late, grouped):
    k, chosen = CASES[case]
    log = Log(k, 60, seed, late)
    log.with_groups, log.with_due_times = grouped, case == "due times, absent"
    same(
        log.night_by_night(sorted(cuts), chosen, lambda result: result),
        log.begin(np.arange(60), np.inf, chosen),
    )


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=examples(6), deadline=None)
@given(st.integers(1, 59), st.integers(0, 1 << 20), st.integers(1, 60))
def test_each_prefix_has_the_same_forecasts(case, rows, seed, late):
    k, chosen = CASES[case]
    log = Log(k, 60, seed, late)
    log.with_due_times = case == "due times, absent"
    whole = log.begin(np.arange(60), np.inf, chosen)
    part = log.begin(np.arange(rows), log.made[rows - 1], chosen)
    assert np.array_equal(part.probabilities, whole.probabilities[:rows])


@pytest.mark.parametrize("case", CASES)
def test_files_between_nights_change_nothing(case, tmp_path):
    k, chosen = CASES[case]
    log, path = Log(k, 60, 3, 30), tmp_path / "column.state"
    log.with_groups, log.with_due_times = True, case == "due times, absent"

    def through_a_file(result):
        result.save(path)
        back = type(result).load(path)
        same(back, result)
        return back

    same(log.night_by_night([20, 40], chosen, through_a_file), log.begin(np.arange(60), np.inf, chosen))
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_new_changes_nothing():
    result = begun()
    assert result.observe([], []) is result
    assert result.extend([]) is result
    both = combine_forecasts({"a": [0.2, 0.3], "b": [0.4, 0.5]}, [0, 1])
    assert both.extend({"a": [], "b": []}) is both


def test_without_times_rows_are_known_by_their_numbers():
    p, y = history(1, 50)
    grown = recalibrate_stream(p[:20], [*y[:18], None, None], missing="later")
    grown = grown.observe([19], [y[19]]).extend(p[20:40], [*y[20:39], None]).observe([39, 18], y[[39, 18]])
    grown = grown.extend(pl.Series(p[40:]), y[40:])
    at = np.arange(50)
    at[18], at[19] = 39, 19
    same(grown, recalibrate_stream(p, y, settled_at=at, missing="later"))


def test_classes_by_name_and_times_with_a_zone_come_back(tmp_path):
    said, y = history(3, 40)
    names, hours = ["home", "draw", "away"], [START + timedelta(hours=row) for row in range(40)]
    frame = pl.DataFrame(said, names)
    zoned = pl.Series(hours).dt.replace_time_zone("Europe/Berlin")
    came = [names[number] for number in y]
    known = zoned + timedelta(hours=2)
    half = {"settled_at": known[:20], "times": zoned[:20], "groups": np.repeat([1, 2], 10)}
    result = recalibrate_stream(frame[:20], [*came[:18], None, None], missing="later", **half)
    result.save(tmp_path / "state")
    back = RecalibratedStream.load(tmp_path / "state").observe([18, 19], came[18:20], settled_at=known[18:20])
    back = back.extend(
        said[20:], came[20:], settled_at=known[20:], times=zoned[20:], groups=np.repeat([2, 3], 10)
    )
    whole = {"settled_at": known, "times": zoned, "groups": np.repeat([1, 2, 2, 3], 10)}
    same(back, recalibrate_stream(frame, came, missing="later", **whole))
    assert [*back.report().groups] == [1, 2, 3]


def test_the_first_night_may_have_no_outcome():
    p, y = history(1, 20)
    first = recalibrate_stream(p[:10], [None] * 10, times=np.arange(10), missing="later")
    grown = first.observe(range(10), y[:10], settled_at=[9] * 10).extend(p[10:], times=np.arange(10, 20))
    at = np.where(np.arange(20) < 10, 9.0, np.nan)
    came = [*y[:10].tolist(), *[None] * 10]
    same(grown, recalibrate_stream(p, came, settled_at=at, times=np.arange(20), missing="later"))


def begun(**changed):
    p, y = history(1, 30)
    given = {"settled_at": np.arange(30), "times": np.arange(30), "ids": [f"g{row}" for row in range(30)]}
    return recalibrate_stream(p, [None, *y[1:]], missing="later", **{**given, **changed})


NEW = {"probabilities": [0.5], "outcomes": [1], "settled_at": [30], "times": [30], "ids": ["new"]}
REFUSED = {
    "going back": ({"times": [28]}, "times must not decrease, got 28 at row 30 after 29: sort the rows"),
    "known before": ({"settled_at": [29]}, "settled_at has 29 at row 30, before the forecast itself"),
    "no time": ({"times": None}, "times must be given for these rows, as in earlier rows"),
    "groups": ({"groups": ["a"]}, "groups must be left out for these rows"),
    "due": ({"due": [40]}, "due must be left out for these rows: as in earlier rows"),
    "when": ({"settled_at": None}, "settled_at must say when the outcomes of these rows became known"),
    "other times": ({"times": [START]}, "times and the times before them cannot be compared"),
    "an old id": (
        {"ids": ["g3"]},
        r"ids must be of new rows, got 'g3' at row 0 of these, the id of row 3 of earlier rows: observe",
    ),
    "a table": (
        {"probabilities": [[0.5, 0.5]]},
        r"probabilities must be a column, the probabilities of outcome 1, as in",
    ),
    "no number": ({"probabilities": [1.5]}, "probabilities must lie in"),
}
TOLD = {
    "unknown": (("g30", 1, 30), "ids must be those of rows that were forecast, got 'g30' at place 0"),
    "told again": (
        ("g3", None, 30),
        "outcomes must be of rows that have none, but row 'g3' has this outcome already",
    ),
    "told otherwise": (("g3", "not", 30), "but row 'g3' has another outcome already"),
    "too early": (("g0", 1, 5), "got 5 for row 'g0', while the forecast of row 'g6', at 6, did not"),
    "before itself": (("g0", 1, -1), "settled_at has -1 at row 0, before the forecast itself"),
    "no outcome": (("g0", 7, 30), "outcomes must be 0/1 or boolean, got 7 at row 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_rows_that_cannot_follow_are_refused_in_words(name):
    changed, message = REFUSED[name]
    result = begun()
    with pytest.raises(ValueError, match=message):
        result.extend(**{**NEW, **changed})
    same(result, begun())
    assert len(result.extend(**NEW).probabilities) == 31


@pytest.mark.parametrize("name", TOLD)
def test_outcomes_that_cannot_be_taken_are_refused_in_words(name):
    (id, outcome, at), message = TOLD[name]
    y, result = history(1, 30)[1], begun()
    outcome = {None: y[3], "not": 1 - y[3]}.get(outcome, outcome)
    with pytest.raises(ValueError, match=message):
        result.observe([id], [outcome], settled_at=[at])
    same(result, begun())


def test_rows_that_were_given_up_stay_so():
    result = recalibrate_stream([0.2, 0.3], [None, 1])
    with pytest.raises(ValueError, match="row 0 was given up when it was forecast: with missing='later'"):
        result.observe([0], [1])
    with pytest.raises(ValueError, match="ids must be different, got row 0 twice"):
        result.observe([0, 0], [1, 1])
    with pytest.raises(ValueError, match="ids must be row numbers from 0 to 1, got 2 at place 0"):
        result.observe([2], [1])
    with pytest.raises(ValueError, match="ids must be different, got 'a' at rows 0 and 1"):
        recalibrate_stream([0.2, 0.3], [0, 1], ids=["a", "a"])
    with pytest.raises(ValueError, match="ids must be all whole numbers, or all texts, got 1 at row 1"):
        recalibrate_stream([0.2, 0.3], [0, 1], ids=["a", 1])


def test_other_models_are_refused():
    result = combine_forecasts({"a": [0.2, 0.3], "b": [0.4, 0.5]}, [0, 1])
    with pytest.raises(ValueError, match=r"columns must be \['a', 'b'\], in this order, .* got \['b', 'a'\]"):
        result.extend({"b": [0.1], "a": [0.1]})
    # a model that is silent today, and not too few models
    with pytest.raises(ValueError, match=r"got \['a'\]: give a model that says nothing a column of NaN"):
        result.extend({"a": [0.1]})
    silent = result.extend({"a": [0.1], "b": [None]}, [1])
    assert silent.report().models["b"].n_rounds == 2


def test_damaged_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "state"
    begun().save(path)
    whole = path.read_bytes()
    for place in range(0, len(whole), max(len(whole) // 40, 1)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"is damaged|is not a file of a recalibrated column"):
            RecalibratedStream.load(path)
        path.write_bytes(whole[:place])
        with pytest.raises(ValueError, match="is not a file of a recalibrated column that onlinecal wrote"):
            RecalibratedStream.load(path)
    combine_forecasts({"a": [0.2, 0.3], "b": [0.4, 0.5]}, [0, 1]).save(path)
    with pytest.raises(
        ValueError, match="not a file of a recalibrated column, but one of a column of combined"
    ):
        RecalibratedStream.load(path)
    keyed = recalibrate_stream([0.2, 0.3], [0, 1], groups=[(1, 2), (3, 4)])
    with pytest.raises(ValueError, match=r"groups must be texts or numbers to be saved, got \(1, 2\)"):
        keyed.save(path)


def test_a_file_is_whole_or_as_it_was(tmp_path, monkeypatch):
    path = tmp_path / "state"
    begun().save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(OSError, match="no space left"):
        begun().extend(**NEW).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_version_that_forecasts_otherwise_does_not_go_on(tmp_path):
    path = tmp_path / "state"
    begun().save(path)
    arrays = keeping.kept(path, RecalibratedStream._KEPT_AS)
    arrays["forecasts"] = arrays["forecasts"] + 1e-15
    keeping.keep(path, RecalibratedStream._KEPT_AS, arrays)
    with pytest.raises(ValueError, match="the column cannot go on: this version of onlinecal"):
        RecalibratedStream.load(path).extend(**NEW)


def test_a_remark_is_told_as_of_one_call():
    p, y = history(1, 60)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        grown = recalibrate_stream(1 - p[:30], y[:30]).extend(1 - p[30:], y[30:])
    assert str(told[-1].message) == grown.report().remarks[-1]
