"""The event engine: events in, events out; many keyed forecasters, late labels, a durable ledger.

Names are loaded when they are first asked for, so that importing the package stays cheap.
"""

from __future__ import annotations

from onlinecal.lazy import lazy_names

_HOME = {
    "Engine": ".engine",
    "AsyncEngine": ".concurrent",
    "LedgerError": ".ledger.file",
    "read_report": ".ledger.report",
    "check_ledger": ".ledger.report",
    "repair_ledger": ".ledger.repair",
    "EngineConfig": ".config",
    "KeyConfig": ".config",
    "Match": ".config",
    "read_config": ".settings",
    "Query": ".events",
    "Outcome": ".events",
    "Withdraw": ".events",
    "Forecast": ".events",
    "Settled": ".events",
    "Withdrawn": ".events",
    "Rejected": ".events",
    "decode_lines": ".events",
    "encode_lines": ".events",
}

__all__ = sorted(_HOME)

__getattr__, __dir__ = lazy_names(__name__, _HOME)
