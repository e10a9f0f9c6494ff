"""What a release says of the project is one and the same, and leads somewhere from a package index, too."""

from __future__ import annotations

import re
import tomllib

from tests import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = {path.stem: path.read_text(encoding="utf-8") for path in ROOT.glob(".github/workflows/*.yml")}


def test_the_readme_of_a_package_index_has_no_relative_links():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for change in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(change["pattern"], change["replacement"], text)
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert [target for target in targets if not target.startswith("https://")] == []
    # a badge is a picture of the forge's own
    images = re.findall(r"!\[[^\]]*\]\(([^)]+(?<!/badge\.svg))\)", text)
    assert images
    assert [image for image in images if "raw.githubusercontent.com" not in image] == []


def test_the_project_has_one_address():
    address = PROJECT["project"]["urls"]["Repository"].removeprefix("https://github.com/")
    files = ["pyproject.toml", "CITATION.cff", "docs/index.md", ".github/SECURITY.md"]
    for text in [(ROOT / file).read_text(encoding="utf-8") for file in files]:
        found = re.findall(r"(?:github|raw\.githubusercontent)\.com/([\w.-]+/[\w-]+)", text)
        assert set(found) == {address}


def test_workflows_try_the_pythons_that_are_promised_by_rules_that_are_there():
    promised = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["project"]["classifiers"]))
    assert re.findall(r'"(3\.\d+)"', re.search(r"python: (.*)", WORKFLOWS["tests"])[1]) == promised
    rules = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    used = {rule for text in WORKFLOWS.values() for rule in re.findall(r"run: make ([\w-]+)", text)}
    assert used == {"test", "test-all", "wheel", "docs"}
    assert used <= set(rules)
