"""The one way to compile: every kernel is compiled, kept on disk and found again by the same rule.

Compiled code is kept in a folder of the user (`folder`), one for each state of all sources that kernels are
made of (`sources`), under a name for each kernel and types of arguments (`cache`). Whatever is edited,
nothing stale is found. A cache that cannot be read or written costs time, nothing else.
"""

from onlinecal.compiling.folder import kept_in, source_digest
from onlinecal.compiling.kernels import (
    address_of,
    at_once,
    compiled,
    entry_point,
    kernel_part,
    namespace,
    uncounted,
)
from onlinecal.compiling.progress import Compiled, counting

__all__ = [
    "Compiled",
    "address_of",
    "at_once",
    "compiled",
    "counting",
    "entry_point",
    "kept_in",
    "kernel_part",
    "namespace",
    "source_digest",
    "uncounted",
]
