"""The configuration of a ledger, agreed with the one that is wanted."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from onlinecal.engine.config import EngineConfig
from onlinecal.engine.ledger.ledger import Ledger
from onlinecal.engine.settings import all_settings


def agreed_config(ledger: Ledger, wanted: EngineConfig | None) -> EngineConfig:
    """The ledger's configuration; a new ledger takes the one wanted, unless a parameter is out of range.

    An old one takes its bounds.
    """
    written = ledger.about("config")
    if written is None:
        config = (wanted or EngineConfig()).for_new_ledger()
        all_settings(config)
        ledger.tell("config", msgspec.json.encode(config).decode())
        return config
    with ledger.content_errors():
        config = msgspec.json.decode(written, type=EngineConfig)
    agreed = config_with(config, wanted)
    if agreed is None:
        raise ValueError(f"{ledger.path}: the ledger was made with another configuration: {written}")
    if agreed != config:
        ledger.tell("config", msgspec.json.encode(agreed).decode())
    return agreed


def config_with(config: EngineConfig, wanted: EngineConfig | None) -> EngineConfig | None:
    """A configuration with the bounds of the one wanted, if any is; None if that is another one."""
    agreed = config if wanted is None else replace(wanted, edition=config.edition)
    return agreed if agreed.without_bounds() == config.without_bounds() else None
