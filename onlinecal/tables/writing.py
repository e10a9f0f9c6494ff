"""Files that are written whole: a file is not there, or the old one, or complete."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


@contextmanager
def whole(path: Path, give_name: Callable[[Path, Path], object] = os.replace) -> Iterator[Path]:
    """Where to write a file that gets its name at the end of the block, in place of an old one by default.

    That is in a folder beside it with a name that nobody has; it is gone when the block fails.
    """
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.{os.getpid()}-") as folder:
        part = Path(folder) / path.name
        yield part
        give_name(part, path)


def write_table(table: pl.DataFrame, path: Path) -> Path:
    """Write a table in the format of the path's extension; it appears when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as part:
        if path.suffix == ".csv":
            table.write_csv(part)
        else:
            table.write_parquet(part)
    return path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is either not there, or the old one, or complete."""
    with whole(path) as part:
        part.write_bytes(content)
