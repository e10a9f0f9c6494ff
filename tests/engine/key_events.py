"""Events over several keys, with everything that happens to them, for the engine and for turns of keys."""

import random
from collections import defaultdict

from onlinecal.engine import EngineConfig, KeyConfig, Match, Outcome, Query, Withdraw
from tests.engine.scripts import CLASSES, soft_label

CONFIG = EngineConfig(
    KeyConfig(lanes=3, expire_after=400.0, report="hint", slack=1.0),
    (
        Match("w/lp*", KeyConfig(kind="lp", first_fit=10)),
        Match("w/*", KeyConfig(kind="simplex", lanes=2)),
        Match("plain/*", KeyConfig()),
        Match("u/*", KeyConfig(horizon=400)),
    ),
)


def everything(count, keys, seed=0, wait=20, hints=True):
    """`count` events over keys: late outcomes, withdrawals, expiries, repeats near and far, bad values."""
    rng = random.Random(seed)
    events, open_now, sent = [], defaultdict(list), defaultdict(list)
    while len(events) < count:
        i, key = len(events), rng.choice(keys)
        chance, waiting = rng.random(), open_now[key]
        if chance < 0.06 and sent[key]:
            event = rng.choice(sent[key][-12:])
        elif chance < 0.10:
            event = rng.choice(
                [
                    Query(f"bad{i}", key, 1.5, float(i)),
                    Query(f"bad{i}", key, float("nan"), float(i)),
                    Query(f"bad{i}", key, None, float("inf")),
                    Outcome(f"never{i}", 1, key, float(i)),
                    Query("n" * 201, key),
                ]
            )
        elif len(waiting) > wait or (waiting and chance < 0.5):
            id = waiting.pop(rng.randrange(len(waiting)))
            value = rng.choice(CLASSES) if key.startswith("w/") else rng.randrange(2)
            if key.startswith("w/") and not key.startswith("w/lp") and rng.random() < 0.15:
                value = soft_label(rng)
            event = Outcome(id, value, key, float(i)) if chance > 0.13 else Withdraw(id, key, float(i))
        else:
            hint = rng.random() if hints and rng.random() < 0.7 else None
            if hint is not None and key.startswith("w/"):
                hint = {"sun": hint, "rain": 1.0 - hint}
            event = Query(f"q{i}", key, hint, float(i))
            waiting.append(event.id)
        events.append(event)
        sent[key].append(event)
    return events
