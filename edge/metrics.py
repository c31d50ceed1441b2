"""What the service counts and measures, in the form Prometheus reads."""

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

disable_created_metrics()  # type: ignore[no-untyped-call]  # when a series began is of no use, and doubles their number
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
messages = Counter(
    "edge_ingest_messages", "Messages received, by what became of them", ["reader", "bucket"], registry=_registry
)
reads = Counter("edge_ingest_reads", "Reads received, by what became of them", ["reader", "bucket"], registry=_registry)

evidence_bytes = Gauge(
    "edge_ingest_evidence_bytes", "Memory of what was heard of assets lately, to decide by", registry=_registry
)
evidence_shortened = Counter(
    "edge_ingest_evidence_shortened",
    "Times that less was kept of every asset because memory was full",
    registry=_registry,
)
evidence_dropped = Counter(
    "edge_ingest_evidence_dropped", "Assets of which it was dropped from memory for want of room", registry=_registry
)


def count(counter: Counter, tallies: Mapping[tuple[int, str], int]) -> None:
    """Add the totals of one batch: (reader, bucket) -> number."""
    for (reader, bucket), number in tallies.items():
        _series(counter, reader, bucket).inc(number)


@lru_cache(maxsize=10_000)
def _series(counter: Counter, reader: int, bucket: str) -> Counter:
    """To find one by its labels costs more than to count."""
    return counter.labels(str(reader), str(bucket))


@contextmanager
def sampling(sample: Callable[[], Iterable[Metric]]) -> Iterator[None]:
    """While the block runs, ask for these numbers whenever somebody wants to know."""

    class Sampled(Collector):
        def collect(self) -> Iterable[Metric]:
            return sample()

        def describe(self) -> Iterable[Metric]:
            return []  # so that registering does not sample

    sampled = Sampled()
    _registry.register(sampled)
    try:
        yield
    finally:
        _registry.unregister(sampled)


def exposition() -> bytes:
    return generate_latest(_registry)
