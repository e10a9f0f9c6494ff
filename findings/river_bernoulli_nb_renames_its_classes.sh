#!/usr/bin/env bash
# river's BernoulliNB answers with texts after learn_many, and after learn_one has one class under two names.
#
# Guess. `learn_many` and `learn_one` can take turns, and the classes of `predict_proba_one` are the labels that
# were learned: False and True, or 1 and 2.
#
# What happens (river 0.26.1, pandas 3.1.1, Python 3.11). `learn_many` turns labels into text for the columns of
# a table and keeps the text: the classes are "False" and "True", or "1" and "2". One `learn_one` later there
# are three classes, "False", "True" and True, that share the probability. In the run below True gets 0.22 and
# "True" 0.72 where a model that learned the same rows one by one gives True 0.95. A look-up of True after
# `learn_many` alone finds nothing, and `.get(True, 0.0)`, as metrics of river have it, is 0 for a sure yes.
# GaussianNB, which has no code of its own for batches, keeps the labels.
#
# Why it matters here. onlinecal wraps any classifier of river and looks for the probability of yes under its
# name. It understands such texts where one label alone has that text (docs/labels-and-pipelines.md), and must
# not take an absent name for a probability of 0.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet river==0.26.1 pandas==3.1.1 scipy==1.17.1
cd "$folder"

cat > classes.py <<'PYTHON'
"""The same five rows, learned one by one, in a batch, and in a batch with one row after it."""

import pandas as pd
from river import naive_bayes

table = pd.DataFrame({"a": [1, 0, 1, 1], "b": [0, 1, 0, 1]})
asked = {"a": 1, "b": 0}


def answer(kind, labels, batch, then=()):
    model = kind()
    if batch:
        model.learn_many(table, pd.Series(labels))
    else:
        for row, label in zip(table.to_dict("records"), labels, strict=True):
            model.learn_one(row, label)
    for label in then:
        model.learn_one(asked, label)
    return model.predict_proba_one(asked)


BOOLEANS = [True, False, True, True]
one_by_one = answer(naive_bayes.BernoulliNB, BOOLEANS, batch=False, then=[True])
batch = answer(naive_bayes.BernoulliNB, BOOLEANS, batch=True)
mixed = answer(naive_bayes.BernoulliNB, BOOLEANS, batch=True, then=[True])
numbers = answer(naive_bayes.BernoulliNB, [1, 2, 1, 1], batch=True)
for name, found in (("one by one", one_by_one), ("batch", batch), ("batch, then a row", mixed), ("1 and 2", numbers)):
    print(f"{name}: {({label: round(float(p), 4) for label, p in found.items()})}")

assert set(one_by_one) == {False, True} and one_by_one[True] > 0.9
# right would be {False, True} twice, and {1, 2}
assert set(batch) == {"False", "True"}
assert set(mixed) == {"False", "True", True} and mixed[True] < 0.5
assert set(numbers) == {"1", "2"}
PYTHON
venv/bin/python classes.py
