#!/usr/bin/env bash
# `table[i] = row` has numba compile the words of an error that is never raised; a loop over the row does not.
#
# Guess. To assign a row to a row of a table of two dimensions compiles like the loop over its elements: a check
# of the lengths, and a copy.
#
# What happens (numba 0.68.1, llvmlite 0.50.0, Python 3.11). If the lengths could differ, the error is to name
# both shapes. So numba compiles how a tuple is turned into text: `str` and `repr` of integers, joined strings,
# their kinds of letters. One assignment compiles 38 functions, of which 36 are about text; the loop compiles
# one, and so does a scalar that is assigned to the row. `table[i, :] += row` compiles the 38, too.
#
# Why it matters here. Kernels are compiled when somebody waits for them. One such line took 1.8 of the 4.5
# seconds of a kernel of the multiclass distance, for a message that nobody could ever see. So kernels copy rows
# by `copy` (onlinecal/compiling/instructions.py).
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet numba==0.68.1 numpy==2.4.6
cd "$folder"

cat > rows.py <<'PYTHON'
"""How many functions numba compiles for one assignment, and how many of them are about text."""

import sys

import numpy as np
from numba import njit
from numba.core import event

WAYS = {
    "row": "table[i] = row",
    "loop": "for j in range(len(row)):\n        table[i, j] = row[j]",
    "scalar": "table[i] = row[0]",
    "sum": "table[i, :] += row",
}


class Names(event.Listener):
    def __init__(self):
        self.names = []

    def on_start(self, told):
        self.names.append(told.data["dispatcher"].py_func.__module__)

    def on_end(self, told):
        pass


names = Names()
source = f"def put(table, i, row):\n    {WAYS[sys.argv[1]]}\n"
exec(source)
kernel = njit(put)
with event.install_listener("numba:compile", names):
    table = np.zeros((2, 3))
    kernel(table, 1, np.arange(3.0))
print(len(names.names), sum("unicode" in name or "builtins" in name for name in names.names), table[1])
PYTHON

for way in row loop scalar sum; do
  echo "$way: $("$folder/venv/bin/python" rows.py "$way")"
done > said.txt
cat said.txt
diff said.txt - <<'EXPECTED'
row: 38 36 [0. 1. 2.]
loop: 1 0 [0. 1. 2.]
scalar: 1 0 [0. 0. 0.]
sum: 38 36 [0. 1. 2.]
EXPECTED
echo "as described: a row that is assigned to a row has the words of an error compiled"
