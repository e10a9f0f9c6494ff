"""The page docs/recalibrate-decisions.md: its Python prints what its comments say."""

from __future__ import annotations

import re

import pytest

from tests import DATA, ROOT


def test_the_page_prints_its_numbers(monkeypatch, capsys):
    if not (DATA / "lenet-5-cifar-10.npz").exists():
        pytest.skip("the predictions of LeNet are not here")
    page = (ROOT / "docs" / "recalibrate-decisions.md").read_text(encoding="utf-8")
    monkeypatch.chdir(DATA)
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, {})
        promised = re.findall(r"^print.*# (.*)$", block, re.MULTILINE)
        assert promised
        assert capsys.readouterr().out.splitlines() == promised
