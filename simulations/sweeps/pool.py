"""Several processes at work, of which an interrupt can be heard at any moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Iterable
from typing import Any, TypeVar

Answer = TypeVar("Answer")

IDLE = 20
"""Seconds without work after which a process ends, even if this one was killed and cannot tell it to."""


def work(
    function: Callable[..., Answer], tasks: Iterable[tuple[Any, ...]], jobs: int, ordered: bool = False
) -> Generator[Answer, None, None]:
    """function(*task) for every task, as the answers come in, or in the order of the tasks.

    With one job it is this process that works, one task per answer that is asked for. The others are killed
    when an interrupt comes.
    """
    if jobs == 1:
        for task in tasks:
            yield function(*task)
        return
    from joblib import Parallel, delayed

    pool = Parallel(
        n_jobs=jobs,
        backend="loky",
        return_as="generator" if ordered else "generator_unordered",
        batch_size=1,
        idle_worker_timeout=IDLE,
    )
    with SpareTheWorkers():
        answers = pool(delayed(function)(*task) for task in tasks)
    try:
        yield from answers
    except KeyboardInterrupt:
        from joblib.externals.loky import get_reusable_executor

        # whoever interrupts wants it to stop now: what the workers have finished is on disk already
        get_reusable_executor().shutdown(wait=True, kill_workers=True)
        raise


class SpareTheWorkers:
    """While processes are started, they inherit that an interrupt is not for them but for their parent."""

    def __enter__(self) -> None:
        self._previous = None
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, signal.SIG_IGN)

    def __exit__(self, *_: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
