"""The one way to compile: every kernel is compiled, kept on disk and found again by the same rule.

Compiled code is kept in a folder of the user (`folder`), never beside the sources, under a name that depends
on everything that it was made from (`kept`, `sources`): whatever changes, what is stale is not found. A cache
that cannot be read or written costs time, nothing else.
"""

from onlinecal.compiling.events import Compiled, counting
from onlinecal.compiling.folder import kept_in
from onlinecal.compiling.kept import at_once, compiled, entry_point, namespace
from onlinecal.compiling.parts import kernel_part, uncounted
from onlinecal.compiling.sources import source_digest

__all__ = [
    "Compiled",
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
