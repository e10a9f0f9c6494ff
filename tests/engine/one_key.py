"""One key by itself, for tests: asked and told without a judge, without a ledger."""

import numpy as np

from onlinecal.engine import EngineConfig
from onlinecal.engine.keys.book import Book
from onlinecal.engine.ledger.schema import Snapshot
from onlinecal.engine.settings import KeySettings


class Asked:
    """A forecast that was asked for; the answer is there after `OneKey.run`.

    `over` are the ids of those that expired then.
    """

    probability = certificate = None

    def __init__(self, id, number, hint, entry):
        self.id, self.number, self.hint, self.entry = id, number, hint, entry


class OneKey:
    """A key with a configuration, before its first event or with what it dumped."""

    def __init__(self, config, data=None):
        self.config, self.book, self.open, self._asked = config, Book(EngineConfig(config)), {}, []
        if data is None:
            self.key = self.book.create("k", 1, self.book.settings[-1])
            return
        self.book.load([Snapshot(1, "k", -1, 0, data)])
        self.key = self.book.keys["k"]
        entries = self.key.entries()
        told = self.book.answers(np.array(entries, np.int64))
        for entry, probability, certificate in zip(entries, *told, strict=True):
            one = Asked(self.book.ids[entry], self.book.query_numbers([entry])[0], None, entry)
            one.probability, one.certificate = probability, certificate
            self.open[one.id] = one

    def ask(self, id, number, hint=None, time=None):
        """Ask for a forecast."""
        entry = self.book.ask(self.key, id, number, hint, time)
        self.open[id] = one = Asked(id, number, hint, entry)
        self._asked.append(one)
        one.over = self._drop_expired()
        return one

    def close(self, one, value, time=None, number=1):
        """Settle a forecast, or give it up if the value is None; the ids of those that expired."""
        if value is not None and not self.key.settings.is_binary:
            self.key.admit(one.entry, value)
        del self.open[one.id]
        self.book.close(one.entry, number, value, time)
        return self._drop_expired()

    def _drop_expired(self):
        over = [id for id in self.open if id not in self.book.open]
        for id in over:
            del self.open[id]
        return over

    def run(self):
        """Take all steps, and answer those who asked."""
        self.book.play()
        told = self.book.answers(np.array([one.entry for one in self._asked], np.int64))
        for one, probability, certificate in zip(self._asked, *told, strict=True):
            one.probability, one.certificate = probability, certificate
        self._asked = []
        self.book.release()

    def again(self):
        """The key that was dumped and loaded."""
        return OneKey(self.config, self.dump())

    def dump(self):
        return self.key.dump(self.book.ids)

    def summary(self):
        return self.key.summary()

    @property
    def memory(self):
        """That of its only lane."""
        return self.book.arrays.memory(self.key.first_lane)

    @property
    def lanes(self):
        """Those of a key of several classes."""
        return self.key.lanes


def settings_of(config):
    """A configuration at work."""
    return KeySettings(config, Book(EngineConfig()).arrays)
