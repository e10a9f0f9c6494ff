"""The one way to compile: every kernel is compiled, kept on disk and found again by the same rule.

Compiled code is kept in a folder of the user (`folder`), under a name that tells what a kernel is made of
(`ingredients`) and for which types of arguments it is compiled (`cache`). After any edit no stale code is
found, and only what was edited is compiled anew. A cache that cannot be read or written costs time and
changes no result. Kernels that people wait for are interpreted until they are compiled (`beginning`).

Other packages import from here and from `instructions`. What every module here keeps to: compiled code and
the interpreter give the same bits, and where keeping code fails, a kernel is compiled as if nothing were
kept.
"""

from onlinecal.compiling.beginning import Address, Entry, compiled_at_once, interpreted_first
from onlinecal.compiling.folder import kept_in
from onlinecal.compiling.garbage import without_garbage_collection
from onlinecal.compiling.ingredients import modules_digest
from onlinecal.compiling.kernels import (
    address_of,
    compiled,
    compiled_as,
    entry_point,
    inlined,
    kernel_part,
    namespace,
    uncounted,
)
from onlinecal.compiling.progress import Compiled, counting

__all__ = [
    "Address",
    "Compiled",
    "Entry",
    "address_of",
    "compiled",
    "compiled_as",
    "compiled_at_once",
    "counting",
    "entry_point",
    "inlined",
    "interpreted_first",
    "kept_in",
    "kernel_part",
    "modules_digest",
    "namespace",
    "uncounted",
    "without_garbage_collection",
]
