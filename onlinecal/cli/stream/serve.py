"""The verb `stream serve`: the engine over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from onlinecal.cli.output import notices
from onlinecal.cli.verbs import Config, LogJson, Park, WrittenLedger


def serve(
    ledger: WrittenLedger,
    host: Annotated[
        str, Option(help="Where to listen; other addresses than loopback need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="0: one that is free, which is then printed.")] = 8765,
    config: Config = None,
    park: Park = None,
    token_file: Annotated[
        Path | None,
        Option(help="A file with the token; else ONLINECAL_TOKEN in the environment."),
    ] = None,
    log_json: LogJson = False,
) -> None:
    """Answer events over HTTP, and show a page of live certificates.

    POST /query, /outcome, /withdraw and /events; GET /certificate, /keys, /health, /watch, /metrics (for
    Prometheus) and the page, /. Every
    answer is on disk before it is sent. SIGTERM or Ctrl+C: what is under way is answered, then it ends.

    Examples:

    [bold]onlinecal stream serve --ledger rain.db[/bold]

    [bold]onlinecal stream serve --ledger rain.db --host 0.0.0.0 --token-file token[/bold]

    [bold]curl -d '{"id": "q1", "key": "rain/oslo", "hint": 0.7}' http://127.0.0.1:8765/query[/bold]
    """
    import asyncio

    from onlinecal.cli.stream.configuring import wanted_config
    from onlinecal.engine import AsyncEngine
    from onlinecal.engine.watch.overview import log_to_stderr, logger

    try:
        from onlinecal.engine.http import server
    except ImportError as error:
        raise ValueError(
            f"{error.name} is not installed: in a checkout of onlinecal, pip install '.[serve]'"
        ) from error
    token = server.read_token(token_file)
    server.check_reach(host, token)
    wanted = wanted_config(ledger, config, park)

    log_to_stderr(log_json)

    def ready(url: str) -> None:
        if log_json:
            logger.info("%s: listening on %s", ledger, url, extra={"about": {"kind": "ready", "url": url}})
        else:
            notices().print(f"{ledger}: listening on {url}", soft_wrap=True)

    async def run() -> None:
        async with AsyncEngine(ledger, wanted) as engine:
            await server.serve(engine, host, port, token=token, ready=ready)

    asyncio.run(run())
