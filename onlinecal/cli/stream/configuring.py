"""The configuration that the options of `stream` and `stream serve` ask for.

Nothing here has a state, and nothing is written: a ledger is opened only to read its configuration. Whether
the answer agrees with the ledger is checked by the `Engine` that gets it.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from onlinecal.engine.config import EngineConfig
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.ledger.replay import config_of
from onlinecal.engine.settings import read_config


def wanted_config(ledger: Path, file: Path | None, park: int | None) -> EngineConfig | None:
    """The configuration in a file, or else in the ledger, with that `park`; None: the ledger's, as it is.

    Raises ValueError for a file that has none, LedgerError for a ledger that cannot be read.
    """
    config = None if file is None else read_config(file)
    if park is None:
        return config
    if config is None and ledger.is_file() and ledger.stat().st_size:
        with closing(Ledger(ledger, read_only=True)) as opened:
            config = config_of(opened)
    return replace(config or EngineConfig(), park=park)
