"""The one way to compile: every kernel is compiled, kept on disk and found again by the same rule.

Compiled code is kept in a folder of the user (`folder`), under a name that tells what a kernel is made of
(`ingredients`) and for which types of arguments it is compiled (`cache`). Whatever is edited, nothing stale
is found, and nothing else is compiled anew. A cache that cannot be read or written costs time, nothing else.
"""

from onlinecal.compiling.folder import kept_in
from onlinecal.compiling.ingredients import modules_digest
from onlinecal.compiling.kernels import (
    address_of,
    compiled,
    entry_point,
    inlined,
    kernel_part,
    namespace,
    uncounted,
)
from onlinecal.compiling.progress import Compiled, counting

__all__ = [
    "Compiled",
    "address_of",
    "compiled",
    "counting",
    "entry_point",
    "inlined",
    "kept_in",
    "kernel_part",
    "modules_digest",
    "namespace",
    "uncounted",
]
