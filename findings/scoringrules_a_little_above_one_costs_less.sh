#!/usr/bin/env bash
# scoringrules: a certain forecast that is wrong costs infinitely much, one that is a last bit above 1 costs 36.
#
# Guess. A probability above 1 is refused, or taken for 1. Its log score if the event does not come is infinite, as
# that of 1.
#
# What happens (scoringrules 0.10.0, numpy 2.4.6, Python 3.11). The check lets probabilities up to 1.00001 pass, and
# the score is -log|f + y - 1|, whose bars turn what is negative round. So 1.0000000000000002, as sums of class
# probabilities often are, costs 36, and 1.000009 costs 11.6: the further above 1, the less. Below 0 the check has no tolerance.
#
# Why it matters here. Rows of onlinecal's tables may miss the sum 1 by a little, too. Their probabilities are cut to
# 1 before a measure sees them.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet scoringrules==0.10.0 numpy==2.4.6 scipy==1.17.1
cd "$folder"

cat > above.py <<'PYTHON'
"""Log scores of an event that did not come."""

import warnings

import numpy as np

warnings.simplefilter("ignore")  # of the logarithm of 0
from scoringrules import log_score

chances = np.array([0.99999, 1.0, np.nextafter(1.0, 2.0), 1.000001, 1.000009])
costs = log_score(np.zeros(5), chances)
for chance, cost in zip(chances, costs):
    print(f"{chance!r}: {cost:.4f}")
try:
    log_score(np.zeros(1), np.array([-1e-17]))
    below = "taken"
except ValueError as error:
    below = f"refused: {error}"
print("-1e-17 is", below)

# right would be infinity, or a refusal, for all from 1 on
assert costs[1] == np.inf and 36.0 < costs[2] < 36.1
assert 11.6 < costs[4] < costs[3] < costs[2] and below.startswith("refused")
PYTHON
venv/bin/python above.py
