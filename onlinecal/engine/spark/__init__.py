"""The engine and the measures on Spark (extra `spark`): keyed streams, large tables, sessions to try them.

Names are loaded when they are first asked for: most of them need pyspark. The list below is the public
interface.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

# The imports under TYPE_CHECKING are the package's public list; `lazy_names` reads them at run time. Each
# stands as `name as name`, and nothing else may stand there.
if TYPE_CHECKING:
    from onlinecal.engine.spark.rows import EVENTS as EVENTS
    from onlinecal.engine.spark.session import (
        ROCKSDB as ROCKSDB,
        check_workers as check_workers,
        local_session as local_session,
    )
    from onlinecal.engine.spark.stream import (
        ANSWERS as ANSWERS,
        calibrated_stream as calibrated_stream,
        ledger_states as ledger_states,
    )
    from onlinecal.engine.spark.tables import (
        distances as distances,
        recalibrated as recalibrated,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
