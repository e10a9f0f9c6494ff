#!/usr/bin/env bash
# A function that closes over a jitted function: numba's cache takes it in every process, and finds it in none.
#
# Guess. `cache=True` on a function that closes over another function by `njit` works as it does elsewhere: the
# first process compiles and writes, the next ones load, and the folder does not grow.
#
# What happens (numba 0.68.1, llvmlite 0.50.0, Python 3.11). Nothing is ever loaded, and nobody is told. The
# entry's name includes a digest of what is in the closure, and a jitted function there is described by an
# identifier that each process draws anew. So every process compiles, and adds one more file that nobody will
# read. The same function that calls a jitted global is found again.
#
# Why it matters here. onlinecal's loops close over the rules of a machine. With numba's own cache each process
# would wait for the compiler, and the folder would grow without end. So onlinecal names a kernel by the
# bytecode and constants of all that it is made of (onlinecal/compiling/ingredients.py).
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet numba==0.68.1 numpy==2.4.6
cd "$folder"

cat > closing.py <<'PYTHON'
"""One function that closes over a jitted one, and one that calls it as a global; how many were loaded."""

from numba import njit


@njit
def rule(x):
    return x + 1


def make(inner):
    @njit(cache=True)
    def loop(x):
        return 2 * inner(x)

    return loop


@njit(cache=True)
def plain(x):
    return 2 * rule(x)


closing = make(rule)
print(closing(1), plain(1), *(sum(one.stats.cache_hits.values()) for one in (closing, plain)))
PYTHON

export NUMBA_CACHE_DIR="$folder/cache"
for process in 1 2 3; do
  said=$(venv/bin/python closing.py)
  entries=$(find cache -name 'closing.make*.nbc' | wc -l)
  echo "process $process: $said; entries of the closure: $entries"
  # right would be one entry, and one load of each from the second process on
  test "$said" = "4 4 0 $([ "$process" = 1 ] && echo 0 || echo 1)"
  test "$entries" -eq "$process"
done
