"""What keys in memory hold, in arrays; of binary keys also their steps and their states."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf, nan
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from onlinecal.arrays import Floats, Ints
from onlinecal.compiling import at_once, compiled
from onlinecal.engine.columns.columns import optional
from onlinecal.engine.keys import playing
from onlinecal.engine.keys.key import Summary
from onlinecal.engine.keys.playing import (
    AFTER,
    ALARM,
    ASKS,
    BEFORE,
    BY,
    CELL,
    COARSE,
    EXPIRED,
    FIELDS,
    FIRST,
    HEAP_USED,
    HINTED,
    KEPT,
    KEY,
    LANE,
    LAST,
    LATE,
    LENGTH,
    LONGEST,
    LOWER,
    MOST_LANES,
    NEXT_LANE,
    NO_LANE,
    NO_MEMORY,
    NO_ROW,
    NO_ROW_YET,
    NO_WINDOW,
    NOT_STEERED,
    NUMBER,
    OPEN,
    OWNER,
    PLAIN,
    ROW,
    SETTLED,
    SPENT,
    START,
    STEP,
    TABLE,
    TABLE_LENGTH,
    WAITING,
    WHOSE,
    Players,
    Steps,
    certificate_of,
)
from onlinecal.engine.keys.storing import Parts, gather, most_words, pack, with_sum
from onlinecal.engine.watch.account import FORECAST, HINT
from onlinecal.engine.watch.account import SIZE as ACCOUNT
from onlinecal.engine.watch.account import TICKET as STAKES
from onlinecal.engine.watch.key_watch import Raised, last_alarm
from onlinecal.forecasters.binary.cells import FORMAT, ROUNDS
from onlinecal.forecasters.binary.compiled import MACHINES, certain_rounds, enlarged
from onlinecal.forecasters.binary.grids.dyadic_accounts import FORMAT_DYADIC
from onlinecal.forecasters.binary.soundness import check_cells, check_grid_memory, require
from onlinecal.forecasters.binary.windowing.windows import NO_ROUNDS, Window
from onlinecal.steering.binary import TICKET
from onlinecal.steering.trust import SIZE, check_steering, new_steering
from onlinecal.version import STATE_FORMAT

if TYPE_CHECKING:
    from onlinecal.engine.keys.binary_key import BinaryKey
    from onlinecal.engine.keys.key import Key
    from onlinecal.engine.settings import Settings

FEW = 64
"""Integers of the smallest memory that can grow; players and rows that there is room for at first."""
MOST_AT_ONCE = 256
"""Players that are made together, at most."""
OF_OPEN = "open", "forecasts", "certificates", "hints", "times", "tickets", "stakes"
"""What is kept of open forecasts."""


@compiled
def move_all(old: Ints, heap: Ints, fields: Ints, start: int, length: int, at: int) -> int:
    """Copy memories, or tables, to another heap one behind the other from `at` on; where they end.

    `start` and `length` are the fields that say where they are.
    """
    for player in range(len(fields)):
        size = fields[player, length]
        for j in range(size):
            heap[at + j] = old[fields[player, start] + j]
        fields[player, start] = at
        at += size
    return at


@compiled
def certify(players: Players, which: Ints, out: Floats) -> None:
    """The certificates of keys, given by their first lanes."""
    for k in range(len(which)):
        out[k] = certificate_of(players.heap, players.fields, which[k])


class KeyArrays:
    """The keys, by player, and the arrays that compiled code plays on. A key of several classes has a player,
    too,
    which holds only what all keys have.

    Attributes
    ----------
    state
        The arrays.
    keys
        Whose player each one is; None for one that is free.
    raised
        Alarms that nobody has been told of yet, with the names of their keys.
    """

    def __init__(self) -> None:
        self.state = Players(
            heap=np.zeros(FEW * FEW, np.int64), fields=np.zeros((1, FIELDS), np.int64), steering=np.empty((0,
            SIZE)), accounts=np.empty((1, ACCOUNT)), clocks=np.empty(1), open=np.zeros((0, KEPT), np.int64),
            forecasts=np.empty(0), certificates=np.empty(0), hints=np.empty(0), times=np.empty(0),
            tickets=np.empty((0, TICKET)), stakes=np.empty((0, STAKES), np.float32),
        )  # fmt: skip
        # nobody is the player 0
        self.keys: list[Key | None] = [None]
        self.raised: list[tuple[str, Raised]] = []
        self._free: list[int] = []
        self._free_rows: list[int] = []
        # players with new memories that wait for keys, by settings
        self._stock: dict[Settings, list[int]] = {}
        self._progress = np.zeros(5, np.int64)
        self._groups: dict[tuple[int, float], int] = {}
        self._plays: list[tuple[Any, float]] = []
        self._group_of = np.zeros(1, np.int64)
        self._new_steering = new_steering()
        self._gather, self._pack, self._measure = at_once(gather), at_once(pack), at_once(most_words)
        self._certify = at_once(certify)

    # -- room

    def make_room_for(self, n_open: int) -> None:
        """See to it that open forecasts may have numbers below this."""
        if n_open > len(self.state.forecasts):
            self._lengthen(OF_OPEN, n_open)

    def _lengthen(self, names: Sequence[str], size: int) -> None:
        self.state = self.state._replace(**{name: longer(getattr(self.state, name), size) for name in names})

    def _take_players(self, number: int) -> Ints:
        """Numbers of so many new players."""
        free, held = self._free, len(self.keys)
        if len(free) < number:
            size = max(FEW, 4 * held, held + number)
            self._lengthen(("fields", "accounts", "clocks"), size)
            self._group_of = longer(self._group_of, size)
            free[:0] = range(size - 1, held - 1, -1)
            self.keys += [None] * (size - held)
        return np.array([free.pop() for _ in range(number)], np.int64)

    def _take_heap(self, length: int) -> int:
        """Where so many integers of the heap begin, which are free from now on."""
        if self._progress[HEAP_USED] + length > len(self.state.heap):
            self._clear_heap(length)
        start = int(self._progress[HEAP_USED])
        self._progress[HEAP_USED] += length
        return start

    def _clear_heap(self, more: int) -> None:
        """Move all together, with room for so many integers, and at least as many again."""
        fields, old = self.state.fields, self.state.heap
        # what players had that are gone
        fields[self._free, LENGTH] = fields[self._free, TABLE_LENGTH] = 0
        used = int(fields[:, LENGTH].sum() + fields[:, TABLE_LENGTH].sum())
        heap = np.zeros(2 * (used + more) + FEW * FEW, np.int64)
        end = move_all(old, heap, fields, START, LENGTH, 0)
        self._progress[HEAP_USED] = move_all(old, heap, fields, TABLE, TABLE_LENGTH, end)
        self.state = self.state._replace(heap=heap)

    def _put(self, start: int, length: int, player: int, array: Ints, room: int) -> None:
        """Let a player have another memory, or table, with room for so many integers."""
        at, fields = self._take_heap(room), self.state.fields
        self.state.heap[at : at + len(array)], self.state.heap[at + len(array) : at + room] = array, 0
        fields[player, start], fields[player, length] = at, room

    def memory(self, player: int) -> Ints:
        """A player's memory, as long as nothing else happens here."""
        start, length = self.state.fields[player, [START, LENGTH]].tolist()
        return self.state.heap[start : start + length]

    def window(self, player: int) -> Window | None:
        """A copy of its window; None if it has none."""
        start, length = self.state.fields[player, [TABLE, TABLE_LENGTH]].tolist()
        if not length:
            return None
        window = Window.__new__(Window)
        window.table = self.state.heap[start : start + length].copy()
        return window

    # -- players

    def new_player(self, key: Key, number: int) -> int:
        """A player for a new key with this number in the ledger: its first lane."""
        settings = key.settings
        stock = self._stock.setdefault(settings, [])
        if not stock:
            # more at a time the more there are: one alone costs as much as some twenty
            settings.keys_made = min(MOST_AT_ONCE, 2 * settings.keys_made + 1)
            stock += self._new_lanes(settings, settings.keys_made).tolist()
        player = stock.pop()
        self.keys[player] = key
        if number:
            self.state.fields[player, KEY] = number
        return player

    def _new_lanes(self, settings: Settings, number: int) -> Ints:
        """New lanes of keys with these settings."""
        players = self._take_players(number)
        fields, state = self.state.fields, self.state
        fields[players] = 0
        for field in (NEXT_LANE, FIRST, LAST):
            fields[players, field] = -1
        fields[players, ROW] = NO_ROW_YET if settings.steers else NOT_STEERED
        fields[players, MOST_LANES], fields[players, PLAIN] = settings.most_lanes, settings.plain
        state.accounts[players], state.clocks[players] = 0.0, nan
        if not settings.is_binary:
            return players
        model = settings.kind.model
        begun = model.machine.rules.in_use(model.memory)
        length = room_of(begun)
        start = self._take_heap(number * length)
        rows = self.state.heap[start : start + number * length].reshape(number, length)
        rows[:, : len(begun)], rows[:, len(begun) :] = begun, 0
        fields[players, START], fields[players, LENGTH] = start + length * np.arange(number), length
        self._group_of[players] = self._group(settings)
        if model.window is not None:
            for player in players.tolist():
                self._put_window(player, Window.holding(model.window, self.memory(player), NO_ROUNDS))
        return players

    def _put_window(self, player: int, window: Window) -> None:
        self._put(TABLE, TABLE_LENGTH, player, window.table, len(window.table))

    def _group(self, settings: Settings) -> int:
        """Players of one group are played by one kernel, with one threshold of alarms."""
        group = int(settings.kind.model.memory[FORMAT]), settings.threshold
        if group not in self._groups:
            self._groups[group] = len(self._plays)
            rules = MACHINES[group[0]].rules
            # choosing among versions by the types of so many arrays takes longer than a step
            self._plays.append((at_once(playing.playing(rules)), group[1]))
        return self._groups[group]

    def lanes_of(self, player: int) -> list[int]:
        """The lanes of a key, by its first one."""
        lanes = [player]
        while (lane := int(self.state.fields[lanes[-1], NEXT_LANE])) >= 0:
            lanes.append(lane)
        return lanes

    def entries_of(self, player: int) -> list[int]:
        """The open forecasts of a key, the oldest first."""
        entries, entry = [], int(self.state.fields[player, FIRST])
        while entry >= 0:
            entries.append(entry)
            entry = int(self.state.open[entry, AFTER])
        return entries

    def let_go(self, players: list[int]) -> None:
        """Forget keys, by their first lanes."""
        for player in players:
            row = int(self.state.fields[player, ROW])
            if row >= 0:
                self._free_rows.append(row)
            for lane in self.lanes_of(player):
                self.keys[lane] = None
                self._free.append(lane)

    def _begin_steering(self, players: Ints) -> None:
        """Steer the hints of keys from now on."""
        free, number = self._free_rows, len(players)
        if len(free) < number:
            held = len(self.state.steering)
            size = max(FEW, 4 * held, held + number)
            self._lengthen(("steering",), size)
            free[:0] = range(size - 1, held - 1, -1)
        rows = [free.pop() for _ in range(number)]
        self.state.fields[players, ROW] = rows
        self.state.steering[rows] = self._new_steering

    # -- steps

    def run(self, steps: Steps) -> int:
        """Take steps; the most rounds that any player has settled.

        Raises ValueError if a memory's integers bear no more.
        """
        if len(self._plays) == 1:
            self._run(steps, 0)
        else:
            groups = self._group_of[self.state.open[steps.entries, OWNER]]
            for group in np.unique(groups).tolist():
                which = groups == group
                self._run(Steps(*(one[which] for one in steps)), group)
        return int(self._progress[LONGEST])

    def _steer(self, steps: Steps) -> None:
        """Make rows of steering for all keys that have their first hints in these steps."""
        asks = (steps.outcomes == ASKS) & (steps.hints == steps.hints)
        asked = self.state.open[steps.entries[asks], OWNER]
        self._begin_steering(np.unique(asked[self.state.fields[asked, ROW] == NO_ROW_YET]))

    def _key(self, player: int) -> Key:
        key = self.keys[player]
        assert key is not None
        return key

    def _run(self, steps: Steps, group: int) -> None:
        play, threshold = self._plays[group]
        progress = self._progress
        progress[STEP] = 0
        while how := play(self.state, steps, progress, threshold):
            lane = int(progress[LANE])
            if how == ALARM:
                self._raise(lane, int(progress[WHOSE]))
            elif how == NO_MEMORY:
                self._clear_heap(2 * int(self.state.fields[lane, LENGTH]))
            elif how == SPENT:
                enlarged(self.memory(lane))
            elif how == NO_LANE:
                self._add_lane(self._key(lane))
            elif how == NO_WINDOW:
                first = int(self.state.open[steps.entries[progress[STEP]], OWNER])
                window = self.window(lane)
                assert window is not None
                memory = self.memory(lane)
                window.prepare(memory, int(memory[ROUNDS]), int(self.state.fields[first, SETTLED]) + 1)
                self._put_window(lane, window)
            elif how == NO_ROW:
                self._steer(steps)
            elif how == COARSE:
                self._refine(lane)

    def _add_lane(self, key: Key) -> int:
        """One more lane of a key."""
        [new] = self._new_lanes(key.settings, 1).tolist()
        self.keys[new], self.state.fields[self.lanes_of(key.player)[-1], NEXT_LANE] = key, new
        return int(new)

    def _refine(self, lane: int) -> None:
        """Make a memory ready for outcomes that are neither 0 nor 1; its window goes over to its units."""
        memory = self._key(lane).settings.kind.model._refined(self.memory(lane))
        self._put(START, LENGTH, lane, memory, len(memory))
        window = self.window(lane)
        if window is not None:
            window.suit(memory)
            self._put_window(lane, window)

    def _raise(self, player: int, whose: int) -> None:
        for side in (FORECAST, HINT):
            alarm = last_alarm(self.state.accounts[player], side)
            if whose >> side & 1 and alarm is not None:
                self.raised.append((self._key(player).name, Raised(side, alarm)))

    def is_spent(self, player: int, reserve: int) -> bool:
        """Whether a lane bears fewer rounds than the reserve; it cannot before so many were settled."""
        memories = map(self.memory, self.lanes_of(player))
        return any(one[ROUNDS] > reserve and certain_rounds(one) < reserve for one in memories)

    # -- states

    def dump(self, keys: list[BinaryKey], ids: list[str]) -> list[bytes]:
        """Keys with the same settings as they are stored; `ids` are those of open forecasts, by entry."""
        players = np.array([key.player for key in keys], np.int64)
        expired, waiting = self.state.fields[players][:, [EXPIRED, WAITING]].T
        words = np.empty(self._measure(self.state, players), np.int64)
        ends, open_ends = np.empty((2, len(keys)), np.int64)
        entries = np.empty(waiting.sum(), np.int64)
        betting = keys[0].settings.threshold < inf
        self._gather(self.state, players, betting, words, ends, entries, open_ends)
        clocks = optional(self.state.clocks[players].tolist())
        heads = clocks, expired.tolist(), np.diff(ends, prepend=0).tolist()
        out = np.empty(9 * int(ends[-1]) + len(keys), np.uint8)
        self._pack(words, ends, out)
        spans, told = pairwise([0, *ends.tolist()]), pairwise([0, *open_ends.tolist()])
        data, of_open, found = out.data, entries.tolist(), []
        for clock, gone, length, (start, end), (first, last) in zip(*heads, spans, told, strict=True):
            own = [ids[entry] for entry in of_open[first:last]]
            found.append(with_sum(_encoder.encode((STATE_FORMAT, clock, gone, own, length, data[start:end]))))
        return found

    def written(self, keys: list[BinaryKey]) -> list[Summary]:
        """What there is to know of keys with the same settings, without what came of watching them."""
        players = np.array([key.player for key in keys], np.int64)
        rounds, waiting, expired, first = self.state.fields[players][:, [SETTLED, WAITING, EXPIRED, FIRST]].T
        certificates, guarantees = np.empty(len(keys)), np.zeros(len(keys))
        self._certify(self.state, players, certificates)
        # of each key the first lane, then its second one where there is one, and so on
        lanes, whose = players, np.arange(len(keys))
        while len(lanes):
            guarantees[whose] += keys[0].settings.kind.promises(self, lanes)
            following = self.state.fields[lanes, NEXT_LANE]
            lanes, whose = following[following >= 0], whose[following >= 0]
        oldest = [None if entry < 0 else int(self.state.open[entry, NUMBER]) for entry in first.tolist()]
        columns: list[Any] = [one.tolist() for one in (rounds, waiting, expired, certificates, guarantees)]
        windows = zip(*(key.window_bounds() for key in keys), strict=True)
        return list(map(Summary, *columns, oldest, *windows))

    def load(self, key: BinaryKey, parts: Parts, entries: list[int]) -> None:
        """Let a key go on from its state, its open forecasts with these numbers; ValueError if it cannot."""
        settings = key.settings
        model, window = settings.kind.model, settings.kind.model.window
        lanes, told = parts.lanes, parts.open
        require(0 < len(lanes) <= settings.most_lanes, "its lanes")
        require(bool(((told.lanes >= 0) & (told.lanes < len(lanes))).all()), "its lanes")
        windows = []
        for place, lane in enumerate(lanes):
            check_grid_memory(lane.memory, model)
            own = told.lanes == place
            check_cells(zip(told.cells[own].tolist(), told.forecasts[own].tolist(), strict=True), lane.memory)
            require(certain_rounds(lane.memory) >= int(own.sum()) and lane.late >= 0, "its rounds")
            require(window is not None or not len(lane.rounds), "its window")
            windows.append(None if window is None else Window.holding(window, lane.memory, lane.rounds))
        hints = told.hints[told.hints == told.hints]
        require(bool(((hints >= 0.0) & (hints <= 1.0)).all()), "its open forecasts")
        require(bool((np.diff(told.numbers) > 0).all()), "its open forecasts")
        require(parts.steering is not None or not told.hinted.any(), "its steering")
        if parts.steering is not None:
            require(settings.steers, "its steering")
            check_steering(parts.steering, told.tickets)
        players = [key.player, *(self._add_lane(key) for _ in lanes[1:])]
        for player, lane, held in zip(players, lanes, windows, strict=True):
            self._put(START, LENGTH, player, lane.memory, room_of(lane.memory))
            if held is not None:
                self._put_window(player, held)
        state, fields = self.state, self.state.fields
        fields[players, LATE] = [lane.late for lane in lanes]
        fields[players, OPEN] = np.bincount(told.lanes, minlength=len(lanes))
        fields[key.player, SETTLED] = sum(int(lane.memory[ROUNDS]) for lane in lanes)
        state.accounts[key.player] = parts.account
        if parts.steering is not None:
            self._begin_steering(np.array([key.player]))
            self.state.steering[fields[key.player, ROW]] = parts.steering
        if entries:
            self._load_open(key.player, np.array(players)[told.lanes], parts, np.array(entries))

    def _load_open(self, player: int, by: Ints, parts: Parts, entries: Ints) -> None:
        state, told, kept = self.state, parts.open, self.state.open
        kept[entries, BY] = by
        kept[entries, LOWER], kept[entries, CELL] = told.cells.T
        kept[entries, HINTED] = told.hinted
        kept[entries[1:], BEFORE], kept[entries[:-1], AFTER] = entries[:-1], entries[1:]
        kept[entries[0], BEFORE] = kept[entries[-1], AFTER] = -1
        state.fields[player, FIRST], state.fields[player, LAST] = entries[0], entries[-1]
        for name in ("forecasts", "certificates", "hints", "stakes"):
            getattr(state, name)[entries] = getattr(told, name)
        state.tickets[entries[told.hinted]] = told.tickets


def room_of(memory: NDArray[np.int64]) -> int:
    """Integers that a memory gets in the heap: room to grow if it does."""
    grows = memory[FORMAT] == FORMAT_DYADIC
    return max(FEW, 1 << (len(memory) + 1).bit_length()) if grows else len(memory)


def longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    """An array with so many rows, the new ones 0."""
    found = np.zeros((size, *array.shape[1:]), array.dtype)
    found[: len(array)] = array
    return found


_encoder = msgspec.msgpack.Encoder()
