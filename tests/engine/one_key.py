"""One key by itself, for tests: asked and told without a judge, without a ledger."""

from types import SimpleNamespace

from onlinecal.engine import EngineConfig
from onlinecal.engine.keys.book import Book
from onlinecal.engine.ledger.schema import Snapshot


class OneKey:
    """A key with a configuration, before its first event or with what it dumped.

    `open` has the forecasts that wait, by id; each has an id, an entry and, after `run`, its answer.
    """

    def __init__(self, config, data=None):
        self.config, self.book, self.open, self._asked = config, Book(EngineConfig(config)), {}, []
        if data is None:
            self.key = self.book.create("k", 1, self.book.settings[-1])
            return
        self.book.load([Snapshot(1, "k", -1, 0, data)])
        self.key = self.book.keys["k"]
        for entry in self.key.entries():
            self._opened(self.book.ids[entry], entry)
        self.book._asked.update(getattr(self.key, "open", {}))
        self._answer()

    def _opened(self, id, entry):
        self.open[id] = one = SimpleNamespace(id=id, entry=entry)
        self._asked.append(one)
        return one

    def _answer(self):
        told = self.book.answers([one.entry for one in self._asked])
        for one, probability, certificate in zip(self._asked, *told, strict=True):
            one.probability, one.certificate = probability, certificate
        self._asked = []

    def ask(self, id, number, hint=None, time=None):
        """Ask for a forecast, with the number of the event."""
        one = self._opened(id, self.book.ask(self.key, id, number, hint, time))
        self._drop_expired()
        return one

    def close(self, one, value, time=None):
        """Settle a forecast, or give it up if the value is None."""
        if value is not None and not self.key.settings.is_binary:
            self.key.admit(one.entry, value)
        del self.open[one.id]
        self.book.close(one.entry, 1, value, time)
        self._drop_expired()

    def _drop_expired(self):
        self.open = {id: one for id, one in self.open.items() if id in self.book.open}

    def run(self):
        """Take all steps, and answer those who asked."""
        self.book.play()
        self._answer()
        self.book.release()

    def again(self):
        """The key that was dumped and loaded."""
        return OneKey(self.config, self.dump())

    def dump(self):
        return self.key.dump(self.book.ids)

    def summary(self):
        return self.key.summary()
