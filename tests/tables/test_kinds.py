"""Every kind of column and table times every public function that takes one: the same number, or words."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import itertools
import pkgutil
import re
from collections import deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import onlinecal
from onlinecal import AlmostOneStepAhead, CalibratedClassifier, SimplexAlmostOneStepAhead, adversaries
from onlinecal.recalibration import (
    BoostedRecalibrator,
    GroupRecalibrator,
    LpRecalibrator,
    TemperatureScaling,
)
from onlinecal.recalibration.probability_recalibrator import ProbabilityRecalibrator
from onlinecal.simulations import play
from onlinecal.tables.frames import as_array

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("wide_brackets")]

N = 24
RNG = np.random.default_rng(5)
FORECASTS = RNG.integers(1, 16, N) / 16
OUTCOMES = (RNG.random(N) < FORECASTS).astype(np.int64)
TABLE = RNG.multinomial(32, [0.3, 0.4, 0.3], N) / 32
LABELS = np.array([RNG.choice(3, p=row) for row in TABLE])
LABELS[:3] = 0, 1, 2
GROUPS = np.column_stack([np.ones(N, bool), RNG.random(N) < 0.5])
LOSSES = RNG.integers(0, 8, (2, 3, 3)) / 8

COLUMNS: dict[str, Any] = {
    "forecasts": FORECASTS,
    "outcomes": OUTCOMES,
    "probabilities": TABLE,
    "labels": LABELS,
    "sample_weight": RNG.integers(1, 4, N).astype(float),
    "look_ahead": FORECASTS,
    "groups": GROUPS,
    "functions": FORECASTS[:, None],
    "values": np.array([0.25, 0.5]),
    "zeros": np.array([3, 2]),
    "ones": np.array([1, 2]),
    "after": FORECASTS,
    "witness": FORECASTS,
    "certificates": np.arange(N) / 4,
    "guarantees": np.arange(N) / 2,
    "weights": np.full((N, 2), 0.5),
    "columns": np.column_stack([FORECASTS, FORECASTS**2]),
    "settled_at": np.arange(N) // 3 * 3 + 2,
    "times": np.arange(N),
    "due": np.arange(N) + 4,
    "losses": LOSSES,
    "hints": FORECASTS,
    "P": TABLE,
    "p": FORECASTS,
    "y": LABELS,
}
"""Every argument that is a column or a table, by its name."""
OF = {
    "multiclass_calibration_distance": {"look_ahead": TABLE},
    "level_sets": {"after": TABLE},
    "chance_level": {"groups": np.arange(N) // 2},
    "chance_levels": {"groups": np.arange(N) // 2},
    "recalibrate_stream": {"probabilities": FORECASTS, "groups": np.arange(N) % 2},
    "GroupRecalibrator": {"y": OUTCOMES},
    "SimplexAlmostOneStepAhead.replay": {"outcomes": LABELS, "hints": TABLE},
    "replay_labels": {"hints": TABLE},
}
"""Columns of one function that are others than its arguments of these names are elsewhere."""
SETTINGS = {
    "threshold": 0.5, "width": 0.1, "n_actions": 2, "measure": "ece", "measures": ["ece"], "n_draws": 19,
    "n_resamples": 19, "budget": 0.05,
}  # fmt: skip
NUMBERS = {"epsilon_for", "lp_sample_complexity", "recalibrated"}
"""Functions whose p or weights are no column: an order, and colours of a picture."""


def public() -> dict[str, Any]:
    """All public functions and classes by their names."""
    packages = [info.name for info in pkgutil.walk_packages(onlinecal.__path__, "onlinecal.") if info.ispkg]
    modules = [onlinecal, *map(importlib.import_module, packages)]
    return {name: getattr(one, name) for one in modules for name in getattr(one, "__all__", ())}


def taken_by(function: Any) -> list[str]:
    """The arguments of a function that are columns."""
    found = inspect.signature(function).parameters.values()
    return [
        one.name
        for one in found
        if one.name in COLUMNS and not (one.name == "p" and one.default is not inspect.Parameter.empty)
    ]


def replayed(forecaster: Callable[[], Any]) -> Callable[..., Any]:
    def play(outcomes: Any, hints: Any) -> Any:
        return forecaster().replay(outcomes, hints)

    return play


def fitted(recalibrator: Callable[[], Any]) -> Callable[..., Any]:
    def play(P: Any, y: Any, sample_weight: Any) -> Any:
        return recalibrator().fit(P, y, sample_weight).predict_proba(P)

    return play


def of_groups(p: Any, y: Any, groups: Any, sample_weight: Any) -> Any:
    model = GroupRecalibrator(cv=2).fit(p, y, groups, sample_weight)
    return model.predict_proba(p, groups)


def updated(kind: type) -> Callable[..., Any]:
    def play(forecasts: Any, outcomes: Any) -> Any:
        told = kind()
        told.update_many(forecasts, outcomes)
        return told.statistic if kind is onlinecal.CalibrationAlarm else told.calibration_distance()

    return play


METHODS: dict[str, Callable[..., Any]] = {
    "AlmostOneStepAhead.replay": replayed(lambda: AlmostOneStepAhead(hints=True)),
    "SimplexAlmostOneStepAhead.replay": replayed(lambda: SimplexAlmostOneStepAhead(3, hints=True)),
    "play": lambda hints: play(AlmostOneStepAhead(hints=True), adversaries.create("coin"), N, hints=hints),
    "TemperatureScaling": fitted(TemperatureScaling),
    "LpRecalibrator": fitted(LpRecalibrator),
    "GroupRecalibrator": of_groups,
    "CalibrationAlarm.update_many": updated(onlinecal.CalibrationAlarm),
    "CalibrationMonitor.update_many": updated(onlinecal.CalibrationMonitor),
}


@cache
def functions() -> dict[str, Callable[..., Any]]:
    """What is tried, by name: functions that take columns, pictures by their numbers; and methods."""
    named = public()
    found = {
        name: one
        for name, one in named.items()
        if inspect.isfunction(one) and taken_by(one) and name not in NUMBERS
    }
    return {**found, **METHODS}


def test_every_public_class_that_takes_columns_is_among_those_that_are_tried():
    verbs = {"update_many", "replay"}
    tried = {name.partition(".")[0] for name in METHODS}
    for name, one in public().items():
        if isinstance(one, type) and not issubclass(one, CalibratedClassifier):
            named = [verb for verb in verbs if inspect.isfunction(getattr(one, verb, None))]
            # what replays outcomes alone is checked by the same function
            alone = named == ["replay"] and taken_by(one.replay) == ["outcomes"]
            assert not named or alone or name in tried, name
            if issubclass(one, ProbabilityRecalibrator):
                assert one.fit is ProbabilityRecalibrator.fit or name in tried, name


def wanted(name: str) -> dict[str, Any]:
    """The columns that a function is tried with."""
    return {one: {**COLUMNS, **OF.get(name, {})}[one] for one in taken_by(functions()[name])}


@cache
def axes_of(name: str) -> Axes:
    """Where all pictures of a function are drawn over each other: only their numbers are looked at."""
    return Figure().subplots()


def asked(name: str, columns: dict[str, Any]) -> Any:
    function = functions()[name]
    settings = {one: SETTINGS[one] for one in inspect.signature(function).parameters if one in SETTINGS}
    if name == "model_weights":
        settings["names"] = ["a", "b"]
    if "ax" in inspect.signature(function).parameters:
        settings["ax"] = axes_of(name)
    return function(**{**settings, **columns})


def numbers_in(answer: Any) -> Iterator[float]:
    """All numbers of an answer, rounded, in a fixed order; of frames those of each column."""
    if isinstance(answer, (bool, int, float, np.number, np.bool_)):
        yield round(float(answer), 9)
    elif answer is None or isinstance(answer, (str, bytes)):
        return
    elif isinstance(answer, (np.ndarray, pd.Series, pd.DataFrame, pl.Series, pa.Array, pa.ChunkedArray)):
        yield from numbers_in(np.asarray(answer).tolist())
    elif isinstance(answer, pl.DataFrame):
        for column in answer:
            yield from numbers_in(column.to_list())
    elif hasattr(answer, "report"):
        yield from numbers_in(answer.report())
    elif dataclasses.is_dataclass(answer):
        yield from numbers_in([getattr(answer, one.name) for one in dataclasses.fields(answer)])
    elif isinstance(answer, dict):
        yield from numbers_in(list(answer.values()))
    elif isinstance(answer, (list, tuple)):
        for one in answer:
            yield from numbers_in(one)


def rows(column: np.ndarray) -> list[Any]:
    return column.tolist()


def decimals(column: np.ndarray) -> Any:
    if column.ndim > 1:
        return [decimals(row) for row in column]
    return [Decimal(repr(value)) if isinstance(value, float) else value for value in column.tolist()]


def frame(column: np.ndarray) -> Any:
    """What pandas has for one dimension, or for two."""
    return pd.Series(column, name="x") if column.ndim == 1 else pd.DataFrame(column)


def arrow(column: np.ndarray) -> Any:
    if column.ndim == 1:
        return pa.array(column)
    return pa.table({str(number): one for number, one in enumerate(column.T)})


def chunked(column: np.ndarray) -> Any:
    if column.ndim > 1:
        return arrow(column).to_batches()[0]
    return pa.chunked_array([column[:1], column[1:]])


def dictionary(column: np.ndarray) -> Any:
    if column.ndim == 1:
        return pa.array(column).dictionary_encode()
    return pa.table({str(n): pa.array(one).dictionary_encode() for n, one in enumerate(column.T)})


def dictionaries(column: np.ndarray) -> Any:
    """Parts with a dictionary each, as files in several row groups give them."""
    if column.ndim > 1:
        return dictionary(column)
    return pa.chunked_array([pa.array(part).dictionary_encode() for part in (column[:9], column[9:])])


def long_decimals(column: np.ndarray) -> Any:
    """Decimals of 256 bits, for which polars has no kind."""
    if column.ndim > 1:
        return pa.table({str(number): long_decimals(one) for number, one in enumerate(column.T)})
    digits = [None if value is None else Decimal(repr(value)) for value in (column + 0).tolist()]
    return pa.array(digits, pa.decimal256(60, 8))


def runs(column: np.ndarray) -> Any:
    return pa.compute.run_end_encode(pa.array(column)) if column.ndim == 1 else column


def scalars(column: np.ndarray) -> Any:
    return list(pa.array(column)) if column.ndim == 1 else column


def boxed(column: np.ndarray) -> Any:
    return pd.Series([[value] for value in column.tolist()]) if column.ndim == 1 else column


def of_duckdb(column: np.ndarray) -> Any:
    duckdb = pytest.importorskip("duckdb")
    if column.ndim > 1:
        return duckdb.from_arrow(arrow(column)).pl()
    # a null in front, which is taken away again, makes the column a masked array
    held = pa.table({"x": pa.array([None, *column.tolist()], pa.from_numpy_dtype(column.dtype))})
    return duckdb.from_arrow(held).fetchnumpy()["x"][1:]


def of_xarray(column: np.ndarray) -> Any:
    return pytest.importorskip("xarray").DataArray(column)


class OnlyArrow:
    """What other libraries of Arrow are: a stream, and nothing else."""

    def __init__(self, column: np.ndarray) -> None:
        self.held = pa.chunked_array([column])

    def __arrow_c_stream__(self, schema: Any = None) -> Any:
        return self.held.__arrow_c_stream__(schema)


class OnlySequence:
    """A column of data sets: it has a length and items, and is no list."""

    def __init__(self, column: np.ndarray) -> None:
        self.held = column.tolist()

    def __len__(self) -> int:
        return len(self.held)

    def __getitem__(self, place: Any) -> Any:
        return self.held[place]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.held)


KINDS: dict[str, Callable[[np.ndarray], Any]] = {
    "a list": rows,
    "a tuple": lambda column: tuple(map(tuple, column.tolist())) if column.ndim > 1 else tuple(rows(column)),
    "a deque": lambda column: deque(rows(column)),
    "a sequence": OnlySequence,
    "objects": lambda column: column.astype(object),
    "Decimal": decimals,
    "masked, with no mask": lambda column: np.ma.array(column),
    "float32": lambda column: column.astype(np.float32) if column.dtype.kind == "f" else column,
    "pandas": frame,
    "pandas, nullable": lambda column: frame(column).convert_dtypes(),
    "pandas, pyarrow": lambda column: frame(column).convert_dtypes(dtype_backend="pyarrow"),
    "pandas, categories": lambda column: frame(column).astype("category"),
    "pandas, objects": lambda column: frame(column).astype(object),
    "an index of pandas": lambda column: pd.Index(column) if column.ndim == 1 else column,
    "lists of one": boxed,
    "polars": lambda column: pl.Series(column) if column.ndim == 1 else pl.DataFrame(column, orient="row"),
    "pyarrow": arrow,
    "pyarrow, in parts": chunked,
    "pyarrow, dictionary": dictionary,
    "pyarrow, dictionaries": dictionaries,
    "pyarrow, long decimals": long_decimals,
    "pyarrow, runs": runs,
    "scalars of pyarrow": scalars,
    "a stream of Arrow": lambda column: OnlyArrow(column) if column.ndim == 1 else column,
    "duckdb": of_duckdb,
    "xarray": of_xarray,
}
NO_FRAMES = {"losses"}
"""Tables of three dimensions."""


CATEGORIES = {"pandas, categories", "pandas, objects", "pyarrow, dictionary", "pyarrow, dictionaries"}
"""Frames of these kinds say which category a row belongs to, not in which groups it is."""


def refusal(call: Callable[[], Any], kinds: tuple[type[Exception], ...] = (ValueError,)) -> str:
    """The one line that a refusal is; "" if there is none."""
    try:
        call()
    except kinds as error:
        text = str(error)
        assert text
        assert "\n" not in text
        assert len(text) < 700
        return text
    return ""


READ_OTHERWISE = (
    ("Decimal", "pandas, nullable", "lists of one", "pyarrow, in parts", "pyarrow, long decimals", "duckdb"),
    ("a sequence", "pandas, pyarrow", "pandas, categories", "a stream of Arrow", "pyarrow, dictionaries"),
)
"""Kinds that numpy, left to itself, would read in another way; the third or fourth of each not at all."""


LONG = {"multiclass_calibration_distance", "decision_calibration_error", "LpRecalibrator"}


def takes_long(name):
    """Pictures, and what searches or plays: by default only some kinds are tried with them."""
    draws = "ax" in inspect.signature(functions()[name]).parameters
    return draws or name in LONG


def kinds_by_default():
    """Each function with all kinds; what takes long with half of those read otherwise, in turn."""
    turns = itertools.cycle(READ_OTHERWISE)
    for name in sorted(functions()):
        yield name, next(turns) if takes_long(name) else tuple(KINDS)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        *kinds_by_default(),
        *(
            pytest.param(name, tuple(KINDS), marks=pytest.mark.slow)
            for name in sorted(functions())
            if takes_long(name)
        ),
    ],
    ids=lambda value: None if isinstance(value, str) else "all kinds" if len(value) == len(KINDS) else "some",
)
def test_every_kind_of_column_gives_the_same_numbers(name, kinds):
    given = wanted(name)
    right = list(numbers_in(asked(name, given)))
    assert right
    for kind in kinds:
        convert = KINDS[kind]
        kept = NO_FRAMES | ({"groups"} if kind in CATEGORIES else set())
        columns = {one: column if one in kept else convert(column) for one, column in given.items()}
        assert list(numbers_in(asked(name, columns))) == right, kind


def gap_in(column: np.ndarray) -> dict[str, Any]:
    """One column whose second value is missing, as each library writes it."""
    masked = np.ma.array(column, mask=np.arange(column.size).reshape(column.shape) == 1)
    if column.ndim > 2:
        return {"masked": masked}
    if column.ndim == 1:
        holes = [None if row == 1 else value for row, value in enumerate(column.tolist())]
        kinds = {
            "a list": holes,
            "a deque": deque(holes),
            "polars": pl.Series(holes),
            "pyarrow": pa.array(holes),
            "pandas, nullable": pd.Series(holes, dtype=object).convert_dtypes(),
        }
        return {"masked": masked, **kinds}
    holes = column.astype(object)
    holes[np.unravel_index(1, column.shape)] = None
    return {"masked": masked, "a list": holes.tolist(), "pandas": pd.DataFrame(holes)}


@pytest.mark.parametrize("name", sorted(functions()))
def test_what_is_missing_is_never_taken_for_what_lies_under_it(name):
    """Masked is what None is: refused by row, or open, or a model that says nothing."""
    given = wanted(name)
    for argument, column in given.items():
        said = set()
        for kind, holed in gap_in(column).items():
            # a column of objects is one of categories, and what is missing is one of these
            if argument == "groups" and kind == "pandas":
                continue
            changed = {**given, argument: holed}
            told = refusal(lambda changed=changed: asked(name, changed))
            said.add("refused" if told else str(list(numbers_in(asked(name, changed)))))
        assert len(said) == 1, (argument, said)
        if said != {"refused"}:
            assert said != {str(list(numbers_in(asked(name, given))))}, argument


UNREAD = {
    "LazyFrame": lambda: pl.DataFrame({"x": FORECASTS}).lazy(),
    "RecordBatchReader": lambda: pa.table({"x": FORECASTS}).to_reader(),
    "duckdb": lambda: pytest.importorskip("duckdb").sql("SELECT 0.5 AS x"),
    "Dataset": lambda: pytest.importorskip("xarray").Dataset({"x": ("t", FORECASTS)}),
    "list\\(...\\)": lambda: (p for p in FORECASTS),
    "no order": lambda: {0.25, 0.5},
    "the text": lambda: "forecasts.csv",
    "toarray\\(\\)": lambda: pytest.importorskip("scipy.sparse").csr_matrix(FORECASTS),
    "too large for a float|of shape \\(T, N\\)": lambda: [10**400] + [0] * (N - 1),
    "the fields \\['x'\\]": lambda: np.zeros(N, [("x", float)]),
}


@pytest.mark.parametrize("words", UNREAD)
@pytest.mark.parametrize("name", ["expected_calibration_error", "recalibrate_stream", "combine_forecasts"])
def test_what_has_no_rows_yet_is_told_what_to_do(name, words):
    given = wanted(name)
    first = next(iter(given))
    told = refusal(lambda: asked(name, {**given, first: UNREAD[words]()}))
    assert re.search(words, told), told
    assert told.startswith(first)


def test_what_came_goes_out():
    for kind in ("pandas", "polars", "pyarrow", "pyarrow, in parts", "xarray"):
        given = KINDS[kind](FORECASTS)
        out = onlinecal.recalibrate_stream(given, OUTCOMES).probabilities
        assert type(out) is type(given)
    for kind in ("pandas", "polars", "pyarrow", "pyarrow, in parts"):
        given = KINDS[kind](TABLE)
        out = onlinecal.recalibrate_stream(given, LABELS).probabilities
        assert type(out) is type(given)


@pytest.mark.parametrize(
    "kind", ["list", "pyarrow", "pyarrow, dictionary", "pyarrow, in parts", "polars", "pandas"]
)
def test_outcomes_are_names_of_columns_in_every_kind(kind):
    named = np.array(["H", "D", "A"], dtype=object)[LABELS]
    table = pd.DataFrame(TABLE, columns=["H", "D", "A"])
    right = onlinecal.recalibrate_stream(table, named.tolist()).report().brier_out
    texts = {
        "list": named.tolist(),
        "pyarrow": pa.array(named),
        "pyarrow, dictionary": pa.array(named).dictionary_encode(),
        "pyarrow, in parts": pa.chunked_array([named[:2], named[2:]]),
        "polars": pl.Series(named.tolist(), dtype=pl.Categorical),
        "pandas": pd.Series(named, dtype="category"),
    }[kind]
    for given in (table, pl.DataFrame(table.to_dict("list")), pa.table(table)):
        assert onlinecal.recalibrate_stream(given, texts).report().brier_out == right


def those_that_take(*arguments: str) -> list[str]:
    """The functions that are tried with these columns, by name."""
    return sorted(name for name in functions() if set(arguments) <= set(taken_by(functions()[name])))


@pytest.mark.parametrize("name", those_that_take("forecasts", "outcomes"))
def test_outcomes_first_is_refused_and_what_is_meant_can_be_said(name):
    """scikit-learn has outcomes first: then all forecasts are 0 or 1, and the outcomes are not."""
    given = wanted(name)
    told = refusal(lambda: asked(name, {**given, "forecasts": OUTCOMES, "outcomes": FORECASTS}))
    assert "are they swapped" in told or "are probabilities and outcomes swapped" in told
    if "numpy.clip" in told:
        meant = np.clip(OUTCOMES.astype(float), 1e-15, 1 - 1e-15)
        assert list(numbers_in(asked(name, {**given, "forecasts": meant, "outcomes": FORECASTS})))


@pytest.mark.parametrize("name", those_that_take("probabilities", "labels"))
def test_labels_first_is_refused(name):
    given = wanted(name)
    told = refusal(lambda: asked(name, {**given, "probabilities": LABELS, "labels": TABLE}))
    assert re.search("the other way round: swap them|must be two-dimensional", told)


@pytest.mark.parametrize("name", those_that_take("sample_weight"))
def test_weights_in_another_order_of_rows_are_refused(name):
    given = {one: frame(column) for one, column in wanted(name).items()}
    given["sample_weight"] = given["sample_weight"][::-1]
    told = refusal(lambda: asked(name, given))
    assert re.search("and sample_weight must have the same index", told), told


@pytest.mark.parametrize("name", sorted(functions()))
def test_no_error_grows_with_what_was_given(name):
    """A column where something else is due, or one of texts: the error has a few of its values."""
    given = wanted(name)
    others = [
        one.name
        for one in inspect.signature(functions()[name]).parameters.values()
        if one.name not in given and one.kind is not one.VAR_KEYWORD and one.name != "progress"
    ]
    junk = ["a value that says nothing"] * 5000
    for argument in [*given, *others]:
        told = refusal(
            lambda argument=argument: asked(name, {**given, argument: junk}), (ValueError, TypeError)
        )
        assert told or argument in others, argument


IDS = np.array([2**60 + n % 3 for n in range(N)])


@pytest.mark.parametrize("name", ["recalibrate_stream", "chance_level", "GroupRecalibrator"])
def test_ids_that_have_become_floats_are_refused_and_long_ones_are_told_apart(name):
    given = wanted(name)
    as_given = (lambda ids: pd.DataFrame({"id": ids})) if name == "GroupRecalibrator" else pd.Series
    right = list(numbers_in(asked(name, {**given, "groups": as_given(IDS - 2**60)})))
    longer = [Decimal(int(one)) for one in IDS]
    for ids in (IDS, longer, pd.array(longer, pd.ArrowDtype(pa.decimal128(38, 0)))):
        assert list(numbers_in(asked(name, {**given, "groups": as_given(ids)}))) == right
    told = refusal(lambda: asked(name, {**given, "groups": as_given(IDS.astype(float))}))
    assert re.search("floats of 2\\^53 and more.*read ids as texts", told)


@pytest.mark.parametrize(
    "groups",
    [
        pd.DataFrame({"g": [[n % 2] for n in range(N)]}),
        pl.DataFrame({"g": [{"of": n % 2} for n in range(N)]}),
        pl.DataFrame({"g": pl.Series(["a", "b"] * (N // 2), dtype=pl.Object)}),
        pd.DataFrame(np.zeros((N, 2), int), columns=["g", "g"]),
    ],
    ids=["lists", "structures", "objects of polars", "two of one name"],
)
def test_categories_that_cannot_be_told_apart_are_refused(groups):
    told = refusal(lambda: GroupRecalibrator(cv=2).fit(FORECASTS, OUTCOMES, groups))
    assert re.match("groups must h.* 'g'", told)


def test_two_columns_of_one_name_are_refused_by_name():
    table = pd.DataFrame(TABLE[:, :2] / TABLE[:, :2].sum(axis=1, keepdims=True), columns=["a", "a"])
    for fit in (TemperatureScaling().fit, LpRecalibrator().fit):
        told = refusal(lambda fit=fit: fit(table, OUTCOMES))
        assert told == "X must have different names, got two columns 'a': rename one"


def test_features_whose_names_are_numbers_are_those_of_an_array():
    features = np.column_stack([FORECASTS, FORECASTS**2])
    answers = [
        BoostedRecalibrator(cv=2).fit(X, OUTCOMES).predict_proba(X)
        for X in (features, pd.DataFrame(features), pd.DataFrame(features).convert_dtypes())
    ]
    assert answers[0].tolist() == answers[1].tolist() == answers[2].tolist()


def test_what_arrow_cannot_read_is_refused_with_the_argument_and_the_type_that_was_given():
    intervals = pa.array([(1, 2, 3)] * N, pa.month_day_nano_interval())
    column = pd.Series(intervals, dtype=pd.ArrowDtype(intervals.type))
    for given, called in (
        (intervals, "X of type MonthDayNanoIntervalArray"),
        (pa.chunked_array([intervals]), "X of type ChunkedArray"),
        (pa.table({"a": intervals}), "X of type Table"),
        (column, "X of type Series"),
        (column.rename("a"), "X of type Series"),
        (column.array, "X of type ArrowExtensionArray"),
        (pd.DataFrame({"p": FORECASTS, "a": column}), "column 'a' of X of type DataFrame"),
    ):
        told = refusal(lambda given=given: as_array(given, "X"))
        assert told.startswith(f"{called} cannot be read ('")
        assert told.endswith("'): make a numpy array of it first")
