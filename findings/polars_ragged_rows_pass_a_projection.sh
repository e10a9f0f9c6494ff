#!/usr/bin/env bash
# polars refuses a CSV row with too many fields, but not if one column is left out: then columns are shifted.
#
# Guess. Without `truncate_ragged_lines=True` a row that has more fields than the header is an error, whichever
# columns are asked for. Asking for fewer columns of a file gives some of the columns that asking for all gives.
#
# What happens (polars 2.1.0, Python 3.11). It is an error only if all columns are asked for. If a single one is
# left out, in `read_csv(columns=...)` or by a `select` that is pushed down into `scan_csv`, the row is taken and
# the fields that are too many are dropped, even if the last column is among those asked for. A decimal comma is
# enough: in the row `b,0,7,1,2.5` the forecast is read as 0, the outcome as 7, and the weight as 1. So the same
# file is refused by a program that looks at it whole and silently misread by one that computes from it.
# A mean of the column `p` is such a projection. Counting rows passes as well.
#
# Why it matters here. An outcome of 7 would be refused for its value, but the row `b,0,1,1,2.5`, meant as a
# forecast of 0.1, passes every check as a forecast of 0 that failed. So onlinecal reads all fields of a text
# file as texts first, refuses surplus ones by their row, and takes the columns that it needs afterwards
# (onlinecal/tables/formats.py, tests/tables/test_formats.py).
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet polars==2.1.0
cd "$folder"

cat > ragged.py <<'PYTHON'
"""Every set of columns of a file whose second row has a decimal comma."""

from itertools import combinations
from pathlib import Path

import polars as pl

COLUMNS = ("id", "p", "y", "weight")
Path("rows.csv").write_text("id,p,y,weight\na,0.5,0,1.5\nb,0,7,1,2.5\nc,0.9,1,3.5\n")

READERS = {
    "read_csv": lambda columns: pl.read_csv("rows.csv", columns=columns),
    "scan_csv": lambda columns: pl.scan_csv("rows.csv").select(columns).collect(),
    "streaming": lambda columns: pl.scan_csv("rows.csv").select(columns).collect(engine="streaming"),
}
for reader, read in READERS.items():
    refused, taken = [], []
    for size in range(1, len(COLUMNS) + 1):
        for columns in combinations(COLUMNS, size):
            try:
                second = read(list(columns)).row(1, named=True)
            except pl.exceptions.ComputeError as error:
                message = str(error).splitlines()[0]
                refused.append(columns)
            else:
                taken.append(columns)
                shifted = {"id": "b", "p": 0.0, "y": 7, "weight": 1.0}
                # right would be an error
                assert second == {name: shifted[name] for name in columns}
    print(f"{reader}: refused {refused} ({message}); taken with shifted columns: {len(taken)} sets")
    assert refused == [COLUMNS] and len(taken) == 14

rows = pl.scan_csv("rows.csv")
mean, count = rows.select(pl.col("p").mean()).collect().item(), rows.select(pl.len()).collect().item()
print(f"mean of p: {mean:.4f} of {count} rows")
assert abs(mean - 1.4 / 3) < 1e-12 and count == 3
PYTHON
venv/bin/python ragged.py
