"""The how-to page: its code runs and prints the numbers that stand beside it."""

import re

import pytest

from tests import ROOT

PAGE = ROOT / "docs" / "wrap-a-classifier.md"


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
def test_the_code_runs(block, capsys, without_extras):
    exec(block, {})
    printed = capsys.readouterr().out
    promised = re.findall(r"\d\.\d+", " ".join(re.findall(r"#(.*)", block)))
    for number, found in zip(promised, re.findall(r"\d\.\d+", printed), strict=False):
        assert float(number) == pytest.approx(float(found), abs=0.5 * 10.0 ** -len(number[2:]))
    assert printed
