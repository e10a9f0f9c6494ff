"""The page on groups: its code runs and prints the numbers that stand beside it."""

import re

import pytest

from tests import ROOT

PAGE = ROOT / "docs" / "recalibrate-groups.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_the_code_runs(block, capsys, without_extras):
    exec(block, {})
    printed = re.findall(r"\d\.\d+", capsys.readouterr().out)
    promised = re.findall(r"\d\.\d+", " ".join(re.findall(r"print.*#(.*)", block)))
    assert len(promised) == len(printed) > 0
    for number, found in zip(promised, printed, strict=True):
        assert float(number) == pytest.approx(float(found), abs=0.51 * 10.0 ** -len(number[2:]))
