"""Arrays that compiled code counts no references to."""

from __future__ import annotations

from typing import Any

from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def borrowed(typing_context: Any, array: Any) -> Any:
    """The same array without an owner: for as long as the caller of the kernel holds it.

    numba counts a reference, two atomic operations, wherever a loop hands an array to something it cannot
    see through. Without an owner nothing is counted.
    """

    def view(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = context.make_array(array)(context, builder, arguments[0])
        value.meminfo = cgutils.get_null_value(value.meminfo.type)
        return value._getvalue()

    return array(array), view
