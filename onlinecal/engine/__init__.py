"""The event engine: events in, events out; many keyed forecasters, late labels, a durable ledger.

Names are loaded when they are first asked for, so that importing the package stays cheap. The list below is
the public interface, of which `tests/corpus` keeps the signatures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onlinecal.lazy import lazy_names

# The imports under TYPE_CHECKING are the package's public list; `lazy_names` reads them at run time. Each
# stands as `name as name`, and nothing else may stand there.
if TYPE_CHECKING:
    from onlinecal.engine.concurrent import AsyncEngine as AsyncEngine
    from onlinecal.engine.config import EngineConfig as EngineConfig, KeyConfig as KeyConfig, Match as Match
    from onlinecal.engine.engine import Engine as Engine
    from onlinecal.engine.events import (
        Forecast as Forecast,
        Outcome as Outcome,
        Parked as Parked,
        Query as Query,
        Rejected as Rejected,
        Settled as Settled,
        Withdraw as Withdraw,
        Withdrawn as Withdrawn,
        decode_lines as decode_lines,
        encode_lines as encode_lines,
    )
    from onlinecal.engine.ledger.archive import Archived as Archived, archive_ledger as archive_ledger
    from onlinecal.engine.ledger.check import (
        Check as Check,
        Repaired as Repaired,
        check_ledger as check_ledger,
        repair_ledger as repair_ledger,
    )
    from onlinecal.engine.ledger.file import LedgerError as LedgerError
    from onlinecal.engine.ledger.report import (
        Report as Report,
        export_ledger as export_ledger,
        read_report as read_report,
    )
    from onlinecal.engine.ledger.schema import (
        UndeliveredAnswers as UndeliveredAnswers,
        InputPosition as InputPosition,
    )
    from onlinecal.engine.parking import ParkingCounts as ParkingCounts
    from onlinecal.engine.settings import read_config as read_config
    from onlinecal.engine.topics import TopicAnswers as TopicAnswers, TopicFeed as TopicFeed
    from onlinecal.engine.watch.key_watch import Summary as Summary
    from onlinecal.engine.watch.overview import Overview as Overview, Total as Total
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
