"""The verb `stream serve`: the engine over HTTP.

The engine is opened before the server and closed after it. In `Beside`, the server has a thread and an event
loop of its own, and shares with the other input only the engine, which may be used from several threads. That
engine is the caller's: the server ends before it is closed. Options and the address that is said are what
users rely on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

from typer import Option

from onlinecal.cli.output import notices
from onlinecal.cli.verbs import Config, LogJson, Park, WrittenLedger

if TYPE_CHECKING:
    from onlinecal.engine import Engine


def serve(
    ledger: WrittenLedger,
    host: Annotated[
        str, Option(help="The address to listen at; others than loopback need a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, Option(min=0, max=65535, help="The port to listen at; 0: any free one, which is printed.")
    ] = 8765,
    config: Config = None,
    park: Park = None,
    token_file: Annotated[
        Path | None,
        Option(
            help="A file with the token that requests must bring. Default: the environment variable "
            "ONLINECAL_TOKEN, or no token."
        ),
    ] = None,
    log_json: LogJson = False,
) -> None:
    """Answer events over HTTP, and show a page of live certificates.

    Requests are POST /query, /outcome, /withdraw and /events; GET /certificate, /keys, /health, /watch,
    /metrics (for Prometheus) and /, the page. Every event is on disk before it is answered. At SIGTERM or
    Ctrl-C requests that have come are still answered, then it ends.

    Examples:

    [bold]onlinecal stream serve --ledger rain.db[/bold]

    [bold]onlinecal stream serve --ledger rain.db --host 0.0.0.0 --token-file token[/bold]

    [bold]curl -d '{"id": "q1", "key": "rain/oslo", "hint": 0.7}' http://127.0.0.1:8765/query[/bold]
    """
    import asyncio

    from onlinecal.cli.stream.configuring import wanted_config
    from onlinecal.engine import AsyncEngine
    from onlinecal.engine.watch.overview import log_to_stderr

    server = import_server()
    token = server.read_token(token_file)
    server.check_reach(host, token)
    wanted = wanted_config(ledger, config, park)

    log_to_stderr(log_json)

    ready = partial(say_listening, ledger, as_json=log_json)

    async def run() -> None:
        async with AsyncEngine(ledger, wanted) as engine:
            await server.serve(engine, host, port, token=token, ready=ready)

    asyncio.run(run())


class Beside:
    """Answers over HTTP beside another input of the same engine; ValueError for what is no address.

    Other addresses than loopback need a token in the environment.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
            raise ValueError(f"--http must be HOST:PORT, such as 127.0.0.1:8765, got {address!r}")
        self._server = import_server()
        self._host, self._port = host.removeprefix("[").removesuffix("]"), int(port)
        self._token = self._server.read_token(None)
        self._server.check_reach(self._host, self._token)

    @contextmanager
    def served(self, engine: Engine, ledger: Path) -> Iterator[None]:
        """Serve an engine in a thread while the block runs; OSError if the port is taken."""
        import asyncio
        from concurrent.futures import Future
        from threading import Thread

        from onlinecal.engine import AsyncEngine

        url, ends = Future[str](), list[Callable[[], object]]()

        async def serve() -> None:
            loop, task = asyncio.get_running_loop(), asyncio.current_task()
            ends.append(lambda: loop.call_soon_threadsafe(task.cancel))  # type: ignore[union-attr]
            async with AsyncEngine(engine) as asked:
                await self._server.serve(
                    asked, self._host, self._port, token=self._token, ready=url.set_result
                )

        def work() -> None:
            try:
                asyncio.run(serve())
            except asyncio.CancelledError:
                pass
            except BaseException as error:
                if url.done():
                    raise
                url.set_exception(error)

        thread = Thread(target=work, name="onlinecal-http", daemon=True)
        thread.start()
        say_listening(ledger, url.result())
        try:
            yield
        finally:
            ends[0]()
            thread.join()


def say_listening(ledger: Path, url: str, as_json: bool = False) -> None:
    """Say on stderr where a ledger's engine can be asked."""
    from onlinecal.engine.watch.overview import logger

    if as_json:
        logger.info("%s: listening on %s", ledger, url, extra={"about": {"kind": "ready", "url": url}})
    else:
        notices().print(f"{ledger}: listening on {url}", soft_wrap=True)


def import_server() -> ModuleType:
    """The module of the server; ValueError where its extra is missing."""
    try:
        from onlinecal.engine.http import server
    except ImportError as error:
        raise ValueError(
            f"{error.name} is not installed: in a checkout of onlinecal, pip install '.[serve]'"
        ) from error
    return server
