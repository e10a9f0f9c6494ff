"""The engine against a model of what it promises, written with dictionaries and the public forecasters."""

import logging
import random
from collections import Counter

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from onlinecal import AlmostOneStepAhead, SimplexAlmostOneStepAhead
from onlinecal.engine import (
    Engine,
    EngineConfig,
    Forecast,
    KeyConfig,
    Match,
    Outcome,
    Parked,
    Query,
    Settled,
    Withdraw,
    Withdrawn,
    encode_lines,
    judge,
    read_report,
)
from onlinecal.steering import trust
from onlinecal.steering.binary import TICKET
from tests.engine.scripts import (
    CLASSES,
    CONFIG,
    KINDS,
    assert_same_ledgers,
    hint_for,
    is_simplex,
    states_of,
    value_for,
)

MORE = {
    "plain/window*": KeyConfig(window=20, report="hint", slack=1.0),
    "plain/lanes*": KeyConfig(window=20, lanes=2),
    "plain/unsteered*": KeyConfig(steering=False, alarm=False),
    "plain/quick*": KeyConfig(n_cells=3, report="hint", slack=1.0, alarm=0.5),
    "weather/sure*": KeyConfig(kind="simplex", slack=2.0, report="hint"),
    "skies/window*": KeyConfig(kind="simplex", classes=CLASSES, window=40),
    "skies/few*": KeyConfig(kind="simplex", classes=CLASSES, n_cells=7, slack=1.0, report="hint", window=40),
}
EVERYTHING = EngineConfig(CONFIG.default, (*(Match(*one) for one in MORE.items()), *CONFIG.matches))
KEYS = "plain/b", *(f"{kind}/a" for kind in KINDS if kind != "words"), *(one[:-1] for one in MORE)


@pytest.fixture(autouse=True)
def unlogged(monkeypatch):
    """Alarms that are raised here use up nothing of what is logged a minute."""
    monkeypatch.setattr(logging.getLogger("onlinecal.engine"), "disabled", True)


def added(numbers):
    """One after the other, as no `sum` does since Python 3.12."""
    total = 0.0
    for number in numbers:
        total += number
    return total


class Lane:
    """One forecaster, and how many of its forecasts wait."""

    def __init__(self, config):
        given = {
            name: getattr(config, name)
            for name in ("horizon", "n_cells", "grid", "rule", "slack", "report", "window")
            if getattr(config, name) is not None
        }
        if config.kind == "simplex":
            labels = None if config.classes is None else list(config.classes)
            # the engine's keys have the grid that tunes itself, unless something fixes it
            fixed = {"horizon", "n_cells", "report", "window"}.intersection(given)
            grid = "nested" if fixed else "adaptive"
            self.forecaster = SimplexAlmostOneStepAhead(labels=labels, grid=grid, hints=True, **given)
        else:
            self.forecaster = AlmostOneStepAhead(**given, hints=True)
        self.waiting = 0

    def ask(self, hint):
        classes = getattr(self.forecaster, "classes", None)
        if classes is None:
            return self.forecaster.forecast(hint)
        if hint is not None:
            known = {label: hint.get(label, 0.0) for label in classes}
            weight = added(known.values())
            hint = {label: p / weight for label, p in known.items()} if known and weight else None
            if known and not weight:
                hint = dict.fromkeys(known, 1.0 / len(known))
        return self.forecaster.forecast(hint)


class Key:
    """What a key remembers: its lanes, its clock, and its forecasts that wait, by id."""

    def __init__(self, config):
        self.config = config
        self.lanes = []
        self.clock = None
        self.steering, self.tickets = None, {}
        self.classes = list(config.classes or ())
        self.waiting = {}
        self.rounds = self.expired = 0

    def lane(self):
        idle = [lane for lane in self.lanes if lane.waiting == 0]
        if idle:
            return idle[0]
        if len(self.lanes) < self.config.lanes:
            self.lanes.append(Lane(self.config))
            return self.lanes[-1]
        return min(self.lanes, key=lambda lane: lane.waiting)

    def guide(self, id, hint):
        """The hint, or what steering makes of it."""
        if hint is None or self.config.kind == "lp" or self.config.steering is False:
            return hint
        if self.config.kind == "simplex":
            return self.guide_of_classes(id, hint)
        if self.steering is None:
            self.steering = trust.new_steering()
        self.tickets[id] = np.empty(TICKET)
        return trust.advise(self.steering, self.tickets[id], hint)

    def guide_of_classes(self, id, hint):
        if self.steering is None:
            self.steering = trust.new_trusted_steering(len(self.classes))
        self.meet(label for label, p in hint.items() if p > 0)
        k = len(self.classes)
        self.tickets[id], out = np.empty(trust.ticket_size(k)), np.empty(k)
        row = np.array([hint.get(label, 0.0) for label in self.classes])
        trust.ask_vector(self.steering, self.tickets[id], row, out)
        return dict(zip(self.classes, out.tolist(), strict=True))

    def meet(self, labels):
        """Add a class for each label that is new, to the state and to all tickets."""
        for label in labels:
            if label not in self.classes:
                k = len(self.classes)
                self.classes.append(label)
                self.steering = trust.trusted_with_classes(self.steering, k + 1)
                for one, ticket in self.tickets.items():
                    self.tickets[one] = trust.trusted_ticket_with_classes(ticket, k, k + 1)

    def learn(self, id, value):
        if id in self.tickets and self.config.kind == "simplex":
            soft = value if isinstance(value, dict) else {value: 1.0}
            self.meet(soft)
            row = np.array([soft.get(label, 0.0) for label in self.classes])
            trust.settle_vector(self.steering, self.tickets.pop(id), row)
        elif id in self.tickets:
            trust.take_in(self.steering, self.tickets.pop(id), value)

    def certificate(self):
        return added(lane.forecaster.certificate for lane in self.lanes)

    def is_over(self, time, now):
        patience = self.config.expire_after
        return None not in (patience, time, now) and now > time + patience

    def go_on_to(self, time):
        if time is not None and (self.clock is None or time > self.clock):
            self.clock = time
        over = [one for one in self.waiting.items() if self.is_over(one[1][2], self.clock)]
        for id, (lane, token, _) in sorted(over, key=lambda one: one[1][2]):
            lane.waiting -= 1
            if self.config.expire_as is None:
                lane.forecaster.withdraw(token)
            else:
                lane.forecaster.observe(token, self.config.expire_as)
                self.learn(id, self.config.expire_as)
                self.rounds += 1
            del self.waiting[id]
            self.expired += 1


def is_outcome(key, value):
    """Whether the value can be an outcome: a share, or a class; any text where classes are discovered."""
    if is_simplex(key):
        labels = value if isinstance(value, dict) else [value]
        return all(isinstance(c, str) and (key.startswith("weather/") or c in CLASSES) for c in labels)
    return not isinstance(value, str | dict) and 0 <= value <= 1


def kept(value):
    """An outcome as it is told apart from others: a soft label without what is no part of it."""
    soft = {label: p for label, p in value.items() if p} if isinstance(value, dict) else None
    return value if soft is None else soft if len(soft) > 1 else next(iter(soft))


class Model:
    """Events in, answers out, as docs/engine-contract.md says it, one dict entry for each id."""

    def __init__(self, config):
        self.config, self.keys, self.ids = config, {}, {}
        # outcomes that came first, and how many events were accepted when they came
        self.accepted, self.parked, self.dropped = 0, {}, Counter()

    def answer(self, event):
        self.drop_old()
        answer = self.query(event) if isinstance(event, Query) else self.close(event)
        self.drop_old()
        return answer

    def drop_old(self):
        for id, (_, since) in list(self.parked.items()):
            if self.accepted - since > self.config.park:
                del self.parked[id]
                self.dropped["waited"] += 1

    def first(self, event):
        """An outcome or a withdrawal whose query has not come."""
        parked = self.parked.get(event.id, (None, 0))[0]
        if not isinstance(event, Outcome):
            return "parked" if parked else "unknown"
        if parked is None and not self.config.park:
            return "unknown"
        possible = [event.key] if event.key else ["plain/b", "weather/a", "skies/a"]
        if not any(is_outcome(key, event.value) for key in possible):
            return "invalid"
        if parked is not None:
            is_same = (parked.value, parked.time) == (event.value, event.time)
            return Parked(event.id) if is_same and event.key in (None, parked.key or event.key) else "parked"
        if len(self.parked) >= self.config.park:
            return "full"
        self.parked[event.id] = event, self.accepted
        return Parked(event.id)

    def query(self, event):
        content = event.key, event.hint, event.time
        if event.id in self.ids:
            before = self.ids[event.id]
            return before["forecast"] if before["content"] == content else "duplicate"
        if event.key not in self.keys:
            self.keys[event.key] = Key(self.config._at(self.config._place_for(event.key)))
        key = self.keys[event.key]
        key.go_on_to(event.time)
        lane = key.lane()
        token = lane.ask(key.guide(event.id, event.hint))
        lane.waiting += 1
        key.waiting[event.id] = lane, token, key.clock if event.time is None else event.time
        told = token.probabilities if is_simplex(event.key) else token.probability
        forecast = Forecast(event.id, event.key, told, key.certificate())
        self.ids[event.id] = {"content": content, "key": event.key, "forecast": forecast, "closed": None}
        self.accepted += 1
        if event.id in self.parked:
            told = self.close(self.parked.pop(event.id)[0])
            self.dropped[told] += isinstance(told, str)
        return forecast

    def close(self, event):
        if event.id not in self.ids:
            return self.first(event)
        known = self.ids[event.id]
        key = self.keys[known["key"]]
        value = kept(event.value) if isinstance(event, Outcome) else None
        answer = Settled(event.id) if isinstance(event, Outcome) else Withdrawn(event.id)
        if event.key not in (None, known["key"]):
            return "invalid"
        if isinstance(event, Outcome) and not is_outcome(known["key"], value):
            return "invalid"
        if known["closed"] is not None:
            how = "withdrawn" if known["closed"][0] is None else "settled"
            return answer if known["closed"] == (value, event.time) else how
        if event.id not in key.waiting:
            return "expired"
        lane, token, asked = key.waiting[event.id]
        times = [time for time in (event.time, key.clock) if time is not None]
        if key.is_over(asked, max(times, default=None)):
            return "expired"
        if isinstance(event, Outcome):
            lane.forecaster.observe(token, value)
            key.learn(event.id, value)
            key.rounds += 1
        else:
            lane.forecaster.withdraw(token)
        lane.waiting -= 1
        del key.waiting[event.id]
        key.go_on_to(event.time)
        known["closed"] = value, event.time
        self.accepted += 1
        return answer


ODD_VALUES = 2, 0.5, "rain", "1", {"fog": 1.0}, {"sun": 1.0, "rain": 0.0}
"""Each can be an outcome of some kind of key."""


def plain(answer):
    """An answer; of a refusal its reason."""
    return getattr(answer, "reason", answer)


def random_event(rng, known):
    """An event about few keys; `known` lists the ids that were asked for, and grows."""
    now, chance = len(known), rng.random()
    time = rng.choice([None, rng.randrange(0, 40), 40 * rng.random(), 40.0 + now / 2, 40 + now])
    if chance < 0.45 or not known:
        key = rng.choice(KEYS)
        # longer and longer, some not of ASCII
        id = f"q{now}" + rng.choice(["", "\u00e9", "x" * (now // 20)])
        known.append(id if rng.random() < 0.9 or not known else rng.choice(known))
        return Query(known[-1], key, hint_for(rng, key), time)
    if chance < 0.48:
        # some of them are of ids to come
        return Outcome(f"q{now + rng.randrange(3)}", rng.choice([1, 1, 0, 0.5, "sun", 2]), None, time)
    id = rng.choice(known[-12:] if rng.random() < 0.8 else known)
    key = rng.choice([None, None, None, rng.choice(KEYS)])
    if chance > 0.9:
        return Withdraw(id, key, time)
    value = value_for(rng, rng.choice(KEYS)) if rng.random() < 0.9 else rng.choice(ODD_VALUES)
    return Outcome(id, value, key, time)


def plain_events(rng, known, waiting, count, early=0.0):
    """Events of many keys with nothing odd about them: ids that are new, and first outcomes.

    A share of these comes right before its query, too.
    """
    for _ in range(count):
        if rng.random() < 0.55 or not waiting:
            known.append(f"q{len(known)}")
            key = f"plain/{rng.randrange(60)}"
            waiting.append((known[-1], key))
            if early and rng.random() < early:
                yield Outcome(known[-1], rng.randrange(2), rng.choice([None, key]))
            yield Query(known[-1], key, rng.choice([None, rng.random()]))
        else:
            id, key = waiting.pop(rng.randrange(len(waiting)))
            yield Outcome(id, rng.randrange(2), rng.choice([None, key]))


def assert_summaries(engine, model):
    """The engine has in memory what it may have; its sums and the report are what the model knows."""
    book, waiting = engine._book, engine.in_memory()[1]
    assert waiting == len(book.ids) - len(book._free)
    assert waiting == sum(key.waiting for key in book.keys.values())
    assert waiting == sum(len(key.entries()) for key in book.keys.values())
    assert len(book.keys) <= engine.hot_keys
    found = {line.name: line.summary for line in read_report(engine._ledger.path).keys}
    assert list(found) == list(model.keys)
    for name, key in model.keys.items():
        summary = found[name]
        assert (summary.rounds, summary.open, summary.expired) == (key.rounds, len(key.waiting), key.expired)
        assert summary.certificate == key.certificate() <= summary.guarantee + 1e-9
        if key.config.lanes == 1 and key.lanes:
            for bound in ("guarantee", "window_certificate", "window_guarantee"):
                assert getattr(summary, bound) == getattr(key.lanes[0].forecaster, bound)
    total, overview = engine.total(), engine.overview(100)
    for name in ("rounds", "open", "expired", "certificate", "guarantee"):
        wanted = sum(getattr(summary, name) for summary in found.values())
        assert getattr(total, name) == pytest.approx(wanted, rel=1e-12)
    assert overview.oldest == min((one.oldest for one in found.values() if one.oldest), default=None)
    assert all(found[name] == summary for name, summary in overview.largest)


@pytest.mark.parametrize(
    ("seed", "few", "many"),
    [
        *((seed, 40 if seed == 2 else 24, 3) for seed in range(4)),
        *(pytest.param(seed, 40, 4, marks=pytest.mark.slow) for seed in range(10)),
    ],
)
def test_answers_are_those_of_the_model_however_they_are_cut_and_restarted(
    tmp_path, seed, few, many, monkeypatch
):
    """Events as objects, and as lines in batches of other sizes, in memory in part or as a whole."""
    rng, known, waiting, events = random.Random(seed), [], [], []
    path, config = tmp_path / "ledger.db", replace(EVERYTHING, park=[1000, 50, 4, 0][seed % 4])
    limits = {"hot_keys": rng.choice([1, 2, 5, 100]), "states_behind": rng.choice([0, 3, 40, 1000])}
    model = Model(config)
    engine, of_lines = Engine(path, config, **limits), Engine(tmp_path / "lines.db", config)
    monkeypatch.setattr("onlinecal.engine.watch.totals.REMEMBERED", rng.choice([2, 1000]))
    # few events are judged in another way than many
    sizes = (
        [rng.randrange(45, 300) for _ in range(many)] if seed % 2 else rng.choices([1, 1, 3, 10, 40], k=few)
    )
    for size in sizes:
        batch = [random_event(rng, known) for _ in range(size)]
        batch += rng.sample(events, min(len(events), rng.choice([0, 0, 2])))
        batch += plain_events(rng, known, waiting, rng.choice([0, size]), early=0.1)
        answers = engine.handle(batch)
        assert list(map(plain, answers)) == list(map(model.answer, batch))
        cut, encode = rng.randrange(len(batch) + 1), msgspec.json.Encoder().encode_lines
        told = [of_lines.handle_lines(encode(part)) for part in (batch[:cut], batch[cut:])]
        assert b"".join(told) == encode_lines(answers)
        events += batch
        if rng.random() < 0.2:
            assert_summaries(engine, model)
        if rng.random() < 0.1:
            (engine._ledger if rng.random() < 0.7 else engine).close()
            engine = Engine(path, **limits)
    assert_summaries(engine, model)
    parking = engine.overview().parking
    assert parking.waiting == len(model.parked)
    assert all(parking.dropped[why] == model.dropped[why] for why in parking.dropped)
    assert engine._book.reliability.dump() == of_lines._book.reliability.dump()
    assert engine.total() == of_lines.total()
    assert states_of(engine) == states_of(of_lines)
    engine.close()
    of_lines.close()
    assert_same_ledgers(path, tmp_path / "lines.db")


def test_most_plain_events_are_accepted_together(monkeypatch):
    rng, single = random.Random(0), []
    monkeypatch.setattr(judge.Batch, "_one_by_one", lambda self, start, end: single.append(end - start))
    with Engine() as engine:
        engine.handle(list(plain_events(rng, [], [], 500)))
        assert sum(single) == 0


def test_keys_that_were_used_longest_ago_leave_first():
    engine = Engine(hot_keys=3)
    for i in range(30):
        engine.handle([Query(f"q{i}", f"k{i}", 0.3), Outcome(f"q{i}", 1)])
    assert [*engine._book.keys] == ["k27", "k28", "k29"]
