"""The engine and the measures on Spark (extra `spark`): keyed streams, large tables, sessions to try them.

Names are loaded when they are first asked for: most of them need pyspark.
"""

from __future__ import annotations

from onlinecal.lazy import lazy_names

_HOME = {
    "ANSWERS": ".stream",
    "EVENTS": ".stream",
    "calibrated_stream": ".stream",
    "distances": ".measuring",
    "ledger_states": ".moving",
    "recalibrated": ".recalibrating",
    "ROCKSDB": ".session",
    "check_workers": ".session",
    "local_session": ".session",
}

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazy_names(__name__, _HOME)
