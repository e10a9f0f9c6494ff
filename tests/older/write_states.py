"""Writes the states that `test_older_states.py` opens, by the code of today:

    PYTHONHASHSEED=0 python tests/older/write_states.py tests/older/0.1.0.tar.xz

Run it for a new release, under its name; an archive that is there stays as it is. With that setting, which
fixes the order of sets, the same code writes the same bytes. `--names FILE` also writes
the modules and names that the pickles refer to, one pair a line.
"""

from __future__ import annotations

import argparse
import io
import json
import pickle
import tarfile
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from going_on import Watchful, go_on
from made_files import array_files, engine_files, turn_files
from made_states import states

PROTOCOL = 4


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("archive", type=Path)
    parser.add_argument("--names", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    names: set[tuple[str, str]] = set()
    index = {}
    # forecasters draw a name with their first token
    drawn = patch("secrets.token_hex", lambda size: "ab" * size)
    with drawn, TemporaryDirectory() as made, tarfile.open(given.archive, "x:xz", preset=9) as file:
        folder = Path(made)

        def keep(name: str, content: bytes) -> None:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))

        for name, way, exact, state in states(folder):
            data = pickle.dumps(state, PROTOCOL)
            opened = Watchful(data)
            copy = opened.load()
            names |= opened.names
            # recorded of the state itself, which was never put down
            answers = go_on(way, state)
            assert name not in index
            assert go_on(way, copy) == answers, name
            index[name] = {"way": way, "exact": exact}
            keep(f"pickles/{name}.pickle", data)
            keep(f"pickles/{name}.json", answers.encode())
        keep("index.json", json.dumps(index, indent=1).encode())
        for files in (engine_files, turn_files, array_files):
            for name, content in files(folder):
                keep(name, content)
    if given.names:
        ours = ("onlinecal", "adversaries", "simulations")
        found = sorted(pair for pair in names if pair[0].split(".")[0] in ours)
        given.names.write_text("".join(f"{module} {name}\n" for module, name in found))


if __name__ == "__main__":
    main()
