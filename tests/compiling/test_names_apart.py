"""Code of several processes can be used together: no two of them give functions the same name."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os
from onlinecal.compiling import compiled


def named():
    @compiled
    def plus(x):
        return x + 1

    assert plus(1) == 2
    [found] = plus.overloads.values()
    # in one piece: two processes write into this pipe
    os.write(1, f"{found.fndesc.llvm_func_name}\\n".encode())


child = os.fork() if hasattr(os, "fork") else None
named()
if child == 0:
    os._exit(0)
if child is not None:
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_kernel_has_another_name_in_every_process(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    names = []
    for run in range(2):
        # with a cache of its own each compiles
        told = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / str(run))}
        done = subprocess.run([sys.executable, program], env=told, capture_output=True, text=True, check=True)
        names += done.stdout.split()
    # parent and child share a cache: the later one may have loaded what the earlier one named
    assert 2 <= len(set(names)) <= len(names) == 4
    assert not set(names[:2]) & set(names[2:])
