"""Scripts of events as they come in practice, and what is compared of two ledgers that were fed with one."""

import json
import random
import sqlite3
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from onlinecal.engine import EngineConfig, KeyConfig, Match, Rejected, check_ledger, read_report
from onlinecal.engine.events import decode

CLASSES = ("rain", "snow", "sun")

CONFIG = EngineConfig(
    KeyConfig(),
    (
        Match("lanes/*", KeyConfig(lanes=3, steering=True)),
        Match("brief/*", KeyConfig(expire_after=60.0)),
        Match("silent/*", KeyConfig(expire_after=40.0, expire_as=0)),
        Match("brief lanes/*", KeyConfig(lanes=2, expire_after=30.0, report="hint")),
        Match("grid/*", KeyConfig(horizon=500, rule="sign", report="lower", steering=False)),
        Match("weather/*", KeyConfig(kind="simplex")),
        Match("skies/*", KeyConfig(kind="simplex", classes=CLASSES, lanes=2, expire_after=90.0)),
        Match("words/*", KeyConfig(kind="lp", first_fit=10, expire_after=90.0)),
    ),
    park=2000,
)
"""Every kind of key, and room for outcomes that come before their queries."""

KINDS = ("plain", *(one.pattern.removesuffix("/*") for one in CONFIG.matches))


def is_simplex(key):
    return key.startswith(("weather/", "skies/", "words/"))


def hint_for(rng, key):
    """A hint that goes with the key, or None."""
    if rng.random() < 0.3:
        return None
    if not is_simplex(key):
        return rng.choice([rng.random(), 0.0, 1.0, 0.5])
    weights = [rng.random() + 0.01 for _ in CLASSES]
    return {label: weight / sum(weights) for label, weight in zip(CLASSES, weights, strict=True)}


def value_for(rng, key):
    """An outcome that goes with the key."""
    if not is_simplex(key):
        return rng.choice([0, 1, 1, True, False])
    if not key.startswith("words/") and rng.random() < 0.2:
        return rng.choice([{"rain": 0.75, "sun": 0.25}, {"sun": 1.0, "snow": 0.0}, soft_label(rng)])
    return rng.choice(CLASSES)


def soft_label(rng):
    """Probabilities of classes, in any order, that sum to 1 up to rounding."""
    labels = rng.sample(CLASSES, rng.choice([2, 3]))
    weights = [rng.random() + 0.01 for _ in labels]
    return {label: weight / sum(weights) for label, weight in zip(labels, weights, strict=True)}


def script(seed, queries, keys=30, kinds=KINDS, latest=60):
    """Events as dicts: every outcome comes after its query, by up to `latest` events, or never.

    Some forecasts are withdrawn, some events come twice or with another content. What is refused is refused
    whenever it is sent, so answers do not depend on what was sent before and is sent again.
    """
    rng = random.Random(seed)
    names = [f"{kinds[i % len(kinds)]}/{i}" for i in range(keys)]
    events, waiting, now = [], [], 0.0
    for number in range(queries):
        now += rng.choice([0, 1, 1, 2, 5])
        key = names[min(int(rng.expovariate(4 / keys)), keys - 1)]
        query = {"type": "query", "id": f"q{number}", "key": key}
        if (hint := hint_for(rng, key)) is not None:
            query["hint"] = hint
        if rng.random() < 0.9:
            query["time"] = now + rng.choice([0, 0, 0, -20, 0.25])
        events.append(query)
        fate = rng.random()
        if fate < 0.85:
            end = {"type": "outcome", "id": query["id"], "value": value_for(rng, key)}
        elif fate < 0.93:
            end = {"type": "withdraw", "id": query["id"]}
        else:
            end = None
        if end is not None:
            if rng.random() < 0.7:
                end["time"] = now + rng.choice([1, 5, 20, 50])
            if rng.random() < 0.3:
                end["key"] = key
            waiting.append((number + int(rng.random() ** 2 * latest), end))
        if rng.random() < 0.05:
            events.append(rng.choice(events))
        if rng.random() < 0.03:
            events.append({**query, "hint": 7})
        if rng.random() < 0.02:
            events.append({**query, "time": now + 1000.0})
        for due in sorted((one for one in waiting if one[0] <= number), key=lambda one: one[0]):
            waiting.remove(due)
            events.append(due[1])
    return events + [end for _, end in waiting]


def script_with_parked(seed, queries, keys=30, share=0.1, kinds=KINDS):
    """A script of which some first outcomes come before their queries, and the same with these right behind.

    Also the numbers of these events in the two. The last five outcomes of the first belong to no query.
    """
    rng, events, moved = random.Random(seed), script(seed, queries, keys, kinds), {}
    for place, event in enumerate(events):
        if event["type"] == "outcome" and event["id"] not in moved:
            moved[event["id"]] = place if rng.random() < share else None
    asked = {}
    for place, event in enumerate(events):
        if event["type"] == "query":
            asked.setdefault(event["id"], place)
    # (where an event goes, where it was)
    early, behind = [], []
    for place, event in enumerate(events):
        first = asked[event["id"]]
        is_moved = event["type"] == "outcome" and moved[event["id"]] == place
        early.append((max(0.0, first - rng.choice([1, 1, 2, 5, 40])) - 0.5 if is_moved else place, place))
        behind.append((first + 0.5 if is_moved else place, place))
    parked = {place for place in moved.values() if place is not None}
    both = []
    for order in (early, behind):
        places = [place for _, place in sorted(order)]
        some = {number for number, place in enumerate(places) if place in parked}
        both.append(([events[place] for place in places], some))
    never = [{"type": "outcome", "id": f"never {i}", "value": i % 2, "time": float(i)} for i in range(5)]
    both[0][1].update(range(len(events), len(events) + 5))
    both[0][0].extend(never)
    return both


def lines_of(events):
    """One line of JSON for each event."""
    return [json.dumps(event).encode() for event in events]


def kind_of(answer):
    """What an answer is; of a refusal its reason."""
    return answer.reason if isinstance(answer, Rejected) else type(answer).__name__


def events_of(events):
    """The events as objects, each with its key; without outcomes that belong to no query."""
    keys = {one["id"]: one["key"] for one in events if "key" in one}
    lines = lines_of({**one, "key": keys[one["id"]]} for one in events if one["id"] in keys)
    return [decode(line) for line in lines]


def batches(rng, lines, most):
    """The lines in pieces of random size, each ended by a newline."""
    done = 0
    while done < len(lines):
        size = rng.randint(1, most)
        yield b"\n".join(lines[done : done + size]) + b"\n"
        done += size


def tables_of(path):
    """Everything that a ledger says but states, which depend on when they were written."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return {
            table: connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()
            for table in ("keys", "queries", "closings", "parked")
        }


def report_of(path):
    """A ledger's report, but for its path."""
    return msgspec.structs.replace(read_report(path), path="")


def assert_sound(path):
    """The ledger agrees with its own log."""
    check = check_ledger(path)
    assert check.problems == []
    return check


def assert_same_ledgers(one, other):
    """Two ledgers hold the same events, and nothing that follows from them is different."""
    assert tables_of(one) == tables_of(other)
    assert report_of(one) == report_of(other)
    assert_sound(one)


def states_of(engine):
    """The state of every key of an engine in bytes, cold keys included."""
    snapshots = engine._ledger.keys_named([row[0] for row in engine._ledger.rows("SELECT name FROM keys")])
    engine._book.fetch([one.name for one in snapshots], engine._ledger)
    book = engine._book
    return {name: key.dump(book.ids) for name, key in book.keys.items()}


@contextmanager
def quick_folder():
    """A folder in memory if there is such a place: a process that is killed does not need the disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)
