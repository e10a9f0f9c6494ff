"""The proofs in docs/proofs compile and rest on no axiom; the rule that they prove is the one that runs.

By default the first two are compiled; `tests/test_reference.py` compares what runs with the rule in plain
Python.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from onlinecal import AlmostOneStepAhead
from onlinecal.forecasters.binary.cells import SCALE
from tests import ROOT

HERE = Path(__file__).parent
SOURCES = sorted((ROOT / "docs/proofs").glob("*.v"))
MOST_LINES = 1500
TOOLS = ("coqc", "ocamlc", "make")

needs_coq = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in TOOLS), reason=f"needs {', '.join(TOOLS)}: install coq"
)


def run(command: list[str], folder: Path, text: str = "") -> str:
    done = subprocess.run(command, cwd=folder, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> tuple[Path, str]:
    """A folder with the proofs, compiled by `make proofs`, and what that printed."""
    folder = tmp_path_factory.mktemp("proofs")
    (folder / "docs/proofs").mkdir(parents=True)
    for source in SOURCES:
        shutil.copy(source, folder / "docs/proofs")
    return folder, run(["make", "--no-print-directory", "--file", str(ROOT / "Makefile"), "proofs"], folder)


@pytest.fixture(scope="module")
def program(compiled) -> Path:
    """The forecaster that is proved, extracted to OCaml."""
    folder, _ = compiled
    for name in ("extraction.v", "driver.ml"):
        shutil.copy(HERE / name, folder)
    run(["coqc", "-q", "-Q", "docs/proofs", "Onlinecal", "extraction.v"], folder)
    run(["ocamlc", "-o", "forecaster", "forecaster.mli", "forecaster.ml", "driver.ml"], folder)
    return folder / "forecaster"


def as_proved(
    program: Path, report: str, unit: int, points: NDArray[np.int64], sequences: list[NDArray[np.uint8]]
) -> Iterator[tuple[NDArray[np.float64], ...]]:
    """What the extracted forecaster plays on the grid of these points, in units of 1/unit.

    Of each sequence forecasts, charged points, and at the end the bias of every point.
    """
    lines = [" ".join(map(str, [report, unit, *points])), *("".join(map(str, ys)) for ys in sequences)]
    verdict, *answers = run([str(program)], program.parent, "\n".join(lines) + "\n").splitlines()
    assert verdict == "good"
    for ys, answer in zip(sequences, answers, strict=True):
        rounds, sums = answer.split(";")
        cells, reported = np.array([pair.split(",") for pair in rounds.split()], int).reshape(-1, 2).T
        yield reported / (2 * unit), points[cells + ys] / unit, (np.array(sums.split(), int) - points) / unit


def grid_of(forecaster: AlmostOneStepAhead) -> tuple[int, NDArray[np.int64]]:
    """The points of its grid, in units of 1/unit, and that unit."""
    unit = int(forecaster.memory[SCALE])
    return unit, np.rint(forecaster.look_ahead.points * unit).astype(int)


EVERY = [np.array(ys, np.uint8) for ys in product((0, 1), repeat=10)]


def long_ones() -> list[NDArray[np.uint8]]:
    """10^4 rounds each: coins of three kinds, a world that turns, alternation, and runs that grow."""
    rng, rounds = np.random.default_rng(7), 10_000
    coins = [rng.random(rounds) < p for p in (0.5, 0.1, 0.93)]
    turning = rng.random(rounds) < 0.5 + 0.5 * np.sin(np.arange(rounds) / 300)
    runs = np.concatenate([np.full(n, n % 2) for n in range(1, 150)])[:rounds]
    return [np.asarray(ys, np.uint8) for ys in (*coins, turning, np.arange(rounds) % 2, runs)]


CASES = [
    *(pytest.param({"n_cells": m}, EVERY, id=f"all, {m} cells") for m in (1, 2, 3, 4, 7, 10)),
    *(pytest.param({"n_cells": m}, long_ones(), id=f"long, {m} cells") for m in (2, 31, 100)),
    *(pytest.param({"horizon": rounds}, EVERY, id=f"all, graded for {rounds}") for rounds in (50, 1000)),
    pytest.param({"horizon": 10_000}, long_ones(), id="long, graded for 10,000"),
]


@needs_coq
def test_the_first_proofs_compile(tmp_path):
    for name in ("Sums", "Calibration"):
        shutil.copy(ROOT / "docs/proofs" / f"{name}.v", tmp_path)
        run(["coqc", "-q", "-Q", ".", "Onlinecal", f"{name}.v"], tmp_path)


@pytest.mark.slow
@needs_coq
def test_the_proofs_compile_and_rest_on_no_axiom(compiled):
    _, said = compiled
    theorems = re.findall(r"@(\w+)", (ROOT / "docs/proofs/Theorems.v").read_text(), re.M)
    assert said.endswith("Closed under the global context\n")
    assert "Axioms:" not in said
    assert all(f"\n{name}\n" in f"\n{said}" for name in theorems)


def test_nothing_is_admitted_and_only_the_standard_library_is_used():
    for source in SOURCES:
        text = source.read_text()
        assert not re.search(r"\b(Admitted|admit|Axioms?|Parameters?|Conjecture)\b", text), source
        assert set(re.findall(r"^From (\w+) ", text, re.M)) <= {"Coq", "Onlinecal"}, source
    assert sum(len(source.read_text().splitlines()) for source in SOURCES) <= MOST_LINES


@pytest.mark.slow
@needs_coq
@pytest.mark.parametrize("parameters, sequences", CASES)
def test_the_rule_that_is_proved_is_the_rule_that_runs(program, parameters, sequences):
    unit, points = grid_of(AlmostOneStepAhead(**parameters))
    report = "certain" if "horizon" in parameters else "midpoint"
    for ys, proved in zip(sequences, as_proved(program, report, unit, points, sequences), strict=True):
        forecaster = AlmostOneStepAhead(**parameters)
        runs = *forecaster.replay(ys, return_look_ahead=True), forecaster.look_ahead.biases
        for one, other in zip(proved, runs, strict=True):
            np.testing.assert_array_equal(one, other)


NUMBER = """
From Coq Require Import ZArith QArith List.
From Onlinecal Require Import Graded.
Import ListNotations.
Goal proves {unit} [{points}]%Z {middle} ({price.numerator} # {price.denominator}) {rounds}
  ({number.numerator} # {number.denominator}) = true.
Proof. vm_compute. reflexivity. Qed.
"""


@pytest.mark.slow
@needs_coq
@pytest.mark.parametrize("rounds", [100, 1000, 10_000])
def test_the_guarantee_of_a_graded_grid_is_proved_for_its_very_points(compiled, rounds):
    folder, _ = compiled
    forecaster = AlmostOneStepAhead(horizon=rounds)
    unit, points = grid_of(forecaster)
    v, middle = [Fraction(int(point), unit) for point in points], len(points) // 2
    below = [v[j] * (v[j] - v[j - 1]) for j in range(1, middle)]
    price = max(*below, (v[middle + 1] - v[middle - 1]) / 2)
    (folder / "number.v").write_text(
        NUMBER.format(
            unit=unit,
            points="; ".join(map(str, points)),
            middle=middle,
            price=price,
            rounds=rounds,
            number=Fraction(forecaster.guarantee),
        )
    )
    run(["coqc", "-q", "-Q", "docs/proofs", "Onlinecal", "number.v"], folder)
