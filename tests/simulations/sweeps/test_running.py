"""Sweeps from Python: the tables of the command, kept where one wants."""

import tomllib

import pytest

from onlinecal import simulations

PLAN = {"forecasters": ["paper", "balanced"], "adversaries": ["coin"], "rounds": [10, 40], "seeds": range(2)}


def test_the_tables_are_those_of_the_command_and_a_folder_goes_on(tmp_path):
    told = []
    tables = simulations.sweep(PLAN, tmp_path / "kept", n_jobs=1, progress=lambda *one: told.append(one))
    assert told[0] == (0, 8)
    assert told[-1] == (8, 8)
    again = simulations.sweep(tmp_path / "kept" / "sweep.toml", tmp_path / "kept", n_jobs=1)
    assert all(one.equals(other) for one, other in zip(tables, again, strict=True))
    alone = simulations.sweep(PLAN, n_jobs=1)
    assert alone.results.drop("seconds").equals(tables.results.drop("seconds"))
    assert (tables.results.height, tables.rates["measure"].n_unique()) == (8, 4)
    assert tables.trajectories["round"].max() == 40
    assert tomllib.loads((tmp_path / "kept" / "sweep.toml").read_text())["seeds"] == [0, 1]


def test_with_one_number_of_rounds_nothing_is_fitted():
    assert simulations.sweep({**PLAN, "rounds": (10,)}, n_jobs=1).rates.is_empty()


@pytest.mark.parametrize(
    "plan, options, error, words",
    [
        ("dmo", {}, FileNotFoundError, "no such file: dmo; did you mean"),
        ({"rounds": [10]}, {}, ValueError, "the key 'forecasters' is missing"),
        (3, {}, ValueError, "plan must be a mapping of keys, or the path .* file, got 3"),
        (PLAN, {"backend": "spark"}, ValueError, "backend must be one of loky, dask, ray, got 'spark'"),
        (PLAN, {"scheduler": "here:1"}, ValueError, "scheduler needs backend 'dask' or 'ray'"),
        (PLAN, {"progress": 5}, ValueError, "progress must be a function, or None, got 5"),
        (PLAN, {"n_jobs": 0}, ValueError, "n_jobs other than -1 must be a whole number .* 1, got 0"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, plan, options, error, words):
    with pytest.raises(error, match=words):
        simulations.sweep(plan, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_results_go_to_a_folder(tmp_path):
    with pytest.raises(ValueError, match="out must be a folder, or None to keep nothing, got 5"):
        simulations.sweep(PLAN, 5)
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"out must be a folder, or None .*, got the file .*file"):
        simulations.sweep(PLAN, tmp_path / "file")
    with pytest.raises(ValueError, match=r"got .*sub, below the file .*file"):
        simulations.sweep(PLAN, tmp_path / "file" / "sub")
