"""Recalibrators fitted on Spark: what `fit` finds on the same rows, however they are parted."""

from __future__ import annotations

import numpy as np
import pytest

from onlinecal import DecisionRecalibrator, GroupRecalibrator, LpRecalibrator
from onlinecal.recalibration import DirichletCalibration, TemperatureScaling, VectorScaling

PARTS = (1, 3, 7)


@pytest.fixture(scope="module")
def classes():
    """Probabilities of three classes that are too sure, in few level sets, and labels."""
    rng = np.random.default_rng(7)
    P = rng.dirichlet([0.5, 0.7, 0.9], 3000)
    y = np.array([rng.choice(3, p=row**0.6 / (row**0.6).sum()) for row in P])
    # no temperature knows of these
    y[(P[:, 1] > 0.67) & (rng.random(3000) < 0.4)] = 2
    return P, y


@pytest.fixture(scope="module")
def class_tables(spark, classes):
    import pandas as pd

    P, y = classes
    frame = pd.DataFrame(P, columns=["a", "b", "c"]).assign(y=np.array(["a", "b", "c"])[y])
    return {n: spark.createDataFrame(frame).repartition(n) for n in PARTS}


@pytest.mark.parametrize(
    ("model", "parts"),
    [
        (TemperatureScaling(), 7),
        pytest.param(VectorScaling(), 3, marks=pytest.mark.slow),
        pytest.param(DirichletCalibration(), 3, marks=pytest.mark.slow),
        (LpRecalibrator(start="vector", share=0.7, limit=3.0), 7),
        (LpRecalibrator.as_in_paper(epsilon=0.2, n_levels=4), 3),
    ],
)
@pytest.mark.filterwarnings("ignore::onlinecal.recalibration.SampleSizeWarning")
def test_class_probabilities_are_those_of_a_fit_on_one_machine(class_tables, classes, model, parts):
    from onlinecal.engine.spark import fit_recalibrator

    P, y = classes
    found = fit_recalibrator(class_tables[parts], model, ["a", "b", "c"], "y")
    assert found.classes_.tolist() == found.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(found._map(P), model.fit(P, y)._map(P), atol=1e-8)


@pytest.mark.parametrize(("parts", "n_folds"), [((1, 7), 3), pytest.param(PARTS, 3, marks=pytest.mark.slow)])
def test_defaults_are_the_same_however_rows_are_parted(class_tables, classes, parts, n_folds):
    """Folds deal rows in the sample's order, so that only the start's kind is that of one machine."""
    from onlinecal.engine.spark import fit_recalibrator

    P, y = classes
    model = LpRecalibrator(n_folds=n_folds)
    found = [fit_recalibrator(class_tables[n], model, ["a", "b", "c"], "y") for n in parts]
    start = model.fit(P, y).start_name_
    for one in found:
        assert one.start_name_ == start != "none"
        assert one.share_ == found[0].share_ > 0.0
        np.testing.assert_allclose(one._map(P), found[0]._map(P), atol=1e-9)


@pytest.fixture(scope="module")
def forecasts(spark):
    """Few different forecasts that are wrong in some groups, so that many rows are equal."""
    import pandas as pd

    rng = np.random.default_rng(3)
    n = 20_000
    frame = pd.DataFrame({"p": rng.integers(1, 20, n) / 20, "shop": rng.choice(["north", "south"], n)})
    frame["late"] = rng.choice(["no", "yes", "often"], n, p=[0.6, 0.3, 0.1])
    truth = frame["p"] ** np.where(frame["shop"] == "north", 1.7, 0.9) - 0.04 * (frame["late"] == "yes")
    return frame.assign(y=rng.random(n) < truth)


@pytest.mark.parametrize("parts", [(1, 7), pytest.param(PARTS, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("model", "tolerance"),
    [
        (GroupRecalibrator.as_in_paper(0.001), 0.0),
        (GroupRecalibrator(0.0005, n_folds=0, start="platt"), 1e-9),
        # other rows are held out
        (GroupRecalibrator(), None),
    ],
)
def test_groups_are_fitted_to_numbers_of_rows(spark, forecasts, model, tolerance, parts):
    from onlinecal.engine.spark import fit_recalibrator

    names = ["shop", "late"]
    local = model.fit(forecasts["p"], forecasts["y"], forecasts[names])
    assert local.n_patches_ > 2
    before = local.predict(forecasts["p"], forecasts[names])
    found = [
        fit_recalibrator(spark.createDataFrame(forecasts).repartition(n), model, "p", "y", groups=names)
        for n in parts
    ]
    answers = [one.predict(forecasts["p"], forecasts[names]) for one in found]
    if tolerance is None:
        assert np.abs(answers[0] - before).mean() < 0.01 < np.abs(before - forecasts["p"]).mean()
    else:
        np.testing.assert_allclose(answers[0], before, rtol=0.0, atol=tolerance)
    assert sorted(found[0].group_names_) == sorted(local.group_names_)
    for other in answers[1:]:
        np.testing.assert_array_equal(other, answers[0])


def test_what_cannot_be_fitted_from_sums_is_refused(class_tables):
    from onlinecal.engine.spark import fit_recalibrator

    for model, words in (
        (DecisionRecalibrator(), "needs sums over rows only"),
        (LpRecalibrator(start="isotonic"), "got 'isotonic'"),
        (LpRecalibrator(estimation="pools"), "got 'pools'"),
    ):
        with pytest.raises(ValueError, match=words):
            fit_recalibrator(class_tables[1], model, ["a", "b", "c"], "y")
    with pytest.raises(ValueError, match="must sum to 1"):
        fit_recalibrator(class_tables[3], TemperatureScaling(), ["a", "b"], "y")
