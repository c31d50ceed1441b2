"""Metrics in the Prometheus text format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

disable_created_metrics()  # type: ignore[no-untyped-call]  # creation times would double the number of series
_registry = CollectorRegistry()
ProcessCollector(registry=_registry)

request_seconds = Histogram(
    "edge_http_request_seconds",
    "Time to answer a request",
    ["method", "route", "status"],
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
    registry=_registry,
)
commit_seconds = Histogram(
    "edge_ingest_commit_seconds",
    "Time to record one batch of messages durably",
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30),
    registry=_registry,
)
messages = Counter("edge_ingest_messages", "Messages received, by outcome", ["reader", "bucket"], registry=_registry)
reads = Counter("edge_ingest_reads", "Reads received, by outcome", ["reader", "bucket"], registry=_registry)

evidence_bytes = Gauge("edge_ingest_evidence_bytes", "Memory used by recent reads", registry=_registry)
evidence_shortened = Counter(
    "edge_ingest_evidence_shortened",
    "Times that recent reads of all assets were shortened because memory was full",
    registry=_registry,
)
evidence_dropped = Counter(
    "edge_ingest_evidence_dropped", "Assets whose recent reads were dropped because memory was full", registry=_registry
)


def count(counter: Counter, tallies: Mapping[tuple[int, str], int]) -> None:
    """Add the totals of one batch: (reader, bucket) -> number."""
    for (reader, bucket), number in tallies.items():
        _series(counter, reader, bucket).inc(number)


@lru_cache(maxsize=10_000)
def _series(counter: Counter, reader: int, bucket: str) -> Counter:
    """Return a time series. Cached, because the lookup costs more than the increment."""
    return counter.labels(str(reader), str(bucket))


@contextmanager
def sampling(sample: Callable[[], Iterable[Metric]]) -> Iterator[None]:
    """Add metrics that `sample` computes on each scrape, while the block runs."""

    class Sampled(Collector):
        def collect(self) -> Iterable[Metric]:
            return sample()

        def describe(self) -> Iterable[Metric]:
            return []  # registering must not sample

    sampled = Sampled()
    _registry.register(sampled)
    try:
        yield
    finally:
        _registry.unregister(sampled)


def exposition() -> bytes:
    return generate_latest(_registry)
