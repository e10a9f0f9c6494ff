"""What one process has compiled the next one finds: a kernel's fingerprint is the same in both."""

import subprocess
import sys

PROGRAM = """
import importlib, pkgutil
import onlinecal
from onlinecal.compiling.cache import fingerprint
from onlinecal.compiling.kernels import kernels

for info in pkgutil.walk_packages(onlinecal.__path__, "onlinecal."):
    if not info.name.endswith("__main__") and not info.name.startswith("onlinecal.cli"):
        importlib.import_module(info.name)
found = sorted(f"{k.py_func.__module__} {fingerprint(k.py_func)!r}" for k in kernels)
print("\\n".join(found))
"""


def test_every_kernel_of_the_library_is_kept_and_the_same_in_every_process():
    first, second = (
        subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert len(first.splitlines()) > 100
    assert first == second
