"""The commands of docs/operate.md, in their order, by somebody who follows it."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests import ROOT
from tests.test_pages import assert_kept, printed, promises, with_commands

PAGE = (ROOT / "docs/operate.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(sh|python)\n(.*?)^```", PAGE, re.S | re.M)


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="needs the command sqlite3")
def test_the_commands_of_the_page_work_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", with_commands())
    assert len(BLOCKS) > 7
    for language, block in BLOCKS:
        if language == "sh":
            for line in block.replace("\\\n", "").splitlines():
                subprocess.run(line, shell=True, check=True, cwd=tmp_path)
            continue
        told, lines = promises(block), printed(block, {})
        assert told
        for line, text in lines:
            assert_kept(told[line], text)
    assert (tmp_path / "answers.jsonl").read_text().count("forecast") == 3


def test_the_page_tells_of_every_file_that_is_deployed():
    for path in ROOT.glob("deploy/*"):
        if path.suffix != ".dockerignore" and path.name != "token":
            assert f"(../deploy/{path.name})" in PAGE
