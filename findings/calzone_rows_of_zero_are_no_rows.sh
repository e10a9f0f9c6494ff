#!/usr/bin/env bash
# calzone: events that were given no chance at all, and came, count nowhere. Ten of a hundred change no figure.
#
# Guess. Rows with the probability 0 are in the first bin. If the event came in all of them, the error rises.
#
# What happens (calzone-tool 0.1.0, numpy 2.4.6, Python 3.11). Bins are open on the left, the first one too, so rows
# of exactly 0 are in none. They are in no count, and the average is over the other rows. A hundred calibrated rows
# have the error 0; with ten more that were given 0 and came true it is 0 still, where the right one is 1/11. The
# worst that a forecaster can do is invisible, in the Hosmer-Lemeshow test too, and rows given 1e-300 are not.
#
# Why it matters here. Isotonic maps give out exact zeros on many rows. onlinecal's measures count them, and its
# `convention="calzone-tool"` has to leave them out.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet calzone-tool==0.1.0 numpy==2.4.6 scipy==1.17.1
cd "$folder"

cat > zeros.py <<'PYTHON'
"""A hundred rows of one half, of which half came, and ten more that came."""

import warnings

import numpy as np

warnings.simplefilter("ignore")
from calzone.metrics import calculate_ece_mce, hosmer_lemeshow_test
from calzone.utils import reliability_diagram


def figures(p, y):
    right, said, _, rows = reliability_diagram(y, np.column_stack([1 - p, p]), num_bins=10, class_to_plot=1)
    error, largest = calculate_ece_mce(right, said, rows)
    return float(error), float(largest), float(hosmer_lemeshow_test(right, said, rows)[0]), int(rows.sum())


half, outcomes = np.full(100, 0.5), np.resize([0, 1], 100)
more = {
    chance: figures(np.append(half, np.full(10, chance)), np.append(outcomes, np.ones(10, int)))
    for chance in (0.0, 1e-300)
}
alone = figures(half, outcomes)
print("a hundred calibrated rows: ECE {:.4f}, MCE {:.4f}, chi squared {:.4g}, {} rows".format(*alone))
for chance, found in more.items():
    print(f"and ten that were given {chance:g} and came:", "ECE {:.4f}, MCE {:.4f}, chi squared {:.4g}, {} rows".format(*found))

# right would be the second line twice
assert more[0.0] == alone and alone[0] == 0.0
assert abs(more[1e-300][0] - 10 / 110) < 1e-9 and more[1e-300][3] == 110
PYTHON
venv/bin/python zeros.py
