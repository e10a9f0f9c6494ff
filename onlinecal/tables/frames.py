"""Columns and tables of any library, told apart here alone: in as numpy's arrays, out as they came.

What is missing (masked, null, NA, NaT) is None, NaN or NaT in the array, so that whatever lies under a mask
is never taken for a value. What cannot be read row by row is refused in words.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlinecal.texts import shown

UNREAD = {
    ("polars", "LazyFrame"): "a LazyFrame: collect() it first",
    ("polars", "Expr"): "an expression of polars: select it from a frame first",
    ("pyarrow", "RecordBatchReader"): "a RecordBatchReader, which is read once: give its read_all()",
    ("duckdb", "DuckDBPyRelation"): "a relation of duckdb: fetch it first, as its df() or fetchnumpy() do",
    ("_duckdb", "DuckDBPyRelation"): "a relation of duckdb: fetch it first, as its df() or fetchnumpy() do",
    ("xarray", "Dataset"): "a Dataset of xarray: name one of its variables, or give its to_dataframe()",
}
"""What stands for rows that are not there yet, by library and class, and what to do about it."""


def as_array(given: Any, name: str, wanted: str = "a column", even: str = "a flat sequence") -> NDArray[Any]:
    """What a column or a table holds: booleans, numbers, times, or objects, of shape (T,) or (T, k).

    Parameters
    ----------
    given
        A sequence, an array, or a column or table of pandas, polars, pyarrow, xarray, or what is turned into
        an array or an Arrow stream. Categories are what they stand for, periods begin when they do, instants
        are in UTC, and lists of one are what is in them.
    name, wanted, even
        For errors: what the argument is called, what it should be, and what a ragged one is not.

    Returns
    -------
    Not a copy where none is needed. Missing numbers are NaN among floats, and None among objects, which whole
    numbers and booleans become if one of them is missing; missing times are NaT.

    Raises ValueError for what is no column, and for rows of unequal length.
    """
    given = _native(given)
    refuse_no_array(given, name, wanted)
    if isinstance(given, np.ma.MaskedArray):
        return _unmasked(given)
    if isinstance(given, np.ndarray):
        return _plain_objects(np.asarray(given))
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None:
        if isinstance(given, (pandas.Index, pandas.api.extensions.ExtensionArray)):
            given = pandas.Series(given)
        if isinstance(given, pandas.Series):
            return _of_pandas(given)
        if isinstance(given, pandas.DataFrame):
            return _side_by_side([_of_pandas(given.iloc[:, i]) for i in range(given.shape[1])], len(given))
    if _is_arrow(given):
        given = of_arrow(given, name)
        polars = sys.modules["polars"]
    if polars is not None:
        if isinstance(given, polars.Series):
            return _of_polars(given)
        if isinstance(given, polars.DataFrame):
            return _side_by_side([_of_polars(column) for column in given], given.height)
    if isinstance(given, Iterable) and not hasattr(given, "__array__"):
        given = list(given)
        if given and isinstance(given[0], np.ma.MaskedArray):
            return _unmasked(np.ma.stack(given))
    try:
        return _plain_objects(np.asarray(given))
    except ValueError as error:
        raise ValueError(f"{name} must be {even}, got a ragged one") from error


def refuse_no_array(given: Any, name: str, wanted: str) -> None:
    """Refuse in words what numpy makes one object of, or reads in no order."""
    if isinstance(given, (str, bytes)):
        raise ValueError(f"{name} must be {wanted}, got the text {shown(given)}: a file is read first")
    if isinstance(given, Mapping) and (type(given).__module__.partition(".")[0] != "xarray"):
        raise ValueError(
            f"{name} must be {wanted}, got a dict with the keys {list(given)[:3]}: "
            "pandas.DataFrame(...) of it is a table"
        )
    for parent in type(given).__mro__:
        unread = UNREAD.get((parent.__module__.partition(".")[0], parent.__name__))
        if unread is not None:
            raise ValueError(f"{name} must be {wanted}, got {unread}")
    if isinstance(given, Set) and not isinstance(given, Sequence):
        raise ValueError(f"{name} must be {wanted}, got a {type(given).__name__}, which has no order")
    if isinstance(given, Iterator) and not hasattr(given, "__array__"):
        kind = type(given).__name__
        raise ValueError(f"{name} must be {wanted}, got a {kind}, which is read once: give list(...) of it")
    if type(given).__module__.partition(".")[0] == "scipy" and hasattr(given, "toarray"):
        raise ValueError(f"{name} must be {wanted}, got a sparse one of scipy: give its toarray()")
    if isinstance(given, np.ndarray) and given.dtype.names is not None:
        fields = ", ".join(given.dtype.names[:3])
        raise ValueError(f"{name} must be {wanted}, got an array with the fields {fields}: name one of them")


def unmasked(table: Any) -> Any:
    """A masked array without its mask, as of `as_array`; anything else as it is."""
    return as_array(table, "X") if isinstance(table, np.ma.MaskedArray) else table


def objects_of(given: Any, name: str) -> list[Any]:
    """The values of a column as Python's objects, those of a list as they are; None where one is missing.

    Of texts beside numbers numpy would make texts; so a sequence of Python's is not made an array.
    """
    given = _native(given)
    refuse_no_array(given, name, "a column")
    if hasattr(given, "__array__") or hasattr(given, "columns") or _is_arrow(given):
        array = as_array(given, name)
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 1:
            raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
        values = array.tolist()
    elif isinstance(given, Iterable):
        values = [_scalar(value) for value in given]
    else:
        raise ValueError(f"{name} must be a column, got {shown(given)}")
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
    except TypeError:  # the NA of pandas, which is neither
        return True
    except ValueError:  # an array, which is refused elsewhere in words
        return False


def missing_in(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values of an array as of `as_array` are missing, of the same shape."""
    if array.dtype.kind == "f":
        return np.isnan(array)
    if array.dtype.kind in "mM":
        return np.isnat(array)
    if array.dtype.kind != "O":
        return np.zeros(array.shape, bool)
    return np.fromiter(map(is_missing, array.flat), bool, array.size).reshape(array.shape)


def names_of(table: Any) -> list[Any] | None:
    """What the columns of a table of pandas, polars or pyarrow are called; None for what has no names."""
    table = _native(table)
    if hasattr(table, "column_names"):  # of pyarrow, whose `columns` are arrays
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


def _is_arrow(given: Any) -> bool:
    """Whether this is read as a stream of Arrow: what pyarrow has, and what numpy cannot read."""
    has_stream = hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__")
    is_own = type(given).__module__.partition(".")[0] in ("pyarrow", "polars")
    return has_stream and (is_own or not hasattr(given, "__array__"))


def _native(given: Any) -> Any:
    """What a narwhals object stands for; anything else as it is."""
    is_wrapped = type(given).__module__.partition(".")[0] == "narwhals" and hasattr(given, "to_native")
    return given.to_native() if is_wrapped else given


def _unmasked(given: np.ma.MaskedArray[Any, Any]) -> NDArray[Any]:
    """A masked array without its mask: nothing of what lies under it is left."""
    masked = np.ma.getmaskarray(given)
    values = np.asarray(given.data)
    return _plain_objects(_with_gaps(values, masked) if masked.any() else values)


def _with_gaps(values: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[Any]:
    """A copy in which the missing values are NaN, NaT, or None, for which others become objects."""
    kind = values.dtype.kind
    gap = {"f": np.nan, "m": np.timedelta64("NaT"), "M": np.datetime64("NaT")}.get(kind)
    values = values.copy() if gap is not None else values.astype(object)
    values[missing] = gap
    return values


def _plain_objects(values: NDArray[Any]) -> NDArray[Any]:
    """Objects without boxes: lists of one, periods, instants and what stands for nothing are read."""
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
    """A number that is as exact: whole ones may be longer than a float, as those that name rows are."""
    if value.is_nan():
        return None
    is_whole = value.is_finite() and value.adjusted() < 40 and value == value.to_integral_value()
    return int(value) if is_whole else float(value)


def _side_by_side(columns: list[NDArray[Any]], n_rows: int) -> NDArray[Any]:
    """Columns as a table (n, k), of objects if one of them holds such."""
    if not columns:
        return np.empty((n_rows, 0))
    if len({column.dtype for column in columns}) > 1 and any(c.dtype.kind not in "iufb" for c in columns):
        columns = [column.astype(object) for column in columns]
    return np.stack(columns, axis=1)


def _of_pandas(column: Any) -> NDArray[Any]:
    """A Series of pandas, of its own kinds of columns, too."""
    kind = type(column.dtype).__name__
    if kind == "ArrowDtype":
        return _of_polars(of_arrow(column.array.__arrow_array__(), column.name))
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


def of_arrow(given: Any, name: Any) -> Any:
    """What has an Arrow stream, as a Series or DataFrame of polars."""
    import polars as pl

    try:
        given = _without_encoding(given)
        is_table = names_of(given) is not None
        return pl.DataFrame(given) if is_table else pl.Series(given)
    # each library says in its own words what it cannot read
    except (Exception, pl.exceptions.PanicException) as error:
        reason = shown(str(error).splitlines()[0] if str(error) else type(error).__name__)
        raise ValueError(f"{name} of type {type(given).__name__} cannot be read: {reason}") from error


def _without_encoding(given: Any) -> Any:
    """Columns of pyarrow as values where polars would read their encoding, or nothing; all else as it is."""
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is None:
        return given
    if isinstance(given, (pyarrow.Table, pyarrow.RecordBatch)):
        columns = [_without_encoding(column) for column in given.columns]
        return pyarrow.Table.from_arrays(columns, names=given.schema.names)
    if not isinstance(given, (pyarrow.Array, pyarrow.ChunkedArray)):
        return given
    kind = given.type
    if pyarrow.types.is_dictionary(kind):
        return _without_encoding(given.cast(kind.value_type))
    if pyarrow.types.is_run_end_encoded(kind):
        parts = given.chunks if isinstance(given, pyarrow.ChunkedArray) else [given]
        decoded = [pyarrow.compute.run_end_decode(part) for part in parts]
        return _without_encoding(pyarrow.chunked_array(decoded, kind.value_type))
    if pyarrow.types.is_decimal256(kind):
        return given.cast(pyarrow.decimal128(38, kind.scale))
    return given


def _of_polars(column: Any) -> NDArray[Any]:
    """A Series of polars."""
    import polars as pl

    kind = column.dtype
    if isinstance(kind, (pl.List, pl.Array)):
        return _plain_objects(_as_objects(column.to_list()))
    if isinstance(kind, pl.Decimal):
        # whole ones may be longer than a float, as those that name rows are
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
    """Decimals without digits behind the point as whole numbers."""
    import polars as pl

    short = column.cast(pl.Int64, strict=False)
    return short if short.null_count() == column.null_count() else column.cast(pl.Int128)


def _as_objects(values: list[Any]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def like(given: Any, values: NDArray[np.float64], names: Sequence[Any] | None = None) -> Any:
    """Numbers, shape (T,) or (T, k), as a column or table of the kind that was given, else as they are.

    It is of the same library, has the same index if there are such, and the same names, or these.
    """
    import narwhals as nw

    given = _native(given)
    if hasattr(given, "iloc"):
        # narwhals leaves the names of an index behind, and has texts only for names of columns
        if given.ndim == 1:
            return type(given)(values, index=given.index, name=given.name)
        return type(given)(values, index=given.index, columns=given.columns if names is None else names)
    if type(given).__module__.startswith("xarray."):
        return given.copy(data=values)
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(given, pyarrow.Array):
        return pyarrow.array(values)
    if pyarrow is not None and isinstance(given, pyarrow.RecordBatch):
        texts = given.schema.names if names is None else list(map(str, names))
        return pyarrow.record_batch([pyarrow.array(column) for column in values.T], texts)
    known = nw.from_native(given, allow_series=True, eager_only=True, pass_through=True)
    if isinstance(known, nw.Series):
        return nw.new_series(known.name, values, backend=known.implementation).to_native()
    if isinstance(known, nw.DataFrame):
        texts = known.columns if names is None else list(map(str, names))
        return nw.from_numpy(values, texts, backend=known.implementation).to_native()
    return values
