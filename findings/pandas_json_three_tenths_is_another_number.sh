#!/usr/bin/env bash
# pandas reads 0.3 in JSON as 0.30000000000000004, and in CSV as 0.3; nine in ten numbers of full length are moved.
#
# Guess. `read_json` and `read_csv` read the same text as the same number. Of numbers with all 17 digits some may come
# out a last bit off in either; short ones as 0.3 never do.
#
# What happens (pandas 3.1.1, numpy 2.4.6, Python 3.11). `read_csv` reads all of them right, since version 3.
# `read_json` multiplies digits and powers of ten in floating point. Of 100,000 random probabilities written by Python
# 92,000 are read as others, by up to 1e-15; of numbers with three decimals one in seven, 0.3 among them. With
# `precise_float=True`, which is not the default, all are right, and so are those of polars 2.1.0. The other way,
# `to_json` writes ten decimals: 1e-11 becomes 0.0.
#
# Why it matters here. onlinecal groups forecasts by exact value, and bins have ends at i/B. A frame that pandas made
# of JSON has 0.3 in another bin and level set than the same file that onlinecal reads.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet pandas==3.1.1 polars==2.1.0 numpy==2.4.6
cd "$folder"

cat > read.py <<'PYTHON'
"""The same numbers as JSON and as CSV, read by pandas and polars."""

import io
import json
import random

import pandas as pd
import polars as pl

random.seed(1)
long = [random.random() for _ in range(100_000)]
short = [i / 1000 for i in range(1001)]


def as_json(values):
    return json.dumps([{"p": value} for value in values])


def as_csv(values):
    return "p\n" + "\n".join(map(repr, values)) + "\n"


ways = {
    "read_json": lambda values: pd.read_json(io.StringIO(as_json(values))),
    "read_json, precise_float": lambda values: pd.read_json(io.StringIO(as_json(values)), precise_float=True),
    "read_csv": lambda values: pd.read_csv(io.StringIO(as_csv(values))),
    "polars, read_json": lambda values: pl.read_json(io.BytesIO(as_json(values).encode())),
    "polars, read_csv": lambda values: pl.read_csv(io.BytesIO(as_csv(values).encode())),
}
moved = {}
for name, read in ways.items():
    moved[name] = tuple(int((read(values)["p"].to_numpy() != values).sum()) for values in (long, short))
    print(f"{name}: {moved[name][0]} of 100,000 long and {moved[name][1]} of 1,001 short numbers are others")
three_tenths = float(pd.read_json(io.StringIO('[{"p": 0.3}]'))["p"][0])
written = pd.DataFrame({"p": [1e-11]}).to_json(orient="records")
print("0.3 is read as", three_tenths, "and 1e-11 written as", written)

# right would be 0 throughout, 0.3 and 1e-11
assert moved["read_json"][0] > 90_000 and moved["read_json"][1] > 100 and three_tenths == 0.1 + 0.2
assert all(found == (0, 0) for name, found in moved.items() if name != "read_json")
assert written == '[{"p":0.0}]'
PYTHON
venv/bin/python read.py
