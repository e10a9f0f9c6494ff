"""Say which entries of the corpus, public signatures and options have changed; `--write` keeps today's."""

from __future__ import annotations

import argparse
import difflib
import json

from tests.corpus.entries import KEPT, corpus, kept, same
from tests.corpus.surface import SURFACE, surface


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description=__doc__)
    parser.add_argument("only", nargs="?", default="", help="entries whose names begin so; all by default")
    parser.add_argument("--write", action="store_true", help="keep what is answered today")
    asked = parser.parse_args()
    before = (
        {name: one for name, one in kept().items() if name.startswith(asked.only)} if KEPT.exists() else {}
    )
    now = corpus(asked.only)
    for name in sorted({*before, *now}):
        if name not in now:
            print(f"gone     {name}")
        elif name not in before:
            print(f"new      {name}")
        elif not same(before[name], now[name]):
            print(f"changed  {name}: {before[name]} -> {now[name]}")
    as_before = sum(name in now and same(one, now[name]) for name, one in before.items())
    print(f"{as_before} of {len(before)} entries are as they were")
    was = SURFACE.read_text().splitlines() if SURFACE.exists() else []
    today = surface()
    for line in difflib.unified_diff(was, today, "signatures before", "signatures now", lineterm="", n=0):
        print(line)
    if asked.write:
        held = kept() if KEPT.exists() and asked.only else {}
        KEPT.write_text(json.dumps({**held, **now}, indent=0, sort_keys=True) + "\n")
        SURFACE.write_text("\n".join(today) + "\n")


if __name__ == "__main__":
    main()
