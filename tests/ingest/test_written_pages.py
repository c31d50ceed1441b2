"""Reads that move nothing write few pages: an SD card wears with each of them."""

from __future__ import annotations

import random
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest

from edge import clock
from edge.clock import SECOND
from edge.database.connection import database, execute
from edge.tracking import recent_reads
from edge.tracking.recent_reads import READ
from tests.conftest import Cast
from tests.ingest.site import csl, make_site, message, pipeline, seen

_FRAME_HEADER, _WAL_HEADER = 24, 32


def pages_of_log(file: Path) -> list[int]:
    """Return the page number of each frame in the write-ahead log."""
    log = file.with_name(f"{file.name}-wal").read_bytes()
    size = struct.unpack(">I", log[8:12])[0] + _FRAME_HEADER
    return [struct.unpack(">I", log[at : at + 4])[0] for at in range(_WAL_HEADER, len(log), size)]


def test_a_read_at_the_same_location_writes_no_index_of_other_columns(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, it wrote two indexes of `track` that it does not change, and the state of the antenna each second."""
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    site, ingest = make_site(cast.acme, 1), pipeline()
    for second in range(40):
        if second == 35:
            execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        now += SECOND
        ingest.handle([message(csl(seen(site.epcs[0], now // 1000)), received_at=now)])
    file = Path(database.database)
    with closing(sqlite3.connect(file)) as connection:
        names = dict(connection.execute("SELECT pageno, name FROM dbstat"))
    written = [names[page] for page in pages_of_log(file) if page in names]
    often = {name for name in written if written.count(name) >= 5}
    assert often == {"track", "track_newest", "recent_read", "reader_state", "ledger"}
    [(last_seen_at,)] = execute("SELECT last_seen_at FROM track").fetchall()
    assert now - last_seen_at < SECOND


def test_a_site_that_stands_still_writes_less_than_100_mb_a_day(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """60 tags that stand and are read every 30 s by one reader. Before, each round wrote 14 pages, now some 8."""
    now, chance = clock.now(), random.Random(1)
    monkeypatch.setattr(clock, "now", lambda: now)
    site, ingest = make_site(cast.acme, 60), pipeline()
    for number in range(160):
        if number == 40:  # the first reads are old enough to be dropped
            execute("PRAGMA wal_autocheckpoint = 0").fetchall()
            execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        now += 30 * SECOND
        reads = [seen(epc, now // 1000 - chance.randrange(2000), rssi=-chance.randrange(45, 65)) for epc in site.epcs]
        parts = [csl(*reads[start : start + 15]) for start in range(0, 60, 15)]
        ingest.handle([message(part, received_at=now, mid=number * 4 + of + 1) for of, part in enumerate(parts)])
    log = pages_of_log(Path(database.database))
    assert len(log) < 1_100  # so that about a checkpoint is due, which writes each page once
    rounds_a_day, frame = 24 * 60 * 2, 4096 + _FRAME_HEADER
    assert (len(log) + len(set(log))) / 120 * rounds_a_day * frame < 100_000_000
    assert execute("SELECT count(*) FROM history").fetchone() == (60,)


def test_reads_of_a_quiet_site_are_compressed_and_the_same(store: Path) -> None:
    reads = [READ.pack(number, 10**15 + number, 1, -60.5, 0, 0, 0, 7) for number in range(50)]
    for number, at in enumerate((0, 999_999, 3 * SECOND, 3 * SECOND, 3 * SECOND + 1)):
        recent_reads.insert_batch(at, 10**15, 300, b"".join(reads[number * 10 : number * 10 + 10]))
    assert list(execute("SELECT length(packed) > 0 FROM recent_read ORDER BY no")) == [(0,), (0,), (1,), (1,), (0,)]
    assert b"".join(recent_reads.stored_reads("1 ORDER BY no", ())) == b"".join(reads)
