"""Fits hold BLAS to one thread, also BLAS that is loaded after the first fit."""

import os
import subprocess
import sys

from tests import ROOT

PROGRAM = """
from threadpoolctl import threadpool_info
from onlinecal.threads import one_thread

def threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

with one_thread():
    assert threads() == []
import numpy
free = threads()
with one_thread():
    print(free, threads(), end=" ")
print(threads())
"""


def test_one_thread_holds_libraries_that_came_later_too_and_then_lets_go():
    # a machine of one core has two threads then, too
    env = os.environ | {"OPENBLAS_NUM_THREADS": "2", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True)
    assert done.stdout == "[2] [1] [2]\n", done.stderr
