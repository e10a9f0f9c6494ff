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
    before = {name: one for name, one in kept().items() if name.startswith(asked.only)}
    now, today = corpus(asked.only), surface()
    for name in sorted({*before, *now}):
        if name not in now or name not in before or not same(before[name], now[name]):
            print(f"{name}: {before.get(name, 'nothing')} -> {now.get(name, 'nothing')}")
    print(f"{len(before)} entries were kept, {len(now)} were played")
    was = SURFACE.read_text().splitlines()
    for line in difflib.unified_diff(was, today, "signatures before", "signatures now", lineterm="", n=0):
        print(line)
    if asked.write:
        held = kept() if asked.only else {}
        KEPT.write_text(json.dumps({**held, **now}, indent=0, sort_keys=True) + "\n")
        SURFACE.write_text("\n".join(today) + "\n")


if __name__ == "__main__":
    main()
