"""Columns and tables of any library: what they hold as numpy's arrays, and numbers as the kind that came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def like(given: Any, values: NDArray[np.float64], names: Sequence[Any] | None = None) -> Any:
    """Numbers, shape (T,) or (T, k), as a Series or DataFrame if such was given, else as they are.

    It is of the same library, has the same index if there are such, and the same names, or these.
    """
    import narwhals as nw

    if hasattr(given, "iloc"):
        # narwhals leaves the names of an index behind, and has texts only for names of columns
        if given.ndim == 1:
            return type(given)(values, index=given.index, name=given.name)
        return type(given)(values, index=given.index, columns=given.columns if names is None else names)
    known = nw.from_native(given, allow_series=True, eager_only=True, pass_through=True)
    if isinstance(known, nw.Series):
        return nw.new_series(known.name, values, backend=known.implementation).to_native()
    if isinstance(known, nw.DataFrame):
        texts = known.columns if names is None else list(map(str, names))
        return nw.from_numpy(values, texts, backend=known.implementation).to_native()
    return values
