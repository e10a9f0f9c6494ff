"""docs/baselines.md: its example runs and prints the numbers that stand beside it, its tests exist."""

from __future__ import annotations

import re

from simulations.games import players
from tests import ROOT

PAGE = (ROOT / "docs" / "baselines.md").read_text()
(BLOCK,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_runs_and_prints_what_it_says(monkeypatch, capsys):
    monkeypatch.setattr(players._CATALOGUE, "entries", players.catalogue())
    names = {}
    exec(BLOCK, names)
    printed = [round(float(number), 2) for number in capsys.readouterr().out.split()]
    assert printed == [float(number) for number in re.findall(r"print\(.*# ([\d.]+)", BLOCK)]
    assert players.create("rounded-mean:cells=10").spec == "rounded-mean"
    forecaster = names["RoundedMean"]()
    assert forecaster.clone().n_cells == 10
    answers = forecaster.replay([1, 1, 0, 1])
    assert answers.tolist() == [0.5, 0.7, 0.8, 0.6]


def test_the_page_names_tests_that_exist():
    named = re.findall(r"`(tests/[\w/]+\.py)`", PAGE)
    assert named
    for path in named:
        assert (ROOT / path).exists(), path


def test_the_page_has_every_family_of_baselines():
    for name, family in players.catalogue().items():
        if family.build.__module__ == "simulations.games.families" and name not in (
            "sign", "balanced", "nested", "adaptive", "one-step-ahead",
        ):  # fmt: skip
            assert f"`{name}`" in PAGE
