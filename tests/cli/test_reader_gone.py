"""`onlinecal VERB | head`: whoever reads may stop, and nobody is told."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "arguments", [["measure", "--help"], ["adversaries"], ["adversaries", "--json"], ["--version"]]
)
def test_a_verb_whose_reader_is_gone_ends_quietly(arguments):
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "onlinecal", *arguments], stdout=write, stderr=subprocess.PIPE, timeout=300
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")
