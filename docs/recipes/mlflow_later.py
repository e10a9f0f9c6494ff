"""In a new process: load the wrapper from both, and go on."""

import pickle

import mlflow
from river import datasets

mlflow.set_tracking_uri("sqlite:///mlflow.db")
with open("run.txt") as file:
    run_id = file.read()
path = mlflow.artifacts.download_artifacts(run_id=run_id, artifact_path="model.pickle")
with open(path, "rb") as file:
    from_artifact = pickle.load(file)
[logged] = mlflow.search_logged_models(filter_string="name = 'calibrated'", output_format="list")
from_model = mlflow.pyfunc.load_model(logged.model_uri).unwrap_python_model().model

found = []
for model in (from_artifact, from_model):
    for x, y in list(datasets.Phishing())[600:]:
        model.predict_proba_one(x)
        model.learn_one(x, y)
    found += [model.n_rounds, model.certificate]
print(*found)
