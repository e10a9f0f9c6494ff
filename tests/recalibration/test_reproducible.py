"""Same rows, same seed: measures are the same bits on every processor, fits in every process of a machine.

By default `tests/test_corpus.py` compares both with what another process found on another day.
"""

import ast
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from onlinecal.compiling import compiled
from onlinecal.elementary import exponential, logarithm
from onlinecal.measures.fixed_order import inner, product
from tests import ROOT
from tests.corpus.entries import corpus

PROGRAM = "import json; from tests.corpus.entries import corpus; print(json.dumps(corpus({!r})))"


def dispatched():
    """What numpy would choose by the processor on this machine, by numpy's names."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    return [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]


ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
OLD = {
    **ONE_THREAD,
    "NUMBA_CPU_NAME": "generic",
    "NUMBA_CPU_FEATURES": "",
    "OPENBLAS_CORETYPE": "Prescott",
    "NPY_DISABLE_CPU_FEATURES": " ".join(dispatched()),
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F",
}
"""A processor of twenty years ago: SSE, no fused multiplication."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "settings"),
    [
        ("measure", OLD),
        ("distance", OLD),
        ("fit", ONE_THREAD),
        *(("measure", {"OPENBLAS_CORETYPE": core, **ONE_THREAD}) for core in ("Haswell", "Zen", "SkylakeX")),
    ],
)
def test_another_process_finds_the_same_bits(part, settings):
    """Measures and distances, on an old processor or with another BLAS; fits, with other threads."""
    command = [sys.executable, "-c", PROGRAM.format(part)]
    end = subprocess.run(command, env={**os.environ, **settings}, cwd=ROOT, capture_output=True, text=True)
    assert end.returncode == 0, end.stderr
    assert json.loads(end.stdout) == json.loads(json.dumps(corpus(part)))


ROUNDED_OR_SPARSE = {"potentials.py", "search.py"}
"""Their products are of sparse matrices and whole numbers, or are rounded before they are compared."""


def test_no_measure_leaves_a_sum_to_blas():
    """Its last bits differ between processors, where no other test of one machine would see that."""
    modules = (ROOT / "onlinecal" / "measures").rglob("*.py")
    trees = {path.name: ast.parse(path.read_text(encoding="utf-8")) for path in modules}
    found = {name for name, tree in trees.items() if any(map(is_product_of_blas, ast.walk(tree)))}
    assert found == ROUNDED_OR_SPARSE


def is_product_of_blas(node):
    """Whether it is `@`, or a call that numpy hands to BLAS."""
    names = {"dot", "vdot", "inner", "matmul", "tensordot"}
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names
    return called or isinstance(getattr(node, "op", None), ast.MatMult)


HARD = 2.0**-1022, 5e-324, 1e-310, 1e-12, 1.0, 1.0 + 2.0**-52, 1.0 - 2.0**-53, 1e300


@compiled
def compiled_exponential(x):
    return exponential(x)


@compiled
def compiled_logarithm(x):
    return logarithm(x)


def test_exponentials_and_logarithms_are_those_of_the_library_to_two_units_in_the_last_place():
    rng = np.random.default_rng(0)
    for x in (0.0, -1e-300, -708.0, 700.0, 1.0, *(-40.0 * rng.random(2000)), *rng.standard_normal(500)):
        assert abs(exponential(x) - np.exp(x)) <= 2.0 * np.spacing(np.exp(x))
        assert exponential(x) == compiled_exponential(x)
    for x in (-708.0, *(1400.0 * rng.random(2000) - 708.0)):
        assert exponential(x) == compiled_exponential(x)
    assert exponential(-709.0) == exponential(-np.inf) == 0.0
    for x in (*HARD, *rng.random(2000), *2.0 ** (2000.0 * rng.random(2000) - 1074.0)):
        assert abs(logarithm(x) - np.log(x)) <= 2.0 * np.spacing(abs(np.log(x)))
        assert logarithm(x) == compiled_logarithm(x)


@pytest.mark.parametrize("n", [1, 511, 512, 1300])
def test_products_are_sums_in_the_order_of_the_classes_and_of_the_rows(n):
    rng = np.random.default_rng(n)
    weights, columns = rng.standard_normal((3, 7)), rng.standard_normal((7, n))
    expected = np.zeros((3, n))
    for c in range(7):
        expected += weights[:, c, None] * columns[c]
    assert np.array_equal(product(weights, columns), expected)
    summed = np.zeros((3, 7))
    for row in range(n):
        summed += expected[:, row, None] * columns[:, row]
    assert np.array_equal(inner(expected, columns.T), summed)
