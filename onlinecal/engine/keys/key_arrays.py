"""The arrays that keys in memory stand in. Binary keys are played, stored and loaded here, too.

Three write the arrays. Compiled code (`playing.py`) does when events are accepted and steps are taken; it
never makes an array longer. `KeyArrays` makes room, begins rows and frees them, and fills them in from what
was stored. The judge, the book and the key write what single events change outside compiled code: KEY,
WAITING, EXPIRED, LAST_EVENT, DIRTY and PLAIN of a key, its clock, and OWNER, NUMBER and the time of an open
forecast.

What always holds between two calls: the memories and windows of different lanes do not overlap in the heap,
and end before HEAP_USED. `keys[row]` is the owner of a row, or None for row 0, for a free row, and for one
that was made ahead for a new key. The open forecasts of a binary key are a list, from OLDEST_OPEN on by
AFTER, and from LATEST_OPEN back by BEFORE. A view of a memory holds until the heap is moved, so it is used at
once and not kept.

Rows, entries and places in the heap are never saved: they may change freely, as may how much room is made
ahead. What is saved is in `storing.py`. Like the book, the arrays have no lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import inf, nan
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec
import numpy as np
from numba import types
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import Address, Entry, interpreted_first
from onlinecal.elementary import in_turn
from onlinecal.engine.columns import none_for_nan
from onlinecal.engine.keys import playing
from onlinecal.engine.keys.playing import (
    AFTER,
    BEFORE,
    CELL_LOWER,
    CELL_WIDTH,
    EXPIRED,
    FLOAT_TABLE,
    FLOATS,
    HINTED,
    INT_TABLE,
    INTS,
    KEY,
    LANE_FIELDS,
    LANE_TYPES,
    LATE,
    LATEST_OPEN,
    LENGTH,
    MADE_BY,
    MOST_LANES,
    NEXT_LANE,
    NUMBER,
    OLDEST_OPEN,
    OPEN,
    OPEN_FIELDS,
    OWNER,
    PLAIN,
    SETTLED,
    START,
    STEERING_ROW,
    WAITING,
    WINDOW,
    WINDOW_LENGTH,
    LaneArrays,
    Steps,
    certificate_of,
    memory_of,
)
from onlinecal.engine.keys.storing import (
    STORING,
    StoredBinaryKey,
    WordReader,
    read_lanes,
    with_checksum,
)
from onlinecal.engine.settings import KeySettings
from onlinecal.engine.watch.account import (
    ACCOUNT_SIZE,
    BOUNDS,
    FORECAST,
    HINT,
    N_FIGURES,
    N_STAKES,
    fill_in_figures,
)
from onlinecal.engine.watch.key_watch import Alarm, Summary, last_alarm
from onlinecal.forecasters.binary.cells import FORMAT, ROUNDS, in_use
from onlinecal.forecasters.binary.compiled import certain_rounds, enlarged, machine_of
from onlinecal.forecasters.binary.soundness import check_cells, check_grid_memory
from onlinecal.forecasters.binary.windows import NO_ROUNDS, Window
from onlinecal.restoring import require
from onlinecal.steering.binary import TICKET
from onlinecal.steering.trust import SIZE, check_steering, new_steering
from onlinecal.version import STATE_FORMAT

SMALLEST = 64
"""Integers in the smallest memory that can grow; lanes, and rows of steering, that are made first."""
MOST_AT_ONCE = 256
"""So many lanes are made together at most."""
OPEN_ARRAYS = "open", "forecasts", "certificates", "hints", "times", "tickets", "stakes"
"""The arrays that have a row for each open forecast."""


def move_all(old: Ints, heap: Ints, fields: Ints, start: int, length: int, at: int) -> int:
    """Copy the memories, or the windows, of all lanes to another heap, one behind the other from `at` on.

    `start` and `length` are the fields that say where they are. Returns where they end.
    """
    for lane in range(len(fields)):
        size = fields[lane, length]
        for j in range(size):
            heap[at + j] = old[fields[lane, start] + j]
        fields[lane, start] = at
        at += size
    return at


def certify(arrays: LaneArrays, which: Ints, out: Floats) -> None:
    """The certificates of keys, given by their first lanes."""
    for k in range(len(which)):
        out[k] = certificate_of(arrays.heap, arrays.fields, which[k])


class ManyKeys:
    """What is done for many keys in one call: entry points, which are interpreted first."""

    move_all: ClassVar[Callable[[Ints, Ints, Ints, int, int, int], int]]
    certify: ClassVar[Callable[[LaneArrays, Ints, Floats], None]]
    fill_in_figures: ClassVar[Callable[[Floats, Ints, Floats], None]]


MANY_KEYS = interpreted_first(
    ManyKeys,
    Address(__name__, "MANY_KEYS"),
    move_all=Entry(
        move_all,
        0,
        (INTS, INTS, INT_TABLE, types.int64, types.int64, types.int64),
        seconds=1e-7,
        compiling=1.0,
        rows=lambda old, *_: len(old),
    ),
    certify=Entry(
        certify,
        0,
        (LANE_TYPES, INTS, FLOATS),
        seconds=2e-6,
        compiling=1.0,
        rows=lambda arrays, which, out: len(which),
    ),
    fill_in_figures=Entry(
        fill_in_figures,
        0,
        (FLOAT_TABLE, INTS, FLOAT_TABLE),
        seconds=3e-5,
        compiling=1.0,
        rows=lambda accounts, which, out: len(which),
    ),
)


class Owner(Protocol):
    """A key, as far as its arrays know it."""

    name: str
    settings: KeySettings
    first_lane: int


Key = TypeVar("Key", bound=Owner)


class KeyArrays(Generic[Key]):
    """The arrays that compiled code plays on, and the keys that own their rows.

    A binary key has a row for each of its lanes. A key of several classes has one row, for what all keys
    have.

    Attributes
    ----------
    state
        The arrays.
    keys
        The key that owns each row; None where the row is free.
    raised
        The alarms that were raised and not yet reported: key, side (FORECAST or HINT), alarm. The engine
        empties it when it has logged them, and so does each turn, which logs none.
    """

    def __init__(self) -> None:
        self.state = LaneArrays(
            heap=np.zeros(SMALLEST * SMALLEST, np.int64), fields=np.zeros((1, LANE_FIELDS), np.int64),
            steering=np.empty((0, SIZE)), accounts=np.empty((1, ACCOUNT_SIZE)), clocks=np.empty(1),
            open=np.zeros((0, OPEN_FIELDS), np.int64), forecasts=np.empty(0), certificates=np.empty(0),
            hints=np.empty(0), times=np.empty(0), tickets=np.empty((0, TICKET)),
            stakes=np.empty((0, N_STAKES), np.float32),
        )  # fmt: skip
        # row 0 belongs to no key: it stands where an event names none
        self.keys: list[Key | None] = [None]
        self.raised: list[tuple[str, int, Alarm]] = []
        self._free: list[int] = []
        self._free_rows: list[int] = []
        # lanes that were made ahead for new keys, and how many were made together last, by settings
        self._stock: dict[KeySettings, list[int]] = {}
        self._made: dict[KeySettings, int] = {}
        self._progress = np.zeros(5, np.int64)
        self._groups: dict[tuple[int, float], int] = {}
        self._plays: list[tuple[type[playing.Playing], float]] = []
        self._group_of = np.zeros(1, np.int64)
        self._new_steering = new_steering()

    # -- room

    def make_room_for(self, n_open: int) -> None:
        """Lengthen the arrays of open forecasts, so that `n_open` of them have a row."""
        if n_open > len(self.state.forecasts):
            self._lengthen(OPEN_ARRAYS, n_open)

    def _lengthen(self, names: Sequence[str], size: int) -> None:
        self.state = self.state._replace(**{name: longer(getattr(self.state, name), size) for name in names})

    def _take_lanes(self, number: int) -> Ints:
        free, held = self._free, len(self.keys)
        if len(free) < number:
            size = max(SMALLEST, 4 * held, held + number)
            self._lengthen(("fields", "accounts", "clocks"), size)
            self._group_of = longer(self._group_of, size)
            free[:0] = range(size - 1, held - 1, -1)
            self.keys += [None] * (size - held)
        return np.array([free.pop() for _ in range(number)], np.int64)

    def _take_heap(self, length: int) -> int:
        """Reserve so many integers of the heap; returns where they begin."""
        if self._progress[playing.HEAP_USED] + length > len(self.state.heap):
            self._compact_heap(length)
        start = int(self._progress[playing.HEAP_USED])
        self._progress[playing.HEAP_USED] += length
        return start

    def _compact_heap(self, more: int) -> None:
        """Move what is in use to a new heap, with room for `more` integers and as much again."""
        fields, old = self.state.fields, self.state.heap
        # what free lanes held is not moved
        fields[self._free, LENGTH] = fields[self._free, WINDOW_LENGTH] = 0
        used = int(fields[:, LENGTH].sum() + fields[:, WINDOW_LENGTH].sum())
        heap = np.zeros(2 * (used + more) + SMALLEST * SMALLEST, np.int64)
        end = MANY_KEYS.move_all(old, heap, fields, START, LENGTH, 0)
        self._progress[playing.HEAP_USED] = MANY_KEYS.move_all(old, heap, fields, WINDOW, WINDOW_LENGTH, end)
        self.state = self.state._replace(heap=heap)

    def _put(self, start: int, length: int, lane: int, array: Ints, room: int) -> None:
        """Give a lane another memory, or window, with room for so many integers."""
        at, fields = self._take_heap(room), self.state.fields
        self.state.heap[at : at + len(array)], self.state.heap[at + len(array) : at + room] = array, 0
        fields[lane, start], fields[lane, length] = at, room

    def memory(self, lane: int) -> Ints:
        """A view of a lane's memory, valid until the heap changes."""
        return memory_of(self.state, lane)

    def window(self, lane: int) -> Window | None:
        """A copy of a lane's window; None if it has none."""
        start, length = self.state.fields[lane, [WINDOW, WINDOW_LENGTH]].tolist()
        if not length:
            return None
        window = Window.__new__(Window)
        window.table = self.state.heap[start : start + length].copy()
        return window

    # -- lanes

    def new_first_lane(self, key: Key, number: int) -> int:
        """The first lane of a new key, which has this number in the ledger; 0 if it has none yet."""
        settings = key.settings
        stock = self._stock.setdefault(settings, [])
        if not stock:
            # the more there are, the more are made at a time: making one costs as much as making twenty
            self._made[settings] = min(MOST_AT_ONCE, 2 * self._made.get(settings, 0) + 1)
            stock += self._new_lanes(settings, self._made[settings]).tolist()
        lane = stock.pop()
        self.keys[lane] = key
        if number:
            self.state.fields[lane, KEY] = number
        return lane

    def _new_lanes(self, settings: KeySettings, number: int) -> Ints:
        lanes = self._take_lanes(number)
        fields, state = self.state.fields, self.state
        fields[lanes] = 0
        for field in (NEXT_LANE, OLDEST_OPEN, LATEST_OPEN):
            fields[lanes, field] = -1
        fields[lanes, STEERING_ROW] = playing.NOT_STEERED_YET if settings.steers else playing.NOT_STEERED
        fields[lanes, MOST_LANES], fields[lanes, PLAIN] = settings.config.lanes, settings.plain
        state.accounts[lanes], state.clocks[lanes] = 0.0, nan
        if not settings.is_binary:
            return lanes
        model = settings.kind.model
        begun = in_use(model.memory)
        length = room_of(begun)
        start = self._take_heap(number * length)
        rows = self.state.heap[start : start + number * length].reshape(number, length)
        rows[:, : len(begun)], rows[:, len(begun) :] = begun, 0
        fields[lanes, START], fields[lanes, LENGTH] = start + length * np.arange(number), length
        self._group_of[lanes] = self._group(settings)
        if model.window is not None:
            for lane in lanes.tolist():
                self._put_window(lane, Window.holding(model.window, self.memory(lane), NO_ROUNDS))
        return lanes

    def _put_window(self, lane: int, window: Window) -> None:
        self._put(WINDOW, WINDOW_LENGTH, lane, window.table, len(window.table))

    def _group(self, settings: KeySettings) -> int:
        """The number of the group of lanes that share a kernel and a threshold of alarms."""
        memory = settings.kind.model.memory
        group = int(memory[FORMAT]), settings.threshold
        if group not in self._groups:
            self._groups[group] = len(self._plays)
            self._plays.append((playing.playing(group[0]), group[1]))
        return self._groups[group]

    def lanes_of(self, first_lane: int) -> list[int]:
        """All lanes of a key, which is given by its first one."""
        lanes = [first_lane]
        while (lane := int(self.state.fields[lanes[-1], NEXT_LANE])) >= 0:
            lanes.append(lane)
        return lanes

    def entries_of(self, first_lane: int) -> list[int]:
        """The open forecasts of a key, the oldest first."""
        entries, entry = [], int(self.state.fields[first_lane, OLDEST_OPEN])
        while entry >= 0:
            entries.append(entry)
            entry = int(self.state.open[entry, AFTER])
        return entries

    def let_go(self, first_lanes: list[int]) -> None:
        """Free the rows of keys, which are given by their first lanes."""
        for first in first_lanes:
            row = int(self.state.fields[first, STEERING_ROW])
            if row >= 0:
                self._free_rows.append(row)
            for lane in self.lanes_of(first):
                self.keys[lane] = None
                self._free.append(lane)

    def _begin_steering(self, first_lanes: Ints) -> None:
        free, number = self._free_rows, len(first_lanes)
        if len(free) < number:
            held = len(self.state.steering)
            size = max(SMALLEST, 4 * held, held + number)
            self._lengthen(("steering",), size)
            free[:0] = range(size - 1, held - 1, -1)
        rows = [free.pop() for _ in range(number)]
        self.state.fields[first_lanes, STEERING_ROW] = rows
        self.state.steering[rows] = self._new_steering

    # -- steps

    def run(self, steps: Steps) -> int:
        """Take steps; returns the most rounds that any lane has settled.

        Raises ValueError if a memory's integers bear no more.
        """
        if len(self._plays) == 1:
            self._run(steps, 0)
        else:
            groups = self._group_of[self.state.open[steps.entries, OWNER]]
            for group in np.unique(groups).tolist():
                which = groups == group
                self._run(Steps(*(column[which] for column in steps)), group)
        return int(self._progress[playing.LONGEST])

    def _steer(self, steps: Steps) -> None:
        """Give a row of steering to each key that gets its first hint in these steps."""
        asks = (steps.outcomes == playing.ASKED) & (steps.hints == steps.hints)
        asked = self.state.open[steps.entries[asks], OWNER]
        self._begin_steering(
            np.unique(asked[self.state.fields[asked, STEERING_ROW] == playing.NOT_STEERED_YET])
        )

    def key_of(self, lane: int) -> Key:
        """The key that owns a row."""
        key = self.keys[lane]
        assert key is not None
        return key

    def _run(self, steps: Steps, group: int) -> None:
        lanes, threshold = self._plays[group]
        progress = self._progress
        progress[playing.STEPS_DONE] = 0
        while how := lanes.play(self.state, steps, progress, threshold):
            lane = int(progress[playing.WAITING_LANE])
            if how == playing.ALARM:
                self._raise(lane, int(progress[playing.ALARMED]))
            elif how == playing.NO_MEMORY:
                self._compact_heap(2 * int(self.state.fields[lane, LENGTH]))
            elif how == playing.SPENT:
                enlarged(self.memory(lane))
            elif how == playing.NO_LANE:
                self._add_lane(self.key_of(lane))
            elif how == playing.NO_WINDOW:
                first = int(self.state.open[steps.entries[progress[playing.STEPS_DONE]], OWNER])
                window = self.window(lane)
                assert window is not None
                memory = self.memory(lane)
                window.prepare(memory, int(memory[ROUNDS]), int(self.state.fields[first, SETTLED]) + 1)
                self._put_window(lane, window)
            elif how == playing.NO_STEERING_ROW:
                self._steer(steps)
            elif how == playing.TOO_COARSE:
                self._refine(lane)

    def _add_lane(self, key: Key) -> int:
        [new] = self._new_lanes(key.settings, 1).tolist()
        self.keys[new], self.state.fields[self.lanes_of(key.first_lane)[-1], NEXT_LANE] = key, new
        return int(new)

    def _refine(self, lane: int) -> None:
        """Give a lane, and its window, units that are fine enough for outcomes between 0 and 1."""
        memory = self.key_of(lane).settings.kind.model._refined(self.memory(lane))
        self._put(START, LENGTH, lane, memory, len(memory))
        window = self.window(lane)
        if window is not None:
            window.suit(memory)
            self._put_window(lane, window)

    def _raise(self, first_lane: int, sides: int) -> None:
        for side in (FORECAST, HINT):
            alarm = last_alarm(self.state.accounts[first_lane], side)
            if sides >> side & 1 and alarm is not None:
                self.raised.append((self.key_of(first_lane).name, side, alarm))

    def is_spent(self, first_lane: int, reserve: int) -> bool:
        """Whether the integers of some lane of a key bear fewer rounds than `reserve`, after so many."""
        memories = map(self.memory, self.lanes_of(first_lane))
        return any(memory[ROUNDS] > reserve and certain_rounds(memory) < reserve for memory in memories)

    # -- states

    def window_bounds(self, key: Key) -> tuple[float | None, float | None]:
        """The certificate of a key's last `window` settled rounds, and the guarantee of any so many in a row.

        Each lane has settled some of these rounds. By Fact 4 the bounds for the lanes add up.
        """
        model = key.settings.kind.model
        if model.window is None:
            return None, None
        lanes = self.lanes_of(key.first_lane)
        memories, late = list(map(self.memory, lanes)), self.state.fields[lanes, LATE].tolist()
        windows, now = map(self.window, lanes), int(self.state.fields[key.first_lane, SETTLED])
        proven = in_turn(w.certificate(m, now) for w, m in zip(windows, memories, strict=True) if w)
        promises = [
            model._window_promise_of(memory, 0 if place else model.window, others)
            for place, (memory, others) in enumerate(zip(memories, late, strict=True))
        ]
        return float(proven), None if None in promises else float(in_turn(promises))

    def dump(self, keys: list[Key], ids: list[str]) -> list[bytes]:
        """The states of keys with the same settings; `ids` are those of open forecasts, by entry."""
        first_lanes = np.array([key.first_lane for key in keys], np.int64)
        expired, waiting = self.state.fields[first_lanes][:, [EXPIRED, WAITING]].T
        words = np.empty(STORING.most_words(self.state, first_lanes), np.int64)
        ends, open_ends = np.empty((2, len(keys)), np.int64)
        entries = np.empty(waiting.sum(), np.int64)
        betting = keys[0].settings.threshold < inf
        STORING.gather(self.state, first_lanes, betting, words, ends, entries, open_ends)
        clocks = none_for_nan(self.state.clocks[first_lanes].tolist())
        heads = clocks, expired.tolist(), np.diff(ends, prepend=0).tolist()
        out = np.empty(9 * int(ends[-1]) + len(keys), np.uint8)
        STORING.pack(words, ends, out)
        spans, open_spans = pairwise([0, *ends.tolist()]), pairwise([0, *open_ends.tolist()])
        data, of_open, dumped = out.data, entries.tolist(), []
        for *head, length, (start, end), (first, last) in zip(*heads, spans, open_spans, strict=True):
            own = [ids[entry] for entry in of_open[first:last]]
            stored = STATE_FORMAT, *head, own, length, data[start:end]
            dumped.append(with_checksum(_encoder.encode(stored)))
        return dumped

    def written(self, keys: list[Key]) -> list[Summary]:
        """The summaries of keys with the same settings, without their alarms and scores."""
        first_lanes = np.array([key.first_lane for key in keys], np.int64)
        counts, certificates, guarantees = self._bounds(keys[0].settings, first_lanes)
        first = self.state.fields[first_lanes, OLDEST_OPEN].tolist()
        oldest = [None if entry < 0 else int(self.state.open[entry, NUMBER]) for entry in first]
        columns: list[Any] = [column.tolist() for column in (*counts, certificates, guarantees)]
        windows = zip(*map(self.window_bounds, keys), strict=True)
        return list(map(Summary, *columns, oldest, *windows))

    def figures(self, keys: list[Key]) -> Floats:
        """What is summed of keys with the same settings, (n, N_FIGURES), see engine/watch/account.py."""
        first_lanes = np.array([key.first_lane for key in keys], np.int64)
        rows = np.empty((len(keys), N_FIGURES))
        counts, *bounds = self._bounds(keys[0].settings, first_lanes)
        rows[:, BOUNDS : BOUNDS + 5] = np.column_stack([*counts, *bounds])
        MANY_KEYS.fill_in_figures(self.state.accounts, first_lanes, rows)
        return rows

    def _bounds(self, settings: KeySettings, first_lanes: Ints) -> tuple[Ints, Floats, Floats]:
        """Of keys: rounds, open and expired forecasts, (3, n); certificates; guarantees."""
        counts = self.state.fields[first_lanes][:, [SETTLED, WAITING, EXPIRED]].T
        certificates, guarantees = np.empty(len(first_lanes)), np.zeros(len(first_lanes))
        MANY_KEYS.certify(self.state, first_lanes, certificates)
        # of each key the first lane, then its second one where there is one, and so on
        lanes, owners = first_lanes, np.arange(len(first_lanes))
        while len(lanes):
            guarantees[owners] += settings.kind.promises(self.state, lanes)
            following = self.state.fields[lanes, NEXT_LANE]
            lanes, owners = following[following >= 0], owners[following >= 0]
        return counts, certificates, guarantees

    def load(self, key: Key, stored: StoredBinaryKey, entries: list[int]) -> tuple[list[int], list[float]]:
        """Take up a stored key; its open forecasts get these entries. ValueError if it makes no sense.

        Returns the numbers of their queries, and when they were asked for.
        """
        settings, model = key.settings, key.settings.kind.model
        words = WordReader(stored)
        lanes, n_open, steered = read_lanes(words)
        steering, account = words.steering() if steered else None, words.floats(ACCOUNT_SIZE)
        require(n_open == len(entries), "its open forecasts")
        ints, floats = np.empty((n_open, 5), np.int64), np.empty((n_open, 4))
        for i, entry in enumerate(entries):
            ints[i], floats[i] = words.ints(5), words.floats(4)
            if ints[i, 4]:
                self.state.tickets[entry] = words.floats(TICKET)
            self.state.stakes[entry] = words.stakes() if settings.threshold < inf else 0.0
        words.end()
        makers, numbers, lower, width, hinted = ints.T
        forecasts, certificates, hints, times = floats.T
        require(0 < len(lanes) <= settings.config.lanes, "its lanes")
        require(bool(((makers >= 0) & (makers < len(lanes))).all()), "its lanes")
        known_hints = hints[hints == hints]
        require(bool(((known_hints >= 0.0) & (known_hints <= 1.0)).all()), "its open forecasts")
        require(bool((np.diff(numbers) > 0).all()), "its open forecasts")
        require(settings.steers if steered else not hinted.any(), "its steering")
        rows = [key.first_lane]
        for place, (late, memory, rounds) in enumerate(lanes):
            check_grid_memory(memory, model.memory, model._slack)
            own = makers == place
            check_cells(zip(ints[own, 2:4].tolist(), forecasts[own].tolist(), strict=True), memory)
            require(certain_rounds(memory) >= int(own.sum()) and late >= 0, "its rounds")
            require(model.window is not None or not len(rounds), "its window")
            if place:
                rows.append(self._add_lane(key))
            if model.window is not None:
                self._put_window(rows[place], Window.holding(model.window, memory, rounds))
            self._put(START, LENGTH, rows[place], memory, room_of(memory))
            self.state.fields[rows[place], [LATE, OPEN]] = late, own.sum()
        state, first, opened = self.state, key.first_lane, self.state.open
        state.fields[first, SETTLED] = sum(int(memory[ROUNDS]) for _, memory, _ in lanes)
        state.accounts[first] = account
        if steering is not None:
            waiting = [entry for entry, has_ticket in zip(entries, hinted, strict=True) if has_ticket]
            check_steering(steering, state.tickets[waiting])
            self._begin_steering(np.array([first]))
            self.state.steering[state.fields[first, STEERING_ROW]] = steering
        opened[entries, MADE_BY], opened[entries, HINTED] = np.array(rows)[makers], hinted != 0
        opened[entries, CELL_LOWER], opened[entries, CELL_WIDTH] = lower, width
        opened[entries, BEFORE] = [-1, *entries][:-1]
        opened[entries, AFTER] = [*entries, -1][1:]
        if entries:
            state.fields[first, [OLDEST_OPEN, LATEST_OPEN]] = entries[0], entries[-1]
        state.forecasts[entries], state.certificates[entries] = forecasts, certificates
        state.hints[entries] = hints
        return numbers.tolist(), times.tolist()


def room_of(memory: NDArray[np.int64]) -> int:
    """How many integers of the heap a memory gets: some are spare if it can grow."""
    room = int(machine_of(memory).rules.room_of(memory))
    return room if room == len(memory) else max(SMALLEST, room)


def longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    """A copy of an array with `size` rows; the new rows are 0."""
    copy = np.zeros((size, *array.shape[1:]), array.dtype)
    copy[: len(array)] = array
    return copy


_encoder = msgspec.msgpack.Encoder()
