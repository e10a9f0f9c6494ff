"""The configuration of a ledger, agreed with the one that is wanted."""

from __future__ import annotations

import msgspec

from onlinecal.engine.config import EngineConfig
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.settings import all_settings


def agreed_config(ledger: Ledger, wanted: EngineConfig | None) -> EngineConfig:
    """The ledger's configuration; a new ledger takes the one wanted, unless a parameter is out of range.

    An old one takes its bounds.
    """
    written = ledger.about("config")
    if written is None:
        config = wanted or EngineConfig()
        all_settings(config)
        ledger.tell("config", msgspec.json.encode(config).decode())
        return config
    with ledger.content_errors():
        config = msgspec.json.decode(written, type=EngineConfig)
    agreed = wanted or config
    if agreed.without_bounds() != config.without_bounds():
        raise ValueError(f"{ledger.path}: the ledger was made with another configuration: {written}")
    if agreed != config:
        ledger.tell("config", msgspec.json.encode(agreed).decode())
    return agreed
