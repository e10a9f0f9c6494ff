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
            help="A file of events, or a folder of such files, *.jsonl and *.jsonl.gz, read once. May be "
            "repeated. Default: standard input.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        Option(
            "--resume",
            help="Read each file of --input from where the ledger has noted that its events were answered, "
            "so that none is judged twice; a last line that has no newline yet is left for the next time. "
            "Without --resume whole files are read.",
        ),
    ] = False,
    kafka: Annotated[
        str | None,
        Option(
            "--kafka",
            metavar="BROKERS",
            help="The Kafka brokers to begin with, such as kafka1:9092,kafka2:9092: events are read from "
            "--topic, from where the ledger is, and answers are sent to --answers, until it is stopped.",
        ),
    ] = None,
    topic: Annotated[
        str | None, Option(help="With --kafka: the topic of the events; a message is one event.")
    ] = None,
    answers: Annotated[
        str | None, Option(help="With --kafka: the topic of the answers, another one than --topic.")
    ] = None,
    partitions: Annotated[
        str | None,
        Option(
            help="With --kafka: the partitions of --topic that this ledger reads, such as 0-3 or 0,2; no "
            "other ledger may read them. Default: all of the topic."
        ),
    ] = None,
    kafka_config: Annotated[
        Path | None,
        Option(
            help="With --kafka: a file of name=value lines for its client, such as TLS, SASL and whatever "
            "librdkafka knows."
        ),
    ] = None,
    http: Annotated[
        str | None,
        Option(
            metavar="HOST:PORT",
            help="With --kafka: also answer over HTTP at this address, as `onlinecal stream serve` does, "
            "with a page, and /metrics with lag and positions. Other hosts than loopback need a token in the "
            "environment variable ONLINECAL_TOKEN.",
        ),
    ] = None,
    config: Config = None,
    park: Park = None,
    batch: Annotated[
        int,
        Option(
            min=1, max=1 << 20, help="How many lines, or messages, one transaction of the ledger may have."
        ),
    ] = 8192,
    hot_keys: Annotated[
        int,
        Option(
            min=1, help="How many keys stay in memory; the others are read from the ledger when they come."
        ),
    ] = 50_000,
    quiet: Annotated[bool, Option("--quiet", help="Write no progress and no summary to stderr.")] = False,
    log_json: LogJson = False,
) -> None:
    """Forecast for many keys at once: events in, answers out, one JSON object a line, nothing lost.

    Answers go to stdout, or with --kafka to a topic, each when its event is safely in the ledger. Lines that
    are no events are answered too: they are rejected with a reason, and the exit code stays 0.

    Stop it with SIGTERM (or Ctrl-C, exit code 130): it writes the answers of the batch at hand and ends;
    --resume then goes on from there. After a crash, or when nobody reads the answers any more (exit code
    141), start it without --resume: answers may have been lost on their way out. Events that were accepted
    get the same answers again; those that were rejected are judged anew.

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
        raise ValueError(
            "--ledger is missing: name the file that keeps every event, which is made if need be"
        )
    from onlinecal.engine.watch.overview import log_to_stderr

    if kafka is not None:
        if inputs or resume:
            raise ValueError(
                "--kafka does not go with --input or --resume: leave them out here, and give files before, "
                "in a call without --kafka"
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
            raise ValueError(
                f"--{name} needs --kafka, the brokers to read from: give it, or leave --{name} out"
            )
    if resume and not inputs:
        raise ValueError(
            "--resume needs --input, the files to go on with: standard input is read as it comes, without "
            "--resume"
        )
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
