"""A folder of shards: ledgers `0.db`, `1.db`, ..., and `shards.json`, which says how keys are divided."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from onlinecal.cli.stream.shards import MOST
from onlinecal.engine.config import EngineConfig
from onlinecal.engine.ledger.agreed import config_with
from onlinecal.engine.ledger.file import LedgerError
from onlinecal.engine.ledger.writer_lock import WriterLock
from onlinecal.engine.settings import all_settings

MANIFEST = "shards.json"
PATIENCE = 30.0
"""Seconds in which the workers of a run that was killed come to the end of what they had begun."""


class Manifest(Struct, frozen=True):
    """How the keys of a folder are divided: by `hash` of the key in UTF-8, modulo `shards`.

    `config` is what forecasters they get: where a run is killed before it has made all ledgers, the next
    makes the others by it. Of an `archive` the ledgers are archives, and there are those that were needed.
    """

    shards: int
    config: EngineConfig
    hash: Literal["crc32"] = "crc32"
    archive: bool = False


def shards_of(ledger: Path) -> list[Path] | None:
    """The ledgers of a folder of shards; None for anything else. LedgerError if its manifest is damaged."""
    manifest = manifest_of(ledger)
    if manifest is None:
        return None
    ledgers = named(ledger, manifest.shards)
    return [one for one in ledgers if one.exists()] if manifest.archive else ledgers


def manifest_of(folder: Path) -> Manifest | None:
    """The manifest of a folder; None if there is none."""
    try:
        written = (folder / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        manifest = msgspec.json.decode(written, type=Manifest)
        if not 1 <= manifest.shards <= MOST:
            raise ValueError(f"shards must be from 1 to {MOST}, got {manifest.shards}")
    except ValueError as error:
        raise LedgerError(f"{folder / MANIFEST}: cannot be read ({error}); put it back as it was") from error
    return manifest


def named(folder: Path, shards: int) -> list[Path]:
    """What the ledgers of so many shards are called."""
    return [folder / f"{number}.db" for number in range(shards)]


def in_shards(ledger: Path, workers: int | None) -> int | None:
    """How many shards a run has: those that the folder was made with, or is to be made with; None: no folder.

    Raises ValueError if `workers` is another number, or the ledger is something else.
    """
    manifest = manifest_of(ledger)
    if manifest is None:
        if workers is None:
            return None
        if ledger.is_dir() and not any(ledger.iterdir()):
            return workers
        if ledger.exists():
            what = "a folder without shards" if ledger.is_dir() else "one ledger, for one process"
            raise ValueError(
                f"--ledger {ledger} is {what}: with --workers it is a folder that the first run makes"
            )
        return workers
    if manifest.archive:
        raise ValueError(f"--ledger {ledger} is a folder of archives: they are only read")
    shards = manifest.shards
    if workers is not None and workers != shards:
        raise ValueError(
            f"{ledger} has {shards} shards: --workers must be {shards}, or left out, got {workers}. "
            "For another number play the same input into a new folder: the forecasts will be the same"
        )
    return shards


class Claimed:
    """A folder of shards that this process alone has, made if there is none; a context.

    Raises LedgerError if another process has it, or one of its ledgers, and keeps it; ValueError if it was
    made with another configuration than is wanted.
    """

    def __init__(self, folder: Path, shards: int, wanted: EngineConfig | None) -> None:
        if wanted is not None:
            # before there is a folder
            all_settings(wanted)
        folder.mkdir(parents=True, exist_ok=True)
        self.ledgers = named(folder, shards)
        try:
            self._lock = WriterLock(os.path.realpath(folder / MANIFEST))
        except ValueError as error:
            raise LedgerError(f"{folder}: {error}") from error
        try:
            self.config = self._agreed(folder, shards, wanted)
            self._wait()
        except BaseException:
            self._lock.release()
            raise

    def _agreed(self, folder: Path, shards: int, wanted: EngineConfig | None) -> EngineConfig:
        """The configuration of all shards."""
        before = manifest_of(folder)
        if before is None:
            config: EngineConfig | None = (wanted or EngineConfig()).for_new_ledger()
        else:
            config = config_with(before.config, wanted)
        if config is None:
            raise ValueError(f"{folder}: the shards were made with another configuration: see {MANIFEST}")
        manifest = Manifest(shards, config)
        if manifest != before:
            write_manifest(folder, manifest)
        return config

    def _wait(self) -> None:
        """Until the workers of a run that was killed have let go of the ledgers."""
        last = time.monotonic() + PATIENCE
        for ledger in self.ledgers:
            while True:
                try:
                    WriterLock(os.path.realpath(ledger)).release()
                    break
                except ValueError as error:
                    if time.monotonic() > last:
                        raise LedgerError(f"{ledger}: {error}") from error
                    time.sleep(0.02)

    def __enter__(self) -> Claimed:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write it so that it is there as a whole, also after the power fails, before there is any ledger."""
    unfinished = folder / f".{MANIFEST}"
    with open(unfinished, "wb") as file:
        file.write(msgspec.json.encode(manifest) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, folder / MANIFEST)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
