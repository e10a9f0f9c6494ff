#!/usr/bin/env bash
# Two versions of one closure in numba's cache: a process that loads both computes one with the other's helper.
#
# Guess. With `cache=True` numba tells versions of a closure apart by what they close over. So two processes
# can fill one cache, each with its own version, and a third process that loads both gets both right.
#
# What happens (numba 0.68.1, llvmlite 0.50.0, Python 3.11). The two entries are told apart, and where one of
# them is loaded alone the answer is right. But machine code refers to an inner function by its qualified name
# and a number that numba counts from 1 in every process. The helpers of the two versions have the same name
# and the same number. They are weak symbols: when the second entry is loaded, the linker keeps the helper that
# is there. So the version that is loaded second silently answers with the constant of the first. It takes a
# helper that is so large that it stays a call; one that is inlined has no symbol.
#
# Why it matters here. onlinecal makes its loops by closures over the rules of a machine, and several processes
# fill one cache. It names its kernels apart and hides all functions in them (onlinecal/compiling/internals.py,
# tests/compiling/test_processes.py).
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet numba==0.68.1 numpy==2.4.6
cd "$folder"

cat > versions.py <<'PYTHON'
"""Versions of one closure, by numba's own cache: what each answers for 1, and how many were loaded."""

import math
import sys

from numba import njit
from numba.extending import register_jitable


def make(number):
    @register_jitable
    def helper(x):
        # long enough that it is not inlined
        total = 0.0
        for k in range(1, x + 1):
            total += math.sin(k) + math.cos(k) + math.tan(k) + math.exp(-k) + math.log(k) + math.atan(k)
            total += math.sin(2 * k) + math.cos(2 * k) + math.tan(2 * k) + math.exp(-2 * k) + math.sinh(1 / k)
            total += math.sin(3 * k) + math.cos(3 * k) + math.tan(3 * k) + math.exp(-3 * k) + math.cosh(1 / k)
            total += math.sin(4 * k) + math.cos(4 * k) + math.tan(4 * k) + math.exp(-4 * k) + math.tanh(1 / k)
        return number + int(abs(total)) // 10**9

    @njit(cache=True)
    def version(x):
        return helper(x) + helper(0) - number

    return version


versions = [make(int(word)) for word in sys.argv[1:]]
answers = [version(1) for version in versions]
loaded = sum(sum(version.stats.cache_hits.values()) for version in versions)
print(*answers, f"{loaded} loaded")
PYTHON

export NUMBA_CACHE_DIR="$folder/cache"
first=$(venv/bin/python versions.py 10)
second=$(venv/bin/python versions.py 20)
both=$(venv/bin/python versions.py 10 20)
turned=$(venv/bin/python versions.py 20 10)
echo "one process: $first; another: $second; a third with both: $both; in the other order: $turned"

test "$first" = "10 0 loaded"
test "$second" = "20 0 loaded"
# right would be "10 20 2 loaded" and "20 10 2 loaded"
test "$both" = "10 10 2 loaded"
test "$turned" = "20 20 2 loaded"
