"""The one way to compile: every kernel is compiled, kept on disk and found again by the same rule.

Compiled code is kept in a folder of the user (`folder`), one for each state of all sources that kernels are
made of (`sources`), under a name for each kernel and types of arguments (`cache`). Whatever is edited,
nothing stale is found. A cache that cannot be read or written costs time, nothing else.
"""

from onlinecal.compiling.folder import (
    kept_in as kept_in,
    source_digest as source_digest,
)
from onlinecal.compiling.kernels import (
    address_of as address_of,
    at_once as at_once,
    compiled as compiled,
    entry_point as entry_point,
    kernel_part as kernel_part,
    namespace as namespace,
    uncounted as uncounted,
)
from onlinecal.compiling.progress import (
    Compiled as Compiled,
    counting as counting,
)
