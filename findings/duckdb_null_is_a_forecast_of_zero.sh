#!/usr/bin/env bash
# A NULL of duckdb is a forecast of exactly 0 for scikit-learn if it comes by fetchnumpy, and an error by a frame.
#
# Guess. However a missing forecast gets from a database into `brier_score_loss`, scikit-learn notices: it
# refuses NaN, and it refuses or leaves out what a masked array has masked.
#
# What happens (duckdb 2.0.1, numpy 2.4.6, scikit-learn 1.9.1, pandas 3.1.1, Python 3.11). `fetchnumpy` gives a
# masked array if there is a NULL and a plain array if there is none, with 0, False or 1970 under the mask.
# scikit-learn takes the numbers under the mask: its check of NaN passes, and each NULL is scored as a sure no.
# In four rows the Brier score becomes 0.27 where the three known ones have 0.03. A reliability curve gets a
# point, isotonic regression and logistic regression learn the row, and a missing outcome is learned as False.
# By `.df()` the same query is refused because of NaN. numpy itself is of two minds: `mean` and `sum` leave the
# row out, `np.asarray`, `np.histogram`, `np.interp` and `np.concatenate` make it a 0, none of them with a word.
# With another fill under the mask, `np.ma.masked_invalid`, the very same mask makes scikit-learn refuse.
#
# Why it matters here. onlinecal takes arrays from wherever users have them, and a forecast of 0 that nobody made
# costs a log loss without bound. So a masked array must not go through `np.asarray` before it is looked at:
# onlinecal takes what is masked for missing (onlinecal/tables/frames.py, tests/tables/test_kinds.py).
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet \
  duckdb==2.0.1 numpy==2.4.6 scikit-learn==1.9.1 scipy==1.17.1 pandas==3.1.1
cd "$folder"

cat > null.py <<'PYTHON'
"""Four forecasts of which one is NULL, by two ways out of duckdb."""

import duckdb
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss

database = duckdb.connect()
database.execute("create table forecasts(p double, y integer, late boolean)")
database.execute("insert into forecasts values (0.9, 1, true), (null, 1, true), (0.8, 1, null), (0.2, 0, false)")

arrays = database.sql("select * from forecasts").fetchnumpy()
p, y, late = arrays["p"], arrays["y"], arrays["late"]
known = brier_score_loss(y[~p.mask], p[~p.mask])
scored = brier_score_loss(y, p)
print("fetchnumpy:", {name: type(column).__name__ for name, column in arrays.items()}, "under the mask:", p.data[1])
print(f"Brier score of the known rows {known:.4f}, of fetchnumpy {scored:.4f}")


def refused(column):
    try:
        brier_score_loss(y, column)
    except ValueError as error:
        return str(error).splitlines()[0]
    return None


by_frame = refused(database.sql("select p from forecasts").df()["p"])
same_mask = refused(np.ma.masked_invalid([0.9, np.nan, 0.8, 0.2]))
print("by a frame:", by_frame, "| the same mask over NaN:", same_mask)
curve = calibration_curve(y, p, n_bins=5)
fitted = IsotonicRegression().fit(p, y)
print("curve, forecasts and frequencies:", curve[1], curve[0], "| isotonic at 0:", fitted.predict([0.0]))
print("mean", p.mean(), "but histogram", np.histogram(p, bins=2)[0], "and joined", np.asarray(np.concatenate([p, p])))

assert isinstance(p, np.ma.MaskedArray) and not isinstance(y, np.ma.MaskedArray)
assert np.asarray(p)[1] == 0.0 and not np.asarray(late)[2]
# right would be an error, or the score of the known rows
assert abs(known - 0.03) < 1e-12 and abs(scored - 0.2725) < 1e-12
assert by_frame and same_mask
assert len(curve[0]) == 3 and fitted.predict([0.0])[0] == 0.5
assert abs(p.mean() - 1.9 / 3) < 1e-12 and np.histogram(p, bins=2)[0].sum() == 4
PYTHON
venv/bin/python null.py
