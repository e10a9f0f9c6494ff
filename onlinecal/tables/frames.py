"""Turns columns and tables of any library into numpy's arrays, and results into the library they came from.

This is the module that tells libraries apart. Where others need one method of a frame, they ask for that
method, as `recalibration/folds.py` and `wrappers/batches.py` do. A missing value (masked, null, NA, NaT) is
None, NaN or NaT in the array, so that whatever lies under a mask is never taken for a value. What has no rows
that can be read, or has them in no order, is refused with an error that says what to do.

Nothing here has a state, and no frame that is handed in is changed. The arrays that come out may share memory
with it, so who writes to one makes a copy first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, MappingView, Sequence, Set
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.texts import counted, shown

UNREAD_KINDS = {
    ("polars", "LazyFrame"): "a LazyFrame: collect() it first",
    ("polars", "Expr"): "an expression of polars: select it from a frame first",
    ("pyarrow", "RecordBatchReader"): "a RecordBatchReader, which is read once: give its read_all()",
    ("duckdb", "DuckDBPyRelation"): "a relation of duckdb: fetch it first, as its df() or fetchnumpy() do",
    ("_duckdb", "DuckDBPyRelation"): "a relation of duckdb: fetch it first, as its df() or fetchnumpy() do",
    ("xarray", "Dataset"): "a Dataset of xarray: name one of its variables, or give its to_dataframe()",
}
"""Objects whose rows have not been read yet, by library and class: what an error says about them."""


def as_array(values: Any, name: str, wanted: str = "a column", even: str = "a flat sequence") -> NDArray[Any]:
    """The contents of a column or a table: booleans, numbers, times, or objects, of shape (T,) or (T, k).

    Parameters
    ----------
    values
        A sequence, an array, a column or table of pandas, polars, pyarrow or xarray, or another object that
        can be turned into an array or an Arrow stream. A category becomes the value it stands for, a period
        the time at which it begins, a time with a zone that time in UTC, and a list of one element this
        element.
    name, wanted, even
        For errors: what the argument is called, what it should be, and what its rows should form if they
        have unequal lengths.

    Returns
    -------
    An array, which is a copy only where that is needed. Missing numbers are NaN among floats. Whole numbers
    and booleans become objects if one of them is missing, and the missing ones are None. Missing times are
    NaT.

    Raises ValueError for what is not a column or a table, and for rows of unequal length.
    """
    values = _native(values)
    called = f"{name} of type {type(values).__name__}"
    refuse_no_array(values, name, wanted)
    if isinstance(values, np.ma.MaskedArray):
        return _unmasked(values)
    if isinstance(values, np.ndarray):
        return _plain_objects(np.asarray(values))
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None:
        if isinstance(values, (pandas.Index, pandas.api.extensions.ExtensionArray)):
            values = pandas.Series(values)
        if isinstance(values, pandas.Series):
            return _of_pandas(values, called)
        if isinstance(values, pandas.DataFrame):
            columns = [
                _of_pandas(values.iloc[:, place], f"column {column!r} of {called}")
                for place, column in enumerate(values.columns)
            ]
            return _side_by_side(columns, len(values))
    if _is_arrow(values):
        values = of_arrow(values, called)
        polars = sys.modules["polars"]
    if polars is not None:
        if isinstance(values, polars.Series):
            return _of_polars(values)
        if isinstance(values, polars.DataFrame):
            return _side_by_side([_of_polars(column) for column in values], values.height)
    if isinstance(values, Iterable) and not hasattr(values, "__array__"):
        values = list(values)
        if values and isinstance(values[0], np.ma.MaskedArray):
            return _unmasked(np.ma.stack(values))
    try:
        return _plain_objects(np.asarray(values))
    except ValueError as error:
        raise ValueError(f"{name} must be {even}, got {ragged(values)}") from error


def ragged(rows: Any) -> str:
    """What an error says of rows that are no array: the first that is not as long as the first of all."""
    lengths = [_length(row) for row in rows] if isinstance(rows, (list, tuple)) else []
    row = next((row for row, length in enumerate(lengths) if length != lengths[0]), None)
    if row is None:
        return "a ragged one"
    first, other = (
        "a single value" if length is None else counted(length, "value")
        for length in (lengths[0], lengths[row])
    )
    return f"a ragged one, with {first} at row 0 and {other} at row {row}"


def _length(row: Any) -> int | None:
    """How many values a row has; None for what is a value itself."""
    try:
        return None if isinstance(row, (str, bytes)) else len(row)
    except TypeError:
        return None


def refuse_no_array(values: Any, name: str, wanted: str) -> None:
    """Refuse what numpy would make a single object of, and what has no order or no rows yet."""
    if isinstance(values, (str, bytes)):
        raise ValueError(
            f"{name} must be {wanted}, got the text {shown(values)}: if it names a file, read it first"
        )
    if isinstance(values, Mapping) and (type(values).__module__.partition(".")[0] != "xarray"):
        # of single values a DataFrame cannot be made
        are_single = any(_length(value) is None for value in values.values())
        advice = "list(...) of its values" if are_single else "pandas.DataFrame(...) of it"
        raise ValueError(
            f"{name} must be {wanted}, got a dict with the keys {shown([*values])}: give {advice}"
        )
    for parent in type(values).__mro__:
        unread = UNREAD_KINDS.get((parent.__module__.partition(".")[0], parent.__name__))
        if unread is not None:
            raise ValueError(f"{name} must be {wanted}, got {unread}")
    if isinstance(values, Set) and not isinstance(values, (Sequence, MappingView)):
        kind = type(values).__name__
        raise ValueError(f"{name} must be {wanted}, got a {kind}, which has no order: give a list in order")
    if isinstance(values, Iterator) and not hasattr(values, "__array__"):
        kind = type(values).__name__
        raise ValueError(f"{name} must be {wanted}, got a {kind}, which is read once: give list(...) of it")
    if type(values).__module__.partition(".")[0] == "scipy" and hasattr(values, "toarray"):
        raise ValueError(f"{name} must be {wanted}, got a sparse one of scipy: give its toarray()")
    if isinstance(values, np.ndarray) and values.dtype.names is not None:
        fields = shown([*values.dtype.names])
        first = f"{name}[{values.dtype.names[0]!r}]"
        raise ValueError(
            f"{name} must be {wanted}, got an array with the fields {fields}: give one of them, as {first}"
        )


def unmasked(table: Any) -> Any:
    """A masked array as `as_array` returns it, without a mask; anything else as it is."""
    return as_array(table, "X") if isinstance(table, np.ma.MaskedArray) else table


def objects_of(column: Any, name: str) -> list[Any]:
    """The values of a column as Python's objects; None where one is missing.

    A plain sequence is not made an array first: numpy would turn numbers beside texts into texts.
    """
    column = _native(column)
    refuse_no_array(column, name, "a column")
    if hasattr(column, "__array__") or hasattr(column, "columns") or _is_arrow(column):
        array = as_array(column, name)
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 1:
            advice = "one column of it" if array.ndim == 2 else "a list of values"
            raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}: give {advice}")
        values = array.tolist()
    elif isinstance(column, Iterable):
        values = [_scalar(value) for value in column]
    else:
        raise ValueError(f"{name} must be a column, got {shown(column)}")
    return [None if value is not None and is_missing(value) else value for value in values]


def _scalar(value: Any) -> Any:
    """Python's own for a scalar of numpy or pyarrow; anything else as it is."""
    if isinstance(value, np.generic):
        return value.item()
    return value.as_py() if hasattr(value, "as_py") else value


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT, NA or masked."""
    if value is None or value is np.ma.masked:
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA has no truth value
        return True
    except ValueError:  # an array has none either; other checks refuse it
        return False


def missing_in(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values of an array are missing, in the same shape; the array is one that `as_array` returned."""
    if array.dtype.kind == "f":
        return np.isnan(array)
    if array.dtype.kind in "mM":
        return np.isnat(array)
    if array.dtype.kind != "O":
        return np.zeros(array.shape, bool)
    return np.fromiter(map(is_missing, array.flat), bool, array.size).reshape(array.shape)


def names_of(table: Any) -> list[Any] | None:
    """The names of the columns of a table of pandas, polars or pyarrow; None for what has no names."""
    table = _native(table)
    if hasattr(table, "column_names"):  # a table of pyarrow, whose `columns` are arrays
        return list(table.column_names)
    if hasattr(table, "columns"):
        return list(table.columns)
    is_batch = hasattr(table, "schema") and hasattr(table, "num_rows")
    return list(table.schema.names) if is_batch else None


def columns_of(table: Any) -> dict[Any, Any] | None:
    """The columns of a mapping or a table by their names; None for what has no names."""
    table = _native(table)
    if isinstance(table, Mapping) and type(table).__module__.partition(".")[0] != "xarray":
        return dict(table)
    refuse_no_array(table, "columns", "a mapping, a DataFrame or an array of shape (T, N)")
    names = names_of(table)
    if names is None:
        return None
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"columns must have different names, got two columns {twice!r}: rename one")
    if hasattr(table, "iloc"):
        return {name: table.iloc[:, place] for place, name in enumerate(names)}
    return {name: table[name] for name in names}


def _is_arrow(values: Any) -> bool:
    """Whether to read this by way of Arrow: objects of pyarrow or polars, and what numpy cannot read."""
    has_stream = hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__")
    is_own = type(values).__module__.partition(".")[0] in ("pyarrow", "polars")
    return has_stream and (is_own or not hasattr(values, "__array__"))


def _native(values: Any) -> Any:
    """The object that narwhals has wrapped; anything else as it is."""
    is_wrapped = type(values).__module__.partition(".")[0] == "narwhals" and hasattr(values, "to_native")
    return values.to_native() if is_wrapped else values


def _unmasked(array: np.ma.MaskedArray[Any, Any]) -> NDArray[Any]:
    """A masked array as a plain one, in which nothing is left of the values under the mask."""
    masked = np.ma.getmaskarray(array)
    values = np.asarray(array.data)
    return _plain_objects(_with_gaps(values, masked) if masked.any() else values)


def _with_gaps(values: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[Any]:
    """A copy with NaN or NaT for the missing values; of other kinds an array of objects, with None."""
    kind = values.dtype.kind
    gap = {"f": np.nan, "m": np.timedelta64("NaT"), "M": np.datetime64("NaT")}.get(kind)
    values = values.copy() if gap is not None else values.astype(object)
    values[missing] = gap
    return values


def _plain_objects(values: NDArray[Any]) -> NDArray[Any]:
    """An array of objects, each replaced by the value it holds or stands for; other arrays as they are."""
    if values.dtype.kind != "O":
        return values
    read = [_unboxed(value) for value in values.ravel()]
    plain = np.empty(len(read), object)
    plain[:] = read
    return plain.reshape(values.shape)


def _unboxed(value: Any) -> Any:
    if value is None or isinstance(value, (str, float, int)):
        return value
    if isinstance(value, (list, np.ndarray)):
        return _unboxed(value[0]) if np.ndim(value) == 1 and len(value) == 1 else value
    if isinstance(value, Decimal):
        return _of_decimal(value)
    if hasattr(value, "as_py"):  # a scalar of pyarrow
        return _unboxed(value.as_py())
    if hasattr(value, "to_timestamp"):  # a Period of pandas
        return value.to_timestamp()
    return None if is_missing(value) else value


def _of_decimal(value: Decimal) -> float | int | None:
    """A whole decimal as an int, so that long ids keep their digits; any other as a float; None for NaN."""
    if value.is_nan():
        return None
    is_whole = value.is_finite() and value.adjusted() < 40 and value == value.to_integral_value()
    return int(value) if is_whole else float(value)


def _side_by_side(columns: list[NDArray[Any]], n_rows: int) -> NDArray[Any]:
    """Columns as a table (n, k), of objects if columns of different kinds are not all numbers."""
    if not columns:
        return np.empty((n_rows, 0))
    if len({column.dtype for column in columns}) > 1 and any(c.dtype.kind not in "iufb" for c in columns):
        columns = [column.astype(object) for column in columns]
    return np.stack(columns, axis=1)


def _of_pandas(column: Any, called: str) -> NDArray[Any]:
    """A Series of pandas as an array, also one of pandas' own column types; errors call it `called`."""
    kind = type(column.dtype).__name__
    if kind == "ArrowDtype":
        return _of_polars(of_arrow(column.array.__arrow_array__(), called))
    if kind == "PeriodDtype":
        column = column.dt.to_timestamp()
    elif kind == "DatetimeTZDtype":
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    elif hasattr(column.dtype, "numpy_dtype"):
        plain = column.dtype.numpy_dtype
        if not column.isna().any():
            return np.asarray(column.to_numpy(plain))
        is_float = plain.kind == "f"
        gaps = {"dtype": plain, "na_value": np.nan} if is_float else {"dtype": object, "na_value": None}
        return np.asarray(column.to_numpy(**gaps))
    return _plain_objects(np.asarray(column))


def of_arrow(data: Any, called: str) -> Any:
    """An object with an Arrow stream as a Series or DataFrame of polars.

    ValueError for one that cannot be read; it says `called`, the argument's name and the type that was given.
    """
    import polars as pl

    try:
        data = _without_encoding(data)
        is_table = names_of(data) is not None
        return pl.DataFrame(data) if is_table else pl.Series(data)
    # libraries raise errors of many kinds for what they cannot read
    except (Exception, pl.exceptions.PanicException) as error:
        reason = shown(str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise ValueError(f"{called} cannot be read ({reason}): make a numpy array of it first") from error


def _without_encoding(data: Any) -> Any:
    """Columns of pyarrow decoded where polars would misread or refuse the encoding; all else as it is."""
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is None:
        return data
    if isinstance(data, (pyarrow.Table, pyarrow.RecordBatch)):
        columns = [_without_encoding(column) for column in data.columns]
        return pyarrow.Table.from_arrays(columns, names=data.schema.names)
    if not isinstance(data, (pyarrow.Array, pyarrow.ChunkedArray)):
        return data
    kind = data.type
    if pyarrow.types.is_dictionary(kind):
        return _without_encoding(data.cast(kind.value_type))
    if pyarrow.types.is_run_end_encoded(kind):
        parts = data.chunks if isinstance(data, pyarrow.ChunkedArray) else [data]
        decoded = [pyarrow.compute.run_end_decode(part) for part in parts]
        return _without_encoding(pyarrow.chunked_array(decoded, kind.value_type))
    if pyarrow.types.is_decimal256(kind):
        return data.cast(pyarrow.decimal128(38, kind.scale))
    return data


def _of_polars(column: Any) -> NDArray[Any]:
    """A Series of polars."""
    import polars as pl

    kind = column.dtype
    if isinstance(kind, (pl.List, pl.Array)):
        return _plain_objects(_as_objects(column.to_list()))
    if isinstance(kind, pl.Decimal):
        # whole decimals, such as ids, may have more digits than a float holds
        column = column.cast(pl.Float64) if kind.scale else _whole(column)
        kind = column.dtype
    if kind.is_float():
        return np.asarray(column.to_numpy())
    if isinstance(kind, pl.Datetime) and kind.time_zone is not None:
        column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    elif not kind.is_temporal() or kind == pl.Time:
        is_plain = kind == pl.Boolean or (kind.is_integer() and kind not in (pl.Int128, pl.UInt128))
        if not is_plain or column.null_count():
            return _plain_objects(_as_objects(column.to_list()))
    return np.asarray(column.to_numpy())


def _whole(column: Any) -> Any:
    """Decimals without digits behind the point as integers of 64 or, where these are too short, 128 bits."""
    import polars as pl

    short = column.cast(pl.Int64, strict=False)
    return short if short.null_count() == column.null_count() else column.cast(pl.Int128)


def _as_objects(values: list[Any]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def like(original: Any, values: NDArray[np.float64], names: Sequence[Any] | None = None) -> Any:
    """Numbers, shape (T,) or (T, k), as a column or table of the library that `original` comes from.

    The result has the index of `original`, if that has one, and its names, or `names`. Where `original` is
    of none of these libraries, the array itself is returned.
    """
    import narwhals as nw

    original = _native(original)
    if hasattr(original, "iloc"):
        # narwhals leaves the names of an index behind, and has texts only for names of columns
        if original.ndim == 1:
            return type(original)(values, index=original.index, name=original.name)
        return type(original)(
            values, index=original.index, columns=original.columns if names is None else names
        )
    if type(original).__module__.startswith("xarray."):
        return original.copy(data=values)
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(original, pyarrow.Array):
        return pyarrow.array(values)
    if pyarrow is not None and isinstance(original, pyarrow.RecordBatch):
        texts = original.schema.names if names is None else list(map(str, names))
        return pyarrow.record_batch([pyarrow.array(column) for column in values.T], texts)
    known = nw.from_native(original, allow_series=True, eager_only=True, pass_through=True)
    if isinstance(known, nw.Series):
        return nw.new_series(known.name, values, backend=known.implementation).to_native()
    if isinstance(known, nw.DataFrame):
        texts = known.columns if names is None else list(map(str, names))
        return nw.from_numpy(values, texts, backend=known.implementation).to_native()
    return values
