#!/usr/bin/env bash
# venn-abers: of labels -1 and 1 a forecast of 0.2 is calibrated to -1.4, and of labels 1 and 2 to 1.2.
#
# Guess. `VennAbersCalibrator().predict_proba(p_cal=..., y_cal=..., p_test=...)` takes any two labels, as it does when
# it is given an estimator, or refuses what is not 0 and 1. Whatever comes is between 0 and 1.
#
# What happens (venn-abers 1.5.4, numpy 2.4.6, scikit-learn 1.9.1, Python 3.11). With an estimator the labels become
# columns of zeros and ones first. With forecasts they are added up as they are, so that -1 is minus one event. Rows
# that are calibrated exactly come out as -1.4, 0.01 and 0.6 where 0.2, 0.5 and 0.8 were given, and with labels 1 and
# 2 as 1.2, 1.7 and 2.9. The rows sum to 1, nothing is raised, and no warning comes that does not come with 0 and 1.
#
# Why it matters here. Labels -1 and 1 are common, onlinecal takes them, and its docs put its recalibrators beside this
# one. On such labels one would compare with numbers that are no probabilities, though the middle one looks like one.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet venn-abers==1.5.4 numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1 pandas==3.1.1
cd "$folder"

cat > labels.py <<'PYTHON'
"""A hundred rows each of 0.2, 0.5 and 0.8, in which the event came as often as that, under three pairs of labels."""

import warnings

import numpy as np

warnings.simplefilter("ignore")  # of a slice of NaN, which comes with 0 and 1, too
from sklearn.linear_model import LogisticRegression
from venn_abers import VennAbersCalibrator

given = np.array([0.2, 0.5, 0.8])
forecasts = np.repeat(given, 100)
came = np.concatenate([np.arange(100) < count for count in (20, 50, 80)]).astype(int)


def columns(chances):
    return np.column_stack([1 - chances, chances])


def by_forecasts(names):
    return VennAbersCalibrator().predict_proba(p_cal=columns(forecasts), y_cal=names[came], p_test=columns(given))


def by_estimator(names):
    one = VennAbersCalibrator(estimator=LogisticRegression(), inductive=True, cal_size=0.5, random_state=0)
    one.fit(forecasts[:, None], names[came])
    return one.predict_proba(given[:, None])


pairs = {"0 and 1": np.array([0, 1]), "-1 and 1": np.array([-1, 1]), "1 and 2": np.array([1, 2])}
found = {pair: by_forecasts(names) for pair, names in pairs.items()}
for pair, table in found.items():
    print(f"labels {pair}: 0.2, 0.5 and 0.8 become {', '.join(f'{chance:.2f}' for chance in table[:, 1])}")
    assert np.allclose(table.sum(axis=1), 1)
with_estimator = [by_estimator(names) for names in pairs.values()]
print("with an estimator all three pairs are alike:", all(np.allclose(with_estimator[0], t) for t in with_estimator))

# right would be the first line three times, or a refusal
assert np.allclose(found["0 and 1"][:, 1], given, atol=0.01)
assert np.allclose(found["-1 and 1"][:, 1], [-1.405, 0.0098, 0.598], atol=0.002)
assert np.allclose(found["1 and 2"][:, 1], [1.186, 1.681, 2.881], atol=0.002)
assert all(np.allclose(with_estimator[0], table) for table in with_estimator)
PYTHON
venv/bin/python labels.py
