"""`make peers`: runs the packages on the inputs of the record and on random ones, and compares.

The record is written anew. The exit code is 1 if it moved, or if a figure is not ours by its convention.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.peers.compare import RECORD, TOLERANCE, distance, largest_differences, read_record
from tests.peers.inputs import random_input

N_RANDOM = 200
COMMAND = "make peers"
R_PACKAGES = "r-cran-calibratr r-cran-metrics r-cran-mlmetrics r-cran-modelmetrics r-cran-rms"


def of_python(python: str, inputs: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """What packages of Python say, by their names, run by this interpreter."""
    given, answer = folder / "inputs.json", folder / "figures.json"
    given.write_text(json.dumps(inputs), encoding="utf-8")
    program = ROOT / "tests/peers/figures.py"
    subprocess.run([python, str(program), str(given), str(answer)], check=True, cwd=folder)
    found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    return found


def of_r(inputs: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """What packages of R say, by their names at Debian."""
    given, answer = folder / "inputs.txt", folder / "figures.txt"
    rounds = [zip(one["forecasts"], one["outcomes"], strict=True) for one in inputs]
    lines = [" ".join(f"{float(p).hex()} {y}" for p, y in one) for one in rounds]
    given.write_text("\n".join(lines) + "\n", encoding="utf-8")
    program = ROOT / "tests/peers/figures.R"
    subprocess.run(["Rscript", str(program), str(given), str(answer)], check=True, cwd=folder)
    found: dict[str, Any] = {}
    for line in answer.read_text(encoding="utf-8").splitlines():
        package, version, number, measure, value = line.split()
        name = f"r-cran-{package.lower()}"
        one = found.setdefault(name, {"version": version, "figures": [{} for _ in inputs], "apart": {}})
        # no measure of ours has a name as functions of this package have
        figures = one["apart"] if package == "CalibratR" else one["figures"][int(number) - 1]
        figures[measure] = float(value)
    return found


def moved(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What a package says otherwise than it was recorded, in words."""
    texts = []
    for package, new in after.items():
        old = before.get(package)
        if old is None:
            texts.append(f"{package}: new")
            continue
        if old["version"] != new["version"]:
            texts.append(f"{package}: version {old['version']} was recorded, {new['version']} was run")
        pairs = [(old["apart"], new["apart"]), *zip(old["figures"], new["figures"], strict=True)]
        for at, (first, second) in enumerate(pairs, -1):
            for measure in first.keys() | second.keys():
                values = [one.get(measure, float("nan")) for one in (first, second)]
                if not distance(*values) <= TOLERANCE:
                    place = "apart" if at < 0 else f"input {at}"
                    texts.append(f"{package}, {place}: {measure} was {values[0]}, is {values[1]}")
    return texts


def main() -> int:
    """Run, compare, write; the exit code."""
    record = read_record()
    random = [random_input(seed) for seed in range(N_RANDOM)]
    inputs = [*record["inputs"], *random]
    with tempfile.TemporaryDirectory() as folder:
        answers = of_python(sys.argv[1], inputs, Path(folder))
        if shutil.which("Rscript"):
            answers |= of_r(inputs, Path(folder))
        else:
            print(f"Rscript is missing, and R's packages are not run: apt-get install {R_PACKAGES}")
    print(f"{'package':<24} {'version':<12} {'measure':<15} largest difference of {len(inputs)} inputs")
    apart = largest_differences(inputs, answers)
    for package, measures in apart.items():
        for measure, largest in measures.items():
            print(f"{package:<24} {answers[package]['version']:<12} {measure:<15} {largest:.1e}")
    n_kept = len(record["inputs"])
    kept = {name: {**one, "figures": one["figures"][:n_kept]} for name, one in answers.items()}
    changes = moved(record["packages"], kept)
    record = {"command": COMMAND, "inputs": record["inputs"], "packages": {**record["packages"], **kept}}
    RECORD.write_text(written(record), encoding="utf-8")
    wrong = [name for name, one in apart.items() if not max(one.values(), default=0.0) <= TOLERANCE]
    print(*changes, *(f"{name}: our figures are not the package's" for name in wrong), sep="\n")
    return 1 if changes or wrong else 0


def written(record: dict[str, Any]) -> str:
    """The record as JSON with a line for each input and each package."""
    inputs = ",\n".join(f"    {json.dumps(one)}" for one in record["inputs"])
    packages = ",\n".join(
        f"    {json.dumps(name)}: {json.dumps(one)}" for name, one in sorted(record["packages"].items())
    )
    head = f'  "command": {json.dumps(record["command"])},\n  "inputs": [\n{inputs}\n  ],\n'
    return f'{{\n{head}  "packages": {{\n{packages}\n  }}\n}}\n'


if __name__ == "__main__":
    sys.exit(main())
