#!/usr/bin/env bash
# river's ADWINBaggingClassifier replaces a model when its models get better, and keeps them when they get worse.
#
# Guess. As its page says, drift makes it replace the member whose error, by ADWIN's estimate, is the largest. So
# nothing is replaced when models get better, and a member is soon after they have got worse.
#
# What happens (river 0.26.1, Python 3.11). ADWIN is told 1 for a right answer, and then read as if the number
# were an error. So only a rise of the accuracy counts as a change, and the model with the highest accuracy is
# thrown away. When the models fall from 90 % right to 50 %, nothing at all is replaced. ADWINBoostingClassifier
# does the same. LeveragingBaggingClassifier, in the same file, tells ADWIN 1 for a wrong answer and does what
# the page says.
#
# Why it matters here. onlinecal's alarms have the form of river's detectors, and its docs say what river's models
# would give them. There is no one meaning of that number: it is "right" in two ensembles, "wrong" in others, and
# a rescaled error in forests that regress. onlinecal's alarms take the forecast and the outcome instead, and
# refuse at once to stand where they would be given such a number.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet river==0.26.1
cd "$folder"

cat > ensembles.py <<'PYTHON'
"""Members that say what the row tells them to say: at which rows a member is replaced."""

import random

from river import base, ensemble

HALF = 1500
"""Rows before and after the change."""


class Told(base.Classifier):
    """Gives the answer that is written in the row, and learns nothing."""

    def learn_one(self, x, y):
        pass

    def predict_proba_one(self, x):
        return {True: x["answer"], False: 1.0 - x["answer"]}


def replaced(kind, before, after):
    """Rows at which a member was replaced, of members that are right so often before and after the change."""
    rng = random.Random(1)
    model = kind(Told(), n_models=2, seed=3)
    members = list(model)
    rows = []
    for row in range(2 * HALF):
        truth = rng.random() < 0.5
        right = rng.random() < (before if row < HALF else after)
        model.learn_one({"answer": float(truth == right)}, truth)
        if any(now is not then for now, then in zip(model, members, strict=True)):
            rows.append(row)
            members = list(model)
    return rows


found = {}
for kind in (ensemble.ADWINBaggingClassifier, ensemble.ADWINBoostingClassifier, ensemble.LeveragingBaggingClassifier):
    worse, better = replaced(kind, 0.9, 0.5), replaced(kind, 0.5, 0.9)
    found[kind.__name__] = bool(worse), bool(better)
    print(f"{kind.__name__}: from 90 % right to 50 %: replaced at {worse}; from 50 % to 90 %: {better}")

# right would be (True, False) three times
assert found["ADWINBaggingClassifier"] == (False, True)
assert found["ADWINBoostingClassifier"] == (False, True)
assert found["LeveragingBaggingClassifier"] == (True, False)
PYTHON
venv/bin/python ensembles.py
