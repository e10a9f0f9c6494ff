"""The verb `stream`: the event engine on standard input and output, and what belongs to its ledger.

Nothing here has a state: options are checked and handed to `loop` or `kafka`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from typer import Context, Exit, Option, Typer

from onlinecal.cli.stream.keeping import archive, check, doctor, export, repair
from onlinecal.cli.stream.report import report
from onlinecal.cli.stream.serve import serve
from onlinecal.cli.verbs import EXIT_DONE, Config, LogJson, Park, Verb, Verbs

app = Typer(cls=Verbs, rich_markup_mode="rich")
for verb in (report, check, repair, serve, archive, export, doctor):
    app.command(verb.__name__, cls=Verb)(verb)


@app.callback(invoke_without_command=True)
def stream(
    context: Context,
    ledger: Annotated[
        Path | None,
        Option(
            help="The file that keeps every event; made if there is none. Required.",
        ),
    ] = None,
    inputs: Annotated[
        list[Path] | None,
        Option(
            "--input",
            help="A file of events, or a folder of *.jsonl and *.jsonl.gz, read once; may be repeated. "
            "Default: stdin.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        Option(
            "--resume",
            help="Read each file on from where the ledger has noted that it was answered, so that nothing is "
            "judged twice. A last line waits for its newline. Without --resume all is read.",
        ),
    ] = False,
    kafka: Annotated[
        str | None,
        Option(
            "--kafka",
            metavar="BROKERS",
            help="Read events from a topic of Kafka, and send answers to another one: the brokers to begin "
            "with, such as kafka1:9092,kafka2:9092. Goes on from where the ledger is, until it is stopped.",
        ),
    ] = None,
    topic: Annotated[str | None, Option(help="The topic of the events; a message is one event.")] = None,
    answers: Annotated[str | None, Option(help="The topic of the answers.")] = None,
    partitions: Annotated[
        str | None,
        Option(
            help="The partitions that this ledger counts, such as 0-3 or 0,2; no other ledger may. "
            "Default: all of the topic."
        ),
    ] = None,
    kafka_config: Annotated[
        Path | None,
        Option(help="A file of name=value lines for the client: TLS, SASL and whatever librdkafka knows."),
    ] = None,
    http: Annotated[
        str | None,
        Option(
            metavar="HOST:PORT",
            help="Beside Kafka, answer over HTTP as `stream serve` does: a page, and /metrics with lag and "
            "positions. Other hosts than loopback need ONLINECAL_TOKEN in the environment.",
        ),
    ] = None,
    config: Config = None,
    park: Park = None,
    batch: Annotated[
        int, Option(min=1, max=1 << 20, help="Most lines, or messages, of one transaction.")
    ] = 8192,
    hot_keys: Annotated[
        int, Option(min=1, help="Keys that stay in memory; others are in the ledger.")
    ] = 50_000,
    quiet: Annotated[bool, Option("--quiet", help="No progress and no summary on stderr.")] = False,
    log_json: LogJson = False,
) -> None:
    """Forecast for many keys at once: events in, answers out, one JSON object a line, nothing lost.

    An answer is written when its event is safely in the ledger. Lines that are no events are answered too:
    they are rejected with a reason, and the exit code stays 0.

    Stop it with SIGTERM (or Ctrl-C, exit code 130): it writes the answers of the batch at hand and leaves;
    --resume then goes on from there. After a crash, or when nobody reads the answers any more (exit code
    141), start it without --resume: answers may have been lost on their way out. Events that were accepted
    are answered as the first time; those that were refused are judged anew.

    Examples:

    [bold]echo '{"type": "query", "id": "q1", "key": "oslo"}' | onlinecal stream --ledger rain.db[/bold]

    [bold]onlinecal stream --ledger rain.db --input events/ --resume >> answers.jsonl[/bold]

    [bold]tail -n +1 -F events.jsonl | onlinecal stream --ledger rain.db >> answers.jsonl[/bold]

    [bold]onlinecal stream --ledger rain.db --kafka localhost:9092 --topic events --answers answers[/bold]

    [bold]onlinecal stream report --ledger rain.db[/bold]
    """
    if context.invoked_subcommand is not None:
        return
    if ledger is None:
        raise ValueError("--ledger is missing: the file that keeps every event")
    from onlinecal.engine.watch.overview import log_to_stderr

    if kafka is not None:
        if inputs or resume:
            raise ValueError(
                "--kafka does not go with --input or --resume: give files first, in a call of their own"
            )
        if topic is None:
            raise ValueError("--kafka needs --topic, the topic of the events")
        if answers is None:
            raise ValueError("--kafka needs --answers, the topic of the answers")
        if topic == answers:
            raise ValueError(f"--answers must be another topic than --topic, got {answers!r} for both")
        answer_topic = import_kafka()
        if log_json or not quiet:
            log_to_stderr(log_json)
        code = answer_topic(
            ledger,
            kafka,
            topic,
            answers,
            config,
            park=park,
            partitions=partitions,
            http=http,
            properties=kafka_config,
            most=batch,
            hot_keys=hot_keys,
            quiet=quiet or log_json,
        )
        if code != EXIT_DONE:
            raise Exit(code)
        return
    for name, value in (
        ("topic", topic),
        ("answers", answers),
        ("partitions", partitions),
        ("kafka-config", kafka_config),
        ("http", http),
    ):
        if value is not None:
            raise ValueError(f"--{name} needs --kafka, the brokers")
    if resume and not inputs:
        raise ValueError("--resume needs --input: standard input is read once, as it comes")
    if (not inputs and sys.stdin is None) or sys.stdout is None:
        raise ValueError(
            "standard input and output must be open: events come from one, answers go to the other"
        )
    from onlinecal.cli.stream.loop import run

    if log_json:
        log_to_stderr(as_json=True)
    code = run(
        ledger,
        inputs or [],
        config,
        park=park,
        resume=resume,
        most=batch,
        hot_keys=hot_keys,
        quiet=quiet or log_json,
    )
    if code != EXIT_DONE:
        raise Exit(code)


def import_kafka() -> Callable[..., int]:
    """What answers a topic; ValueError where its extra is missing."""
    try:
        from onlinecal.cli.stream.kafka import run
    except ImportError as error:
        raise ValueError(
            "confluent-kafka is not installed: in a checkout of onlinecal, pip install '.[kafka]'"
        ) from error
    return run
