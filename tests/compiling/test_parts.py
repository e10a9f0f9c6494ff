"""Parts of kernels: how often they are compiled, and which are refused."""

import numpy as np
import pytest
from numba import config
from numba.core import event
from numba.core.errors import TypingError

from onlinecal.compiling import compiled, inlined, kernel_part, uncounted

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled with NUMBA_DISABLE_JIT=1")


def test_a_part_is_compiled_once_whatever_kind_of_part_calls_it(monkeypatch, tmp_path):
    # nothing is kept there
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    @kernel_part
    def shared(values):
        return values[0] + max(values[1], values[2])

    callers = [kind(lambda values: shared(values)) for kind in (kernel_part, inlined, uncounted)]
    one, two, three = callers

    def kernel(values):
        return one(values) + two(values) + three(values)

    with event.install_recorder("numba:compile") as recorder:
        assert compiled(kernel)(np.arange(3)) == 6
    names = [event.data["dispatcher"].py_func.__qualname__ for _, event in recorder.buffer if event.is_start]
    assert sum(name.endswith("shared") for name in names) == 1
    assert sum("ol_max" in name for name in names) <= 1


@pytest.mark.parametrize(
    "part",
    [
        lambda x: x,
        lambda x: np.empty(2)[0],
        lambda x: np.sort(x)[0],
        lambda x: x.ravel()[0],
        lambda x: x.copy()[0],
    ],
    ids=["returned", "made", "sorted", "seen otherwise", "copied"],
)
def test_a_part_without_counts_neither_makes_nor_returns_an_array(part):
    part = uncounted(part)
    with pytest.raises((NotImplementedError, TypingError), match="neither make nor return an array"):
        compiled(lambda values: part(values) is None)(np.arange(3))
