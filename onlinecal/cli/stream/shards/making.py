"""Folders of shards for the verbs that make ledgers: an archive of each, and each repaired."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from onlinecal.cli.stream.shards.folder import Manifest, manifest_of, named, write_manifest
from onlinecal.engine.ledger.file import LedgerError

if TYPE_CHECKING:
    from onlinecal.engine.ledger.chain import Link
    from onlinecal.engine.ledger.check import Tell
    from onlinecal.engine.ledger.repair import Repaired


def archive_shards(
    folder: Path,
    manifest: Manifest,
    into: Path,
    *,
    keep: int | None,
    before: float | None,
    shrink: bool,
    tell: Tell,
) -> list[Link | None]:
    """Archive each shard into a ledger of that name in the folder `into`; its link, None if none was made.

    Arguments and exceptions are those of `archive_ledger`. If somebody writes to the shards all archives are
    made before that is raised.
    """
    from onlinecal.engine.ledger.archive import archive_ledger

    there = manifest_of(into)
    if there is None and into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise ValueError(f"{into}: there is something else already; name a folder that is to be made")
    if there is not None and (not there.archive or there.shards != manifest.shards):
        raise ValueError(f"{into}: this is another folder of shards; name one that is to be made")
    into.mkdir(exist_ok=True)
    # first: nobody shall take a part of it for a folder to write to
    write_manifest(into, replace(manifest, archive=True))
    moved: list[Link | None] = []
    failed: LedgerError | None = None
    try:
        pairs = zip(named(folder, manifest.shards), named(into, manifest.shards), strict=True)
        for shard, archive in pairs:
            try:
                moved.append(
                    archive_ledger(shard, archive, keep=keep, before=before, shrink=shrink, tell=tell)
                )
            except LedgerError as error:
                failed = failed or error
    finally:
        if not any(archive.exists() for archive in named(into, manifest.shards)):
            shutil.rmtree(into)
    if failed is not None:
        raise failed
    return moved


def archives_of(shard: Path, archives: list[Path]) -> list[Path]:
    """What folders of archives have of a shard; ValueError for anything else."""
    for folder in archives:
        manifest = manifest_of(folder)
        if manifest is None or not manifest.archive:
            raise ValueError(
                f"--archive {folder} must be a folder of archives, as `stream archive` makes of such a folder"
            )
    return [one for folder in archives if (one := folder / shard.name).exists()]


def repair_shards(folder: Path, manifest: Manifest, into: Path) -> Repaired:
    """Repair each shard into the new folder `into`; what was saved of all of them.

    Raises what `repair_ledger` raises, and leaves nothing then.
    """
    from onlinecal.engine.ledger.repair import Repaired, repair_ledger

    if into.exists():
        raise ValueError(f"{into}: there is something already; name a folder that is to be made")
    into.mkdir()
    found = Repaired(0, 0, [], [])
    try:
        pairs = zip(named(folder, manifest.shards), named(into, manifest.shards), strict=True)
        for shard, saved in pairs:
            came = repair_ledger(shard, saved)
            lost = [f"{shard.name}: {sentence}" for sentence in came.lost]
            found = Repaired(
                found.events + came.events,
                found.keys + came.keys,
                found.lost + lost,
                found.changed + came.changed,
            )
        # last: a folder that is not complete is none
        write_manifest(into, manifest)
    except BaseException:
        shutil.rmtree(into)
        raise
    return found
