"""Rows of class probabilities and labels on Spark, summed part by part."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from onlinecal.engine.spark.columns import array, check_columns, column, names_of, number
from onlinecal.pieces import SAMPLED, Floats, Ints
from onlinecal.recalibration.classical.newton import LinearRows, LinearSums, LocalRows
from onlinecal.recalibration.classical.temperature import logs_of, slopes_of
from onlinecal.recalibration.labels import number_labels
from onlinecal.validation import check_probability_rows, check_same_length

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Found = TypeVar("Found")
Batches = Iterator[tuple[Floats, Ints]]
LABEL, NUMBER = "label of the row", "number among equals"


class ClassTable:
    """Probabilities (n, C) and labels of a Spark table: nothing but what `work` finds comes to the driver.

    Attributes
    ----------
    classes
        What the columns stand for, shape (C,).
    names
        Those of the columns; None for a column of arrays.
    """

    def __init__(
        self, table: DataFrame, columns: str | Sequence[str], label: str, classes: Sequence[Any] | None
    ) -> None:
        names = names_of(columns)
        check_columns(table, [*names, label], "columns and label together")
        self.is_array = isinstance(columns, str)
        self.names = None if self.is_array else names
        inputs = [array(table, names[0])] if self.is_array else [number(table, name) for name in names]
        self.told = classes
        if classes is None and self.names and table.schema[label].dataType.typeName() == "string":
            self.told = self.names
        self.rows = table.select(*inputs, column(label).alias(LABEL)).persist()

    def __enter__(self) -> ClassTable:
        return self

    def __exit__(self, *_: object) -> None:
        self.rows.unpersist()

    def each(self, work: Callable[[Batches], Found], rows: DataFrame | None = None) -> list[Found]:
        """What `work` finds in the batches of each partition, in the order of the partitions.

        A ValueError there, as of a bad probability, is raised here.
        """
        is_array, told = self.is_array, self.told

        def read(batch: Any) -> tuple[Floats, Ints]:
            columns = [
                one for name, one in zip(batch.schema.names, batch.columns, strict=True) if name != NUMBER
            ]
            table = check_probability_rows(_table_of(columns[:-1], is_array), "columns")
            labels = columns[-1].to_numpy(zero_copy_only=False)
            numbers, _ = number_labels(labels, table.shape[1], told)
            check_same_length(table, numbers, "columns and label")
            return table, numbers

        def run(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow

            try:
                answer: Any = work(read(batch) for batch in batches if batch.num_rows)
            except ValueError as error:
                answer = error
            yield pyarrow.RecordBatch.from_pydict({"found": [pickle.dumps(answer)]})

        parts = (self.rows if rows is None else rows).mapInArrow(run, "found binary").collect()
        found = [pickle.loads(part.found) for part in parts]
        for one in found:
            if isinstance(one, ValueError):
                raise ValueError(f"in a batch of the table: {one}")
        return found

    def total(self, work: Callable[[Floats, Ints], tuple[Any, ...]]) -> tuple[Any, ...]:
        """The sums over all rows of the numbers and arrays that `work` finds in a batch."""

        def add_up(batches: Batches) -> tuple[Any, ...] | None:
            sums = None
            for table, labels in batches:
                more = work(table, labels)
                sums = more if sums is None else _sum(sums, more)
            return sums

        found = [one for one in self.each(add_up) if one is not None]
        total = found[0]
        for more in found[1:]:
            total = _sum(total, more)
        return total

    @cached_property
    def size(self) -> tuple[int, int, int]:
        """Rows, classes, and rows whose label is the most probable class.

        Raises ValueError for a table without rows, or with rows of different lengths.
        """

        def look(batches: Batches) -> tuple[int, int, set[int]]:
            rows, right, widths = 0, 0, set()
            for table, labels in batches:
                rows, right = rows + len(table), right + int((table.argmax(axis=1) == labels).sum())
                widths.add(table.shape[1])
            return rows, right, widths

        parts = self.each(look)
        widths = set().union(*(part[2] for part in parts))
        if len(widths) != 1:
            raise ValueError(f"columns: arrays must be of one length, got {sorted(widths)}" if widths
                             else "table has no rows")  # fmt: skip
        n_classes = widths.pop()
        if n_classes < 2:
            raise ValueError(f"columns must be of at least 2 classes, got {n_classes}")
        return sum(part[0] for part in parts), n_classes, sum(part[1] for part in parts)

    @property
    def classes(self) -> Any:
        """What the columns stand for, shape (C,)."""
        return number_labels([0] if self.told is None else [self.told[0]], self.size[1], self.told)[1]

    @cached_property
    def sample(self) -> tuple[Floats, Ints]:
        """At most SAMPLED of the rows, drawn by what is in them: the same however they are parted."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        keys = [column(name) for name in self.rows.columns]
        # equal rows are told apart by their number, so that some of them can be drawn
        equals = F.row_number().over(Window.partitionBy(*keys).orderBy(F.lit(0)))
        rows = self.rows.withColumn(NUMBER, equals)
        rows = rows.orderBy(F.xxhash64(*keys, column(NUMBER)), column(NUMBER)).limit(SAMPLED)
        parts = [part for part in self.each(list, rows) if part]
        return (
            np.concatenate([table for part in parts for table, _ in part]),
            np.concatenate([labels for part in parts for _, labels in part]),
        )

    def slopes(self, beta: float) -> tuple[float, float]:
        """Derivatives of the log loss by the inverse temperature, as `best_factor` asks for them."""
        first, second = self.total(
            lambda table, labels: slopes_of(logs_of(table), labels, np.ones(len(table)))(beta)
        )
        return first, second


class SparkRows(LinearRows):
    """The rows of a ClassTable as `best_linear` asks of them: one pass for each question."""

    from_sample = True

    def __init__(self, table: ClassTable) -> None:
        self.table, self.weight = table, float(table.size[0])

    def sums(self, parameters: Floats) -> LinearSums:
        """Of all rows, for parameters (C, m)."""
        return LinearSums(*self.table.total(lambda P, y: tuple(LocalRows.of(P, y).sums(parameters))))

    def curve(self, parameters: Floats) -> Floats:
        """The lower half of the second derivatives of the average log loss."""
        (curve,) = self.table.total(lambda P, y: (len(P) * LocalRows.of(P, y).curve(parameters),))
        return np.asarray(curve / self.weight)

    def sample(self) -> LocalRows:
        """Some of the rows, at random, on the driver."""
        return LocalRows.of(*self.table.sample)


def _sum(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(left + right for left, right in zip(one, other, strict=True))


def _table_of(columns: list[Any], is_array: bool) -> Floats:
    """Arrow's columns of one batch as a table (n, C); a null becomes a NaN, which is refused."""
    if not is_array:
        return np.column_stack([one.to_numpy(zero_copy_only=False) for one in columns]).astype(np.float64)
    lengths = set(columns[0].value_lengths().to_pylist())
    if len(lengths) != 1 or None in lengths:
        raise ValueError(f"columns: arrays must be of one length, got {sorted(map(str, lengths))}")
    return columns[0].flatten().to_numpy(zero_copy_only=False).astype(np.float64).reshape(-1, lengths.pop())
