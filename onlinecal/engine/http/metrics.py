"""`GET /metrics`: the engine in Prometheus's text format. Needs the extra `serve`.

The series are totals, and two for each of the few keys to look at first. So their number does not grow with
the number of keys.

Nothing here has a state: the series are made anew from each overview. Their names, labels and units are a
contract, since dashboards and alarms of others name them; the help texts may change freely.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from onlinecal.engine.watch.overview import Overview

MEDIA_TYPE = CONTENT_TYPE_LATEST

Values = Iterable[tuple[str, float]]


@dataclass(eq=False)
class OverviewMetrics(Collector):
    """An overview as metrics."""

    overview: Overview

    def collect(self) -> Iterator[Metric]:
        """The metrics of the overview."""
        o, total, scores = self.overview, self.overview.total, self.overview.scores
        yield counter("events", "Events that were accepted", total.events)
        yield counter("rounds", "Forecasts that were settled", total.rounds)
        yield counter("expired", "Forecasts that were given up because their time was over", total.expired)
        yield counter("batches", "Transactions since the start", o.batches)
        yield counter("batch_seconds", "Seconds that they took", o.seconds)
        yield counter("refused", "Events that were rejected since the start", o.refused.items(), "reason")
        yield counter("early_outcomes", "Outcomes with a time before that of their query", o.early)
        yield counter("outcomes", "Outcomes that were accepted since the start", o.outcomes)
        yield counter("parked", "Outcomes that came before their query and were parked", o.parking.parked)
        help = "Parked outcomes that were dropped"
        yield counter("parked_dropped", help, o.parking.dropped.items(), "reason")
        alarms = ("forecasts", o.alarms), ("hints", o.hint_alarms)
        yield counter("alarms", "Alarms that forecasts or hints are not calibrated", alarms, "of")
        yield gauge("keys", "Keys that were met", total.keys)
        yield gauge("hot_keys", "Keys in memory", o.hot_keys)
        yield gauge("open_forecasts", "Forecasts that wait for their outcome", total.open)
        yield gauge("parked_outcomes", "Parked outcomes that wait for their query", o.parking.waiting)
        positions = [(f"{place.topic}/{place.partition}", place) for place in o.topics]
        help = "Offset of the next message of each partition"
        yield gauge("topic_position", help, [(at, place.position) for at, place in positions], "partition")
        help = "Offsets between that and the end of the partition"
        lags = [(at, place.lag) for at, place in positions if place.lag is not None]
        yield gauge("topic_lag", help, lags, "partition")
        help = "Batches whose answers are not known to have been delivered"
        yield gauge("unsent_batches", help, o.unsent)
        waited = 0 if o.oldest is None else total.events - o.oldest
        yield gauge("oldest_open_events", "Events since the oldest forecast that waits was asked for", waited)
        help = "Proven upper bound on the distance to calibration, a sum"
        yield gauge("certificate", help, total.certificate)
        yield gauge("guarantee", "What the certificate cannot exceed", total.guarantee)
        if scores is not None:
            sources = ("forecasts", scores.losses), ("constants", scores.constants), ("hints", scores.hints)
            for name, score in (("brier_score", "Brier score"), ("log_loss", "log loss")):
                help = f"Mean {score} of settled rounds, and of each key's best constant in hindsight"
                values = [(of, means[score]) for of, means in sources if means is not None]
                yield gauge(name, help, values, "of")
        sides = [
            (of, side.rounds, side.distance)
            for of, side in (("forecasts", o.forecasts), ("hints", o.hints))
            if side.distance is not None and side.rounds
        ]
        for place, name in enumerate(("distance_at_least", "distance_at_most")):
            help = f"Distance to calibration per round of all keys as one, {name[9:].replace('_', ' ')}"
            yield gauge(name, help, [(of, bounds[place] / rounds) for of, rounds, bounds in sides], "of")
        help = "Certificate per round of the keys with the largest"
        ratios = [(key, summary.certificate / max(1, summary.rounds)) for key, summary in o.largest]
        yield gauge("key_certificate_per_round", help, ratios, "key")
        help = "Alarms, of forecasts and hints, of the keys with the latest"
        counts = [(key, w.alarms + w.hint_alarms) for key, summary in o.alarmed if (w := summary.watched)]
        yield gauge("key_alarms", help, counts, "key")


def family(
    kind: type[CounterMetricFamily | GaugeMetricFamily],
    name: str,
    help: str,
    values: float | Values,
    label: str | None = None,
) -> Metric:
    """A metric with one number, or with one number for each value of a label."""
    if isinstance(values, int | float):
        return kind(f"onlinecal_{name}", help, value=values)
    metric = kind(f"onlinecal_{name}", help, labels=[label or ""])
    for of, value in values:
        metric.add_metric([of], value)
    return metric


counter, gauge = partial(family, CounterMetricFamily), partial(family, GaugeMetricFamily)
"""Metrics that only grow, and metrics that may fall again."""


def as_text(overview: Overview) -> bytes:
    """An overview in Prometheus's text format."""
    return generate_latest(OverviewMetrics(overview))
