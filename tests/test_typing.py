"""Type checkers and editors see the public names as they are, and importing them loads nothing."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections import defaultdict
from importlib.util import find_spec
from pathlib import Path
from typing import get_origin

import pytest

from onlinecal.lazy import listed_names
from tests import ROOT, source_files

PROGRAM = Path(__file__).parent / "users_program.py"
LISTS = {
    module: listed_names(compile(source, path, "exec"))
    for module, path in sorted(source_files().items())
    if path.name == "__init__.py" and "lazy_names(__name__)" in (source := path.read_text())
}
NOT_FOLLOWED = (
    "numba", "llvmlite", "scipy", "dask", "distributed", "ray", "joblib", "threadpoolctl",
    "hypothesis", "pydantic", "duckdb", "rich", "markdown_it", "PIL", "pyparsing",
)  # fmt: skip
"""Libraries that no public type is of: mypy need not read their sources."""
MISTAKE = re.compile(r"^(.*\.py):(\d+): error: .*\[([\w-]+)\]$", re.MULTILINE)
REVEALED = re.compile(r'^(.*\.py):(\d+): note: Revealed type is "(.*)"$', re.MULTILINE)


def home(package: str, name: str) -> str:
    """The module that a name comes from in the end; a module itself comes from its package."""
    while (next_one := LISTS.get(package, {}).get(name, package)) != package:
        package = next_one
    return package


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> str:
    """What mypy tells of the user's program, and of one that asks for the type of every public name."""
    folder = tmp_path_factory.mktemp("user")
    asked = [f"import {package}" for package in LISTS]
    asked += [f"reveal_type({package}.{name})" for package, names in LISTS.items() for name in names]
    (folder / "users_program.py").write_text(PROGRAM.read_text())
    (folder / "every_name.py").write_text("\n".join(asked) + "\n")
    (folder / "mypy.ini").write_text(
        f"[mypy]\n[mypy-{','.join(f'{one}.*' for one in NOT_FOLLOWED)}]\n"
        "follow_imports = skip\nignore_missing_imports = true\n"
    )
    options = ["--strict", "--follow-imports=silent", "--config-file=mypy.ini", "--no-error-summary"]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--cache-dir", ROOT / ".mypy_cache" / "users", "."],
        cwd=folder,
        env=os.environ | {"MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1, run.stderr
    return run.stdout


def test_a_users_mistakes_are_found_and_nothing_else(told):
    found: dict[int, list[str]] = defaultdict(list)
    for file, line, code in MISTAKE.findall(told):
        assert file == PROGRAM.name, (file, line, code)
        found[int(line)].append(code)
    lines = PROGRAM.read_text().splitlines()
    said = {
        i: line.partition("# error: ")[2].split() for i, line in enumerate(lines, 1) if "# error: " in line
    }
    assert {line: sorted(codes) for line, codes in found.items()} == said


def test_every_public_name_has_a_type(told):
    assert len(LISTS) >= 11
    types = [what for file, _, what in REVEALED.findall(told) if file == "every_name.py"]
    assert len(types) == sum(map(len, LISTS.values()))
    assert "Any" not in types


@pytest.mark.parametrize("package", LISTS)
def test_a_package_offers_what_it_lists(package):
    names = LISTS[package]
    module = importlib.import_module(package)
    assert set(module.__all__) == set(names) <= set(dir(module))
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        module.Nonsense  # noqa: B018
    if package == "onlinecal.engine.spark":
        pytest.importorskip("pyspark")
    for name in names:
        found = getattr(module, name)
        assert found is getattr(importlib.import_module(home(package, name)), name)
        if get_origin(found):
            # an alias of types knows neither its text nor its place
            continue
        assert found.__doc__, name
        # the list names the place of the definition, not another importer; constants do not know theirs
        assert getattr(found, "__module__", home(package, name)) == home(package, name), name


def test_importing_loads_none_of_the_libraries():
    told = subprocess.run(
        [sys.executable, "-c", f"import sys, {', '.join(LISTS)}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert {"numpy", "numba", "scipy", "river", "sklearn", "polars"}.isdisjoint(told.stdout.split())


def test_the_package_says_that_it_is_typed():
    assert find_spec("onlinecal").loader.get_data(str(ROOT / "onlinecal" / "py.typed")) == b""
