"""Runs the engine's HTTP application until it is told to stop; requests under way are still answered.

`serve` holds what there is for as long as it runs: the socket, the filters of two loggers, the settings of
uvicorn's loggers (`restored_loggers`) and, in the main thread, the handlers of two signals. All are put back
at its end. `bind` comes before all of these, so a taken port changes nothing. Where log lines go is up to the
process: uvicorn's own choice of handlers is not made. The engine belongs to the caller, who closes it after
`serve` has ended.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast

import uvicorn

from onlinecal.engine.concurrent import AsyncEngine
from onlinecal.engine.http.app import BODY_SECONDS, LARGEST_BODY, create_app
from onlinecal.engine.http.connections import Connections
from onlinecal.engine.http.gate import LOOPBACK_NAMES, check_token, farewell
from onlinecal.engine.watch.overview import RateLimit

TOKEN_VARIABLE = "ONLINECAL_TOKEN"

BACKLOG = 128
"""How many connections may wait to be accepted."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on that address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def check_reach(host: str, token: str | None) -> None:
    """Refuse an address that other machines can reach, if there is no token."""
    if token is None and not is_loopback(host):
        raise ValueError(
            f"host {host!r} can be reached from other machines, so a token is needed: give --token-file, "
            f"or set {TOKEN_VARIABLE} in the environment"
        )


def read_token(file: Path | None) -> str | None:
    """The token in a file, else in the environment, checked; None if there is neither."""
    if file is None and not os.environ.get(TOKEN_VARIABLE):
        return None
    where = f"{TOKEN_VARIABLE} in the environment" if file is None else str(file)
    # what is not ASCII is refused by the check
    text = os.environ[TOKEN_VARIABLE] if file is None else file.read_text("ascii", "replace").strip()
    try:
        return check_token(text)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def bind(host: str, port: int) -> socket.socket:
    """A socket that waits for connections, before anything else is set up; OSError if it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, port), family=family, backlog=BACKLOG) as sock:
            # asyncio sends small answers at once only on sockets that say TCP by name
            return socket.socket(family, sock.type, socket.IPPROTO_TCP, sock.detach())
    except OSError as error:
        why = error.strerror or error
        raise OSError(
            f"{host} port {port}: {why}; name another port or host, or 0 for a free port"
        ) from error


@contextmanager
def restored_loggers() -> Iterator[None]:
    """Put back at its end what making a `uvicorn.Config` does to uvicorn's loggers."""
    loggers = [logging.getLogger(f"uvicorn.{name}") for name in ("error", "access", "asgi")]
    before = [(logger, logger.level, logger.handlers, logger.propagate) for logger in loggers]
    try:
        yield
    finally:
        for logger, level, handlers, propagate in before:
            logger.setLevel(level)
            logger.handlers, logger.propagate = handlers, propagate


async def serve(
    engine: AsyncEngine,
    host: str = "127.0.0.1",
    port: int = 8765,
    *,
    token: str | None = None,
    largest_body: int = LARGEST_BODY,
    patience: float = BODY_SECONDS,
    connections: int = 500,
    silence: int = 30,
    grace: int = 10,
    ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Answer requests until SIGTERM, SIGINT or the task's cancellation; the engine stays open.

    At the end no new requests are accepted, and those under way are answered.

    Parameters
    ----------
    engine, token, largest_body
        As in `create_app`.
    patience
        Seconds in which the head of a request must arrive, then its body, and in which some of an answer must
        be taken.
    host, port
        Where to listen; port 0 takes one that is free. Other addresses than loopback need a token.
    connections
        How many there may be. A new one takes the place of one that is owed no answer, first of one without
        the token; where there is none, its requests are answered with 503. Systems often allow a process
        1,024 open files.
    silence
        Seconds that a connection may last between two requests.
    grace
        Seconds that requests under way get at the end; then they are cut off.
    ready
        Called with the address as soon as connections are accepted.

    Raises
    ------
    ValueError
        If other machines could reach the server and there is no token.
    OSError
        If the port is taken.
    """
    check_reach(host, token)
    hosts = LOOPBACK_NAMES | {written(host).lower().encode()} if is_loopback(host) else None
    app = create_app(engine, token=token, largest_body=largest_body, patience=patience, hosts=hosts)
    with bind(host, port) as sock, restored_loggers(), ExitStack() as stack:
        config = uvicorn.Config(
            app,
            # any maker of protocols will do
            http=cast(Any, Connections(connections, patience, farewell)),
            ws="none",
            lifespan="off",
            # handlers are the caller's, and what this does to loggers `restored_loggers` puts back
            log_config=None,
            log_level="warning",
            access_log=False,
            # a header that clients can write must not say who they are
            proxy_headers=False,
            server_header=False,
            backlog=BACKLOG,
            timeout_keep_alive=silence,
            timeout_graceful_shutdown=grace,
        )
        rate_limit = RateLimit()
        for name in ("uvicorn.error", "asyncio"):
            # clients can cause these messages as often as they like
            logging.getLogger(name).addFilter(rate_limit)
            stack.callback(logging.getLogger(name).removeFilter, rate_limit)
        if threading.current_thread() is threading.main_thread():
            # uvicorn raises the signal that ended it once more; it should end the server only
            for number in (signal.SIGINT, signal.SIGTERM):
                stack.callback(signal.signal, number, signal.signal(number, lambda *_: None))
        ready(f"http://{written(host)}:{sock.getsockname()[1]}")
        server = uvicorn.Server(config)
        running = asyncio.ensure_future(server.serve(sockets=[sock]))
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            server.should_exit = True
            await running
            raise


def written(host: str) -> str:
    """A host as it stands in an address."""
    return f"[{host}]" if ":" in host else host
