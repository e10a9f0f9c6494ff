"""Writing of whole files: at any moment a path holds no file, the old file, or the complete new file.

Nothing is kept between calls. The new file lies in a folder on the same file system, so that giving it its
name is one step; this must stay so. The folder's name holds the file's and that of the process, and
`engine/ledger/file.py` finds by it what killed processes left: whoever changes the one changes the other.

Nobody here waits for the disk. So after a loss of power a file may be incomplete, but for those that
`new_file` of the ledger makes. Of two processes that write to one path the last to end wins.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


WRITABLE_PLACE = "name a file in a folder that is there and that you may write to"


def in_the_way(folder: Path) -> Path | None:
    """What is there in place of a folder, or of one above it, and is none; None if the folder can be made."""
    return next((place for place in (folder, *folder.parents) if place.exists() and not place.is_dir()), None)


@contextmanager
def whole(path: Path, give_name: Callable[[Path, Path], object] = os.replace) -> Iterator[Path]:
    """A path to write to; what stands there at the end of the block gets the name `path`.

    The path lies in a new folder beside `path`, which is removed at the end, also when the block fails.
    `give_name` moves the file; by default it replaces an old one. OSError says so if nothing can be written
    there.
    """
    try:
        beside = TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.{os.getpid()}-")
    except OSError as error:
        raise type(error)(f"{path}: cannot be written here: {error.strerror}; {WRITABLE_PLACE}") from error
    with beside as folder:
        part = Path(folder) / path.name
        yield part
        give_name(part, path)


def write_table(table: pl.DataFrame, path: Path) -> Path:
    """Write a table as CSV or Parquet, by the path's extension; the file appears when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as part:
        if path.suffix == ".csv":
            table.write_csv(part)
        else:
            table.write_parquet(part)
    return path


def write_whole(path: Path, content: bytes) -> None:
    """Write bytes to a file, which appears when it is complete."""
    with whole(path) as part:
        part.write_bytes(content)
