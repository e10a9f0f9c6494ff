"""Keeps what was computed in one file: plain arrays, the format, and a checksum. Nothing in it is executed.

The file is a NumPy .npz, which `numpy.load` reads, too, followed by the checksum. It appears when it is
complete. A file that somebody else wrote, that is cut off or in which anything has changed is refused.

MARK, the checksum, the names `format` and `what`, and what callers write as `what` are a saved format, and so
are the names, types and meaning of the arrays of each caller: whoever changes one of them raises
STATE_FORMAT. Here only the checksum and the format are looked at; whether arrays make sense is checked by who
reads them. Nothing here has a state.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from onlinecal.tables.writing import write_whole
from onlinecal.version import STATE_FORMAT, check_format

MARK = b"\nonlinecal crc32 "
DIGITS = 8
"""The checksum stands behind the mark, at the end of the file, in so many hexadecimal digits."""


def keep(path: str | Path, what: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays of numbers and texts to a file, which replaces an old one; `what` says what they are."""
    buffer = BytesIO()
    contents: dict[str, Any] = {**arrays, "format": np.array(STATE_FORMAT), "what": np.array(what)}
    # to compress digits that look random takes longer than to make them
    np.savez(buffer, **contents)
    payload = buffer.getvalue()
    write_whole(Path(path), payload + MARK + b"%08x" % crc32(payload))


def kept(path: str | Path, what: str) -> dict[str, NDArray[Any]]:
    """The arrays of a file that `keep` wrote; ValueError for another file or format, and for damage."""
    data = Path(path).read_bytes()
    payload, mark, digits = data[: -len(MARK) - DIGITS], data[-len(MARK) - DIGITS : -DIGITS], data[-DIGITS:]
    if mark != MARK:
        raise ValueError(
            f"{path} is not a file of {what} that onlinecal wrote: it is another one, or its end is missing. "
            "Name the file that was saved, or read another copy of it"
        )
    if digits != b"%08x" % crc32(payload):
        raise ValueError(
            f"{path} is damaged: its contents do not have the checksum that was written; "
            "read another copy of it"
        )
    with np.load(BytesIO(payload), allow_pickle=False) as file:
        arrays = dict(file)
    written, found = arrays.pop("format").tolist(), arrays.pop("what").item()
    if found != what:
        raise ValueError(f"{path} is not a file of {what}, but one of {found}: name another file")
    check_format(f"{path}, {what},", written)
    return arrays
