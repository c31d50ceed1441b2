"""Send mutated messages of every format through parsers and pipeline: `python -m tests.security.fuzz --messages
10000000`.

Each message must end in one bucket of the ledger, raise nothing, take at most a second and leak no memory.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec

from edge import clock
from edge.audit.actors import shell
from edge.clock import HOUR, SECOND
from edge.database import migrate
from edge.database.bounds import DEFAULT
from edge.database.connection import FILE_NAME, close_database, execute, open_database
from edge.formats.registry import FORMATS, check_format, recognize
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.people import organizations
from edge.readers import readers
from edge.readers.kept_messages import Window
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.tracking import deletion
from tests.formats.reader_samples import EPC, MAC, OTHER_EPC
from tests.security.mutations import MAPPING, Mutator

BATCH = 1_000  # like the service
LONGEST_SECONDS = 1.0  # CPU seconds per message
HANGS_AFTER = 120
SWEEP_EVERY = 100  # batches; once a minute in the service
GUESS_EVERY = 20  # messages; the service guesses only for unassigned topics


class Result(NamedTuple):
    messages: int
    seconds: float
    slowest: float  # CPU seconds per message, on average of one batch
    grown_kib: int  # in the last four fifths of the messages
    buckets: dict[str, int]


class _Poison(logging.Handler):
    """Collects messages that the pipeline set aside because of an internal error."""

    def emit(self, record: logging.LogRecord) -> None:
        raise AssertionError(record.getMessage()) from (record.exc_info or (None, None))[1]


def make_site() -> None:
    actor = shell(organizations.add_organization(shell(), "Fuzz").id)
    dock = locations.create(actor, name="Dock").id
    for number, (kind, value) in enumerate((("rfid", EPC), ("ble", MAC), ("rfid", OTHER_EPC))):
        assets.create(actor, name=f"Asset {number}", tags=[NewTag(kind, value)])
    for name in FORMATS:
        readers.add_reader(actor, name=name, topic=f"fuzz/{name}/#", format=name, location_id=dock)
    described = msgspec.json.encode(MAPPING).decode()
    check_format("mapping", described)
    readers.add_reader(actor, name="m", topic="fuzz/mapping/#", format="mapping", mapping=described, location_id=dock)


def run(messages: int, seed: int) -> Result:
    """Run in the open database of an empty site. Raises AssertionError at a failure."""
    make_site()
    mutator, pipeline = Mutator(seed), Pipeline(300 * SECOND, 7, window=Window(8 << 20, HOUR))
    log, poison = logging.getLogger("edge.ingest.pipeline"), _Poison()
    log.addHandler(poison)
    began, slowest, early = time.monotonic(), 0.0, 0
    try:
        for number, batch in enumerate(_batches(mutator, messages)):
            if number * BATCH >= messages // 5 and not early:
                early = resident_kib()
            faulthandler.dump_traceback_later(HANGS_AFTER, exit=True)
            slowest = max(slowest, _handle(pipeline, batch, seed))
            if number % SWEEP_EVERY == 0:
                deletion.drop_crowded("unknown_tags", DEFAULT.unknown_tags)
                deletion.drop_dead_letters(DEFAULT)
    finally:
        faulthandler.cancel_dump_traceback_later()
        log.removeHandler(poison)
    buckets = dict(execute("SELECT bucket, sum(messages) FROM ledger GROUP BY bucket").fetchall())
    assert sum(buckets.values()) == messages, buckets
    return Result(messages, time.monotonic() - began, slowest, resident_kib() - early, buckets)


def _batches(mutator: Mutator, messages: int) -> Iterator[list[Message]]:
    choose = random.Random(messages)
    for start in range(0, messages, BATCH):
        batch = []
        for number in range(min(BATCH, messages - start)):
            name, payload = mutator.message()
            topic = f"fuzz/{name}" if choose.random() < 0.95 else f"nobody/{choose.randrange(3_000)}"
            flags = {"is_retained": choose.random() < 0.01, "is_redelivered": choose.random() < 0.05}
            batch.append(Message(topic, payload, clock.now(), mid=number + 1, qos=1, **flags))
        yield batch


def _handle(pipeline: Pipeline, batch: list[Message], seed: int) -> float:
    """Return the average CPU seconds per message of the batch."""
    began = time.thread_time()
    try:
        pipeline.handle(batch)
        for message in batch[::GUESS_EVERY]:
            recognize(message.topic, message.payload)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {_culprit(pipeline, batch)}") from error
    took = time.thread_time() - began
    if took > LONGEST_SECONDS:
        for message in batch:  # find the message that caused it
            began = time.thread_time()
            recognize(message.topic, message.payload)
            alone = time.thread_time() - began
            assert alone < LONGEST_SECONDS, f"seed {seed}: {alone:.1f} s for {message}"
    return took / len(batch)


def _culprit(pipeline: Pipeline, batch: list[Message]) -> Message | None:
    for message in batch:
        try:
            pipeline.handle([message])
            recognize(message.topic, message.payload)
        except Exception:  # noqa: BLE001  the test looks for any exception
            return message
    return None


def resident_kib() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with TemporaryDirectory() as folder:
        open_database(Path(folder) / FILE_NAME)
        migrate.migrate(Path(folder))
        result = run(arguments.messages, arguments.seed)
        size = (Path(folder) / FILE_NAME).stat().st_size >> 20
        close_database()
    print(f"{result.messages:,} messages in {result.seconds:,.0f} s, {result.messages / result.seconds:,.0f} a second")
    print(
        f"slowest batch: {result.slowest * 1000:.1f} ms a message; memory {result.grown_kib:+,} KiB; database {size} MB"
    )
    print(", ".join(f"{name} {number:,}" for name, number in sorted(result.buckets.items())))
    sys.exit(result.grown_kib > 32 * 1024)


if __name__ == "__main__":
    main()
