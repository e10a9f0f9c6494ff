"""`GET /metrics`: the engine in Prometheus's text format. Needs the extra `serve`.

Its series are totals, and two for each of the few keys to look at first: their number does not grow with the
number of keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from onlinecal.engine.keys.totals import Line
from onlinecal.engine.watch.overview import Overview

MEDIA_TYPE = CONTENT_TYPE_LATEST


class Reading(Collector):
    """One overview as metrics."""

    def __init__(self, overview: Overview) -> None:
        self._overview = overview

    def collect(self) -> Iterator[Metric]:
        """Its metrics."""
        o, total = self._overview, self._overview.total
        for name, help, value in (
            ("events", "Events that were accepted", total.events),
            ("rounds", "Forecasts that were settled", total.rounds),
            ("expired", "Forecasts that were given up because their time was over", total.expired),
            ("batches", "Transactions since the start", o.batches),
            ("batch_seconds", "Seconds that they took", o.seconds),
        ):
            yield CounterMetricFamily(f"onlinecal_{name}", help, value=value)
        waited = 0 if o.oldest is None else total.events - o.oldest
        for name, help, value in (
            ("keys", "Keys that were met", total.keys),
            ("hot_keys", "Keys in memory", o.hot_keys),
            ("open_forecasts", "Forecasts that wait for their outcome", total.open),
            ("oldest_open_events", "Events since the oldest forecast that waits was asked for", waited),
            (
                "certificate",
                "Proven upper bound on the distance to calibration, a sum",
                total.certificate,
            ),
            ("guarantee", "What the certificate cannot exceed", total.guarantee),
        ):
            yield GaugeMetricFamily(f"onlinecal_{name}", help, value=value)
        yield labelled(
            CounterMetricFamily,
            "refused",
            "Events that were rejected since the start",
            "reason",
            o.refused.items(),
        )
        yield labelled(
            CounterMetricFamily, "alarms", "Alarms that forecasts or hints are not calibrated", "of",
            [("forecasts", o.alarms), ("hints", o.hint_alarms)],
        )  # fmt: skip
        yield from self._quality()
        yield from of_keys(o.largest, o.alarmed)

    def _quality(self) -> Iterator[Metric]:
        o, scores = self._overview, self._overview.scores
        if scores is not None:
            given = [("forecasts", scores.losses), ("constants", scores.constants), ("hints", scores.hints)]
            for name, score in (("brier_score", "Brier score"), ("log_loss", "log loss")):
                values = [(of, losses[score]) for of, losses in given if losses is not None]
                help = f"Mean {score} of settled rounds, and of each key's best constant in hindsight"
                yield labelled(GaugeMetricFamily, name, help, "of", values)
        for place, end in enumerate(("at_least", "at_most")):
            distances = [("forecasts", o.forecasts), ("hints", o.hints)]
            values = [
                (of, side.distance[place] / side.rounds)
                for of, side in distances
                if side.distance and side.rounds
            ]
            help = f"Distance to calibration per round of all keys as one, {end.replace('_', ' ')}"
            yield labelled(GaugeMetricFamily, f"distance_{end}", help, "of", values)


def labelled(
    family: type[Metric], name: str, help: str, label: str, values: Iterable[tuple[str, float]]
) -> Metric:
    """A metric with one value for each value of its label."""
    metric = family(f"onlinecal_{name}", help, labels=[label])  # type: ignore[call-arg]
    for of, value in values:
        metric.add_metric([of], value)  # type: ignore[attr-defined]
    return metric


def of_keys(largest: list[Line], alarmed: list[Line]) -> Iterator[Metric]:
    """Certificates per round of the keys with the largest, alarms of those with the latest."""
    help = "Certificate per round of the keys with the largest"
    values = [(key, summary.certificate / max(1, summary.rounds)) for key, summary in largest]
    yield labelled(GaugeMetricFamily, "key_certificate_per_round", help, "key", values)
    help = "Alarms, of forecasts and hints, of the keys with the latest"
    counts = [(key, w.alarms + w.hint_alarms) for key, summary in alarmed if (w := summary.watched)]
    yield labelled(GaugeMetricFamily, "key_alarms", help, "key", counts)


def as_text(overview: Overview) -> bytes:
    """An overview in Prometheus's text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Reading(overview))
    return generate_latest(registry)
