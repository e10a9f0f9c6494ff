#!/usr/bin/env bash
# river's convert_sklearn_to_river gives to each class the probability of another one, if classes are not sorted.
#
# Guess. `convert_sklearn_to_river(estimator, classes=["up", "down"])` says which labels there are, in whichever
# order. The converted classifier answers with a dictionary, so each label has its own probability. And `clone`
# of river gives a model that has learnt nothing, as its documentation says.
#
# What happens (river 0.26.1, scikit-learn 1.9.1, numpy 2.4.6, Python 3.11). scikit-learn sorts the classes, and
# its columns are in that order. river names the columns in the order of its own list, and never looks at
# `classes_`. So the model says "up" with 0.003 where `predict_one` says "up". Nothing warns. And the clone of a
# model that has learnt has learnt the same: the estimator inside is copied as it is.
#
# Why it matters here. Around such a model a wrapper would steer the probability of one class by the labels of
# the other. It would learn to turn it round, and nobody would see why that took so long. onlinecal refuses
# converted classifiers whose classes are not in order.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet river==0.26.1 scikit-learn==1.9.1 numpy==2.4.6
cd "$folder"

cat > swapped.py <<'PYTHON'
"""One rule, learnt twice: with classes in order, and in another one."""

from river.compat import convert_sklearn_to_river
from sklearn.linear_model import SGDClassifier

said, clones = {}, {}
for classes in (["down", "up"], ["up", "down"]):
    model = convert_sklearn_to_river(SGDClassifier(loss="log_loss", random_state=0), classes=classes)
    for row in range(100):
        model.learn_one({"a": row % 2 - 0.5}, "up" if row % 2 else "down")
    answer = model.predict_proba_one({"a": 0.5})
    said[classes[0]], clones[classes[0]] = answer, model.clone().predict_proba_one({"a": 0.5})
    print(f"classes={classes}: up with {answer['up']:.3f}, predict_one: {model.predict_one({'a': 0.5})}")
    assert model.predict_one({"a": 0.5}) == "up"
print("a clone says", clones["down"])

assert said["down"]["up"] > 0.9
# right would be the same answer; 1 - 0.9 is that of the other class
assert said["up"]["up"] < 0.1
# right would be 0.5 for both: a clone has learnt nothing
assert clones == said
PYTHON
venv/bin/python swapped.py
