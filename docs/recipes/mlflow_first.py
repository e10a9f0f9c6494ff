"""Log a wrapper to MLflow, as an artifact and as a model; then go on, to compare."""

import copy
import pickle

import mlflow
from river import datasets, linear_model, preprocessing

from onlinecal import CalibratedClassifier


class Looks(mlflow.pyfunc.PythonModel):
    """Answers from a copy, so that no forecast is left open."""

    def __init__(self, model):
        self.model = model

    def predict(self, context, model_input, params=None):
        """Calibrated probabilities of each row."""
        return copy.deepcopy(self.model).predict_proba_many(model_input)


rows = list(datasets.Phishing())
model = CalibratedClassifier(preprocessing.StandardScaler() | linear_model.LogisticRegression())
for x, y in rows[:600]:
    model.predict_proba_one(x)
    model.learn_one(x, y)

mlflow.set_tracking_uri("sqlite:///mlflow.db")
with mlflow.start_run() as run:
    with open("model.pickle", "wb") as file:
        pickle.dump(model, file)
    mlflow.log_artifact("model.pickle")
    mlflow.pyfunc.log_model(
        name="calibrated", python_model=Looks(model), extra_pip_requirements=["river==0.26.1"]
    )
with open("run.txt", "w") as file:
    file.write(run.info.run_id)

for x, y in rows[600:]:
    model.predict_proba_one(x)
    model.learn_one(x, y)
print(model.n_rounds, model.certificate, model.n_rounds, model.certificate)
