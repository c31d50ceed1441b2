"""Tables of the history in PostgreSQL."""

from __future__ import annotations

from typing import Any

import psycopg

from edge.errors import SetupError

VERSION = 1
PARTITIONS = 16

# A row per stay. The primary key also finds the newest row at or before a moment. No statement joins rows of two
# tracks, so the table can be distributed by track.
_TABLES = (
    """
    CREATE TABLE stay (
        track bigint NOT NULL, observed_at bigint NOT NULL, seq integer NOT NULL, seen_for bigint NOT NULL,
        source bigint NOT NULL, delay bigint NOT NULL, quality smallint NOT NULL, rssi smallint, rule smallint NOT NULL,
        PRIMARY KEY (track, observed_at, seq)
    ) PARTITION BY HASH (track)
    """,
    *(
        f"CREATE TABLE stay_{number} PARTITION OF stay FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number})"
        for number in range(PARTITIONS)
    ),
    # How far the stays of each site are. `effects` is what the hub's own database has to do for the last batch.
    """
    CREATE TABLE site_cursor (
        site bigint PRIMARY KEY, base jsonb NOT NULL, done jsonb NOT NULL, horizon bigint NOT NULL,
        effects jsonb NOT NULL
    )
    """,
    # `dropped` has the tracks whose rows the hub counts again after a deletion.
    "CREATE TABLE edge_history (version integer NOT NULL, dropped bigint[] NOT NULL DEFAULT '{}')",
    f"INSERT INTO edge_history (version) VALUES ({VERSION})",
)
_LOCK = 7_203_884_512  # any number that other programs do not use for their own advisory locks


def prepare(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Prepare a new connection, and create the tables with the first one. Raises SetupError for a later version."""
    if not _exists(connection):
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            if not _exists(connection):
                for statement in _TABLES:
                    connection.execute(statement.encode())
    row = connection.execute("SELECT version FROM edge_history").fetchone()
    if row is None or row[0] != VERSION:
        raise SetupError("The tables in PostgreSQL are of another release of edge; update edge on this hub")


def _exists(connection: psycopg.Connection[tuple[Any, ...]]) -> bool:
    row = connection.execute("SELECT to_regclass('edge_history') IS NOT NULL").fetchone()
    return bool(row and row[0])
