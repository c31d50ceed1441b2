"""Reads that move nothing write few pages: an SD card wears with each of them."""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest

from edge import clock
from edge.clock import SECOND
from edge.database.connection import database, execute
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
