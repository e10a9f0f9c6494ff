"""What the interpreter begins and compiled code goes on with: the same bits, whenever it changes hands."""

import itertools
import os
import pickle
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from river import naive_bayes

from onlinecal import (
    AlmostOneStepAhead,
    CalibratedClassifier,
    GroupCalibratedClassifier,
    OneStepAhead,
    recalibrate_stream,
)
from onlinecal.compiling import beginning
from onlinecal.compiling.beginning import BEGINNINGS, Beginning, Entry
from onlinecal.engine import Engine, KeyConfig, Outcome, Query
from onlinecal.engine.keys import playing
from tests.engine.scripts import CONFIG, batches, lines_of, script, states_of
from tests.forecasters.configurations import configs, fresh, hinted_sequences
from tests.properties import examples


class Switch:
    """Has entries interpreted in the first so many calls, and compiled from then on."""

    def __init__(self):
        self.at, self.calls = 0, 0

    def play(self, game, at):
        """What a game answers if it changes hands at this call."""
        self.at, self.calls = at, 0
        return game()


@pytest.fixture(scope="module")
def switch():
    switch, look = Switch(), Beginning.compiled_form_of

    def compiled_form_of(self, entry, given, ahead):
        switch.calls += 1
        if switch.calls <= switch.at:
            return None
        form = look(self, entry, given, ahead)
        # the next call is counted, too
        setattr(self.kind, entry.name, entry)
        return form

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Beginning, "compiled_form_of", compiled_form_of)
        before = {each: dict(vars(each.kind)) for each in BEGINNINGS.values()}
        for each in before:
            for name, entry in each.entries.items():
                setattr(each.kind, name, entry)
        yield switch
        for each, names in before.items():
            for name in each.entries:
                setattr(each.kind, name, names[name])


def check(switch, game, at):
    """A game answers the same compiled, interpreted to the end, and where it changes hands between.

    `at` is a share of its calls.
    """
    compiled = switch.play(game, 0)
    calls = switch.calls
    assert calls > 0
    for change in {calls, int(at * calls), 1}:
        assert switch.play(game, change) == compiled


shares = st.floats(0, 1, exclude_max=True)


def all_of(forecaster):
    """Its memory and its window, to the last bit."""
    window = forecaster._window
    return forecaster.memory.tobytes(), None if window is None else window.table.tobytes()


@settings(max_examples=examples(60), deadline=None)
@given(configs, hinted_sequences(longest=60), st.booleans(), st.sampled_from([None, 7]), shares)
def test_rounds_one_by_one(switch, config, played, hinted, window, at):
    def game():
        forecaster = fresh(config | {"window": window}, hinted)
        told, waiting = [], []
        for y, hint in zip(*played, strict=True):
            waiting.append(forecaster.forecast(hint if forecaster.hints else None))
            if len(waiting) > 2:
                forecaster.observe(waiting.pop(0), y)
            told.append((forecaster.predict_proba_one({}), waiting[-1].probability, forecaster.certificate))
            forecaster.learn_one({}, int(y))
        return told, all_of(forecaster)

    check(switch, game, at)


@settings(max_examples=examples(60), deadline=None)
@given(configs, hinted_sequences(longest=100), st.sampled_from(["none", "hints", "shares"]), shares)
def test_sequences(switch, config, played, kind, at):
    outcomes, hints = played

    def game():
        forecaster, told = fresh(config, kind == "hints"), []
        for part in np.array_split(np.arange(len(outcomes)), min(len(outcomes), 4)):
            given = [outcomes[part] * 0.75 if kind == "shares" else outcomes[part]]
            if kind == "hints":
                given.append(hints[part])
            told += [x.tobytes() for x in forecaster.replay(*given, return_look_ahead=True)]
        return told, all_of(forecaster)

    check(switch, game, at)


@settings(max_examples=examples(20), deadline=None)
@given(hinted_sequences(longest=40), shares)
def test_one_step_ahead_and_a_window(switch, played, at):
    def game():
        reference, forecaster = OneStepAhead(), AlmostOneStepAhead(window=9)
        answers = [reference.answer(y) for y in played[0]]
        return answers, forecaster.replay(played[0]).tobytes(), all_of(forecaster), all_of(reference)

    check(switch, game, at)


class Said(naive_bayes.GaussianNB):
    """A model whose probabilities are its inputs."""

    def predict_proba_one(self, x):
        return {False: 1.0 - x["p"], True: x["p"]}

    def learn_one(self, x, y):
        pass


WRAPPERS = {
    "default": {},
    "horizon": {"horizon": 100},
    "buckets": {"n_buckets": 3},
    "window": {"window": 11},
}


@pytest.mark.parametrize("kind", WRAPPERS)
@settings(max_examples=examples(12), deadline=None)
@given(hinted_sequences(longest=60), st.integers(0, 3), shares)
def test_a_wrapper(switch, kind, played, late, at):
    def game():
        model = CalibratedClassifier(Said(), **WRAPPERS[kind])
        told, waiting = [], []
        for y, p in zip(*played, strict=True):
            told.append(model.predict_proba_one({"p": p}))
            waiting.append(({"p": p}, bool(y)))
            if len(waiting) > late:
                model.learn_one(*waiting.pop(0))
        return told, model.certificate, model.guarantee, pickle.dumps(model)

    check(switch, game, at)


@settings(max_examples=examples(8), deadline=None)
@given(hinted_sequences(longest=40), shares)
def test_groups_that_share_a_table(switch, played, at):
    def game():
        groups = {"low": lambda x: x["p"] < 0.5}
        model = GroupCalibratedClassifier(Said(), groups, scheme="shared")
        told = []
        for y, p in zip(*played, strict=True):
            told.append(model.predict_proba_one({"p": p}))
            model.learn_one({"p": p}, bool(y))
        return told

    check(switch, game, at)


@settings(max_examples=examples(25), deadline=None)
@given(hinted_sequences(longest=120), st.integers(0, 30), st.sampled_from([None, 100]), shares)
@pytest.mark.filterwarnings("ignore")
def test_columns(switch, played, late, horizon, at):
    outcomes, p = played
    rows, absent = np.arange(len(p)), np.where(np.arange(len(p)) % 7 == 3, np.nan, outcomes)

    def game():
        told = []
        for y in (outcomes, absent):
            result = recalibrate_stream(p, y, settled_at=rows + late, horizon=horizon, groups=rows % 2)
            told += [result.probabilities.tobytes(), result.certificate.tobytes(), result.guarantee]
        return told

    check(switch, game, at)


@settings(max_examples=examples(10), deadline=None)
@given(hinted_sequences(longest=60), shares)
@pytest.mark.filterwarnings("ignore")
def test_tables(switch, played, at):
    outcomes, p = played
    table = np.column_stack([p / 2, p / 2, 1.0 - p])

    def game():
        results = [recalibrate_stream(table, outcomes, strategy=kind) for kind in ("classwise", "top-label")]
        return [(x.probabilities.tobytes(), x.certificate.tobytes(), x.guarantee) for x in results]

    check(switch, game, at)


ENGINE = replace(CONFIG, default=KeyConfig(window=12, alarm=0.2))
"""Keys of every kind, those without a kind with a window and alarms."""


@settings(max_examples=examples(3), deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), shares)
def test_an_engine(switch, seed, most, at):
    lines = lines_of(script(seed, 120, keys=12))

    def game():
        with Engine(config=ENGINE, hot_keys=3, states_behind=40) as engine:
            answers = [engine.handle_lines(part) for part in batches(random.Random(seed), lines, most)]
            return answers, engine.total(), states_of(engine), engine._book.reliability.dump()

    check(switch, game, at)


def test_an_engine_that_is_interrupted_in_the_middle_of_a_batch_goes_on_from_before_it(switch, monkeypatch):
    """While a batch is interpreted, an interrupt finds it half done; none of it is in the ledger."""
    switch.at, switch.calls = 10**9, 0
    batch = [Query("b", "k", 0.4), Outcome("b", 0), Outcome("a", 1), Query("c", "k", 0.7)]

    def answers(stop):
        with Engine() as engine:
            engine.handle([Query("a", "k", 0.3)])
            if stop:
                with monkeypatch.context() as patch:
                    patch.setattr(playing, "take_in", interrupted)
                    with pytest.raises(KeyboardInterrupt):
                        engine.handle(batch)
            return engine.handle(batch), states_of(engine)

    def interrupted(state, ticket, outcome):
        state[0] = ticket[0] = 7.0
        raise KeyboardInterrupt

    assert answers(stop=True) == answers(stop=False)


def test_an_error_in_the_middle_of_a_round_leaves_everything_as_it_was():
    def half_a_round(memory, state, outcome):
        memory[0], state[0] = 7, 7.0
        raise KeyboardInterrupt

    entry = Entry(half_a_round, 2, ())
    arrays = np.zeros(3, np.int64), np.zeros(2)
    for kind in (entry, Entry(half_a_round, 2, rows=lambda *given: 1)):
        kind.makers = (int,)
        with pytest.raises(KeyboardInterrupt):
            kind.interpret((*arrays, 1))
        assert [array.any() for array in arrays] == [False, False]


def test_threads_on_one_forecaster_play_whole_rounds(switch):
    switch.at, switch.calls = 10**9, 0
    forecaster = AlmostOneStepAhead()
    settle = forecaster.machine.settle

    def play(number):
        for t in range(300):
            settle(forecaster.memory, *forecaster._coming(), float((t + number) % 2), 0.5)

    # so much room that the memory need not grow
    forecaster.memory = np.concatenate([forecaster.memory, np.zeros(20_000, np.int64)])
    threads = [threading.Thread(target=play, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert forecaster.n_rounds == 1200


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_fork_has_locks_that_nobody_holds_and_asks_for_itself(monkeypatch):
    entry = Entry(lambda memory: 0, 1, ())
    each = Beginning(beginning.Address("nowhere", "nothing"), {"entry": entry})
    monkeypatch.setitem(BEGINNINGS, each.address, each)
    entry.was_asked_for = True

    def is_new():
        return each.lock.acquire(blocking=False) and not entry.was_asked_for

    with each.lock, ThreadPoolExecutor(1) as other, beginning.PLAYING_TURN:
        assert not other.submit(is_new).result()
        child = os.fork()
        if child == 0:
            free = []
            taking = threading.Thread(
                target=lambda: free.append(beginning.PLAYING_TURN.acquire(blocking=False))
            )
            taking.start()
            taking.join()
            os._exit(0 if is_new() and free == [True] else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert not is_new()


def test_what_can_be_reached_by_its_address_is_what_is_there():
    kinds = {each.kind for each in BEGINNINGS.values()}
    assert len(kinds) > 6
    for address, each in list(BEGINNINGS.items()):
        assert address.reach() is each
        assert pickle.loads(pickle.dumps(address)) == address


def test_nobody_looks_whether_it_is_compiled_before_as_much_work_as_loading_takes(monkeypatch):
    looks = itertools.count()
    monkeypatch.setattr(beginning, "_at_once", 0)
    monkeypatch.setattr(Beginning, "compiled_form_of", lambda *given: next(looks) and None)
    each = Beginning(beginning.Address("nowhere", "nothing"), {})
    entry = Entry(lambda memory: 0, 1, (), seconds=1e-3, rows=len)
    entry.beginning, entry.name = each, "entry"
    entry(np.zeros(200))
    assert next(looks) == 0
    entry(np.zeros(300))
    assert next(looks) == 2
