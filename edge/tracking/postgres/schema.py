"""Tables of the history in PostgreSQL."""

from __future__ import annotations

from typing import Any

import psycopg

from edge.errors import SetupError
from edge.tracking.past_levels import PAST_LEVELS, past_level

VERSION = 2
PARTITIONS = 16

_LEVEL = past_level("observed_at", "greatest(until, observed_at + seen_for)")
# A row per stay. The primary key also finds the newest row at or before a moment. No statement joins rows of two
# tracks. `until` is the begin of the track's next row, and `level` the class of the length until then: they are null in
# the newest row of each track. The order of the columns avoids padding.
_TABLES = (
    f"""
    CREATE TABLE stay (
        track bigint NOT NULL, observed_at bigint NOT NULL, seq integer NOT NULL, seen_for bigint NOT NULL,
        source bigint NOT NULL, delay bigint NOT NULL, until bigint,
        quality smallint NOT NULL, rssi smallint, rule smallint NOT NULL,
        level smallint GENERATED ALWAYS AS (CASE WHEN until IS NOT NULL THEN {_LEVEL} END) STORED,
        PRIMARY KEY (track, observed_at, seq)
    ) PARTITION BY HASH (track)
    """,
    *(
        f"CREATE TABLE stay_{number} PARTITION OF stay FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number})"
        for number in range(PARTITIONS)
    ),
    # How far the stays of each site are. `effects` is the work of the hub's own database for the last batch.
    """
    CREATE TABLE site_cursor (
        site bigint PRIMARY KEY, base jsonb NOT NULL, done jsonb NOT NULL, horizon bigint NOT NULL,
        effects jsonb NOT NULL
    )
    """,
    # `dropped` has the tracks with rows that the hub counts again after a deletion.
    "CREATE TABLE edge_history (version integer NOT NULL, hub text, dropped bigint[] NOT NULL DEFAULT '{}')",
    # Names for reports. People have none, so the views leave them out.
    """
    CREATE TABLE track_label (
        no bigint PRIMARY KEY, organization text NOT NULL, site text NOT NULL, asset_key text NOT NULL,
        asset text NOT NULL
    )
    """,
    """
    CREATE TABLE source_label (
        no bigint PRIMARY KEY, location_key text NOT NULL, location text NOT NULL, reader text, antenna text
    )
    """,
    # Finds a period of all tracks. Not BRIN: a row moves when its stay ends, so each page has rows of a long time.
    "CREATE INDEX stay_period ON stay ((to_timestamp(observed_at / 1000000.0)))",
    # Stays that have ended: those at a source around a moment, and those seen last at a time. Those of a level have a
    # similar length, so the ones that lasted at a moment are in a short range.
    f"CREATE INDEX stay_place ON stay ((source * {PAST_LEVELS} + level), observed_at) WHERE until IS NOT NULL",
    "CREATE INDEX stay_seen ON stay (level, (observed_at + seen_for)) WHERE until IS NOT NULL",
    "CREATE SCHEMA report",
    """
    CREATE VIEW report.stay AS
    SELECT t.organization, t.site, t.asset_key, t.asset, p.location_key, p.location, p.reader, p.antenna,
           to_timestamp(s.observed_at / 1000000.0) AS began_at,
           to_timestamp((s.observed_at + s.seen_for) / 1000000.0) AS seen_until,
           to_timestamp(s.until / 1000000.0) AS left_at
    FROM stay s JOIN track_label t ON t.no = s.track JOIN source_label p ON p.no = s.source
    """,
    f"INSERT INTO edge_history (version) VALUES ({VERSION})",
)
# Which machine writes. It was added later, so tables of version 2 may lack it.
_WRITER = (
    "CREATE TABLE hub_writer (mark text, machine text NOT NULL DEFAULT '', since bigint NOT NULL DEFAULT 0)",
    "INSERT INTO hub_writer DEFAULT VALUES",
    "ALTER TABLE site_cursor ADD COLUMN writer text",
)
# The newest stay of each track, by an index that has only those.
_NEWEST = (
    "CREATE INDEX stay_newest ON stay (track) INCLUDE (observed_at, source) WHERE until IS NULL",
    """
    CREATE OR REPLACE VIEW report.newest_stay AS
    SELECT t.organization, t.site, t.asset_key, t.asset, p.location_key, p.location,
           to_timestamp(s.observed_at::float8 / 1000000) AS began_at
    FROM stay s JOIN track_label t ON t.no = s.track JOIN source_label p ON p.no = s.source WHERE s.until IS NULL
    """,
)
# The sites, each found by one step in an index, which also has all that a report about some sites reads of the labels.
# Roles that may read the other views, may read this one.
_SITES = (
    "CREATE INDEX track_label_site ON track_label (site, organization, no)",
    """
    CREATE VIEW report.site AS
    WITH RECURSIVE found AS (
        (SELECT organization, site FROM track_label ORDER BY site, organization LIMIT 1)
        UNION ALL
        SELECT after.* FROM found CROSS JOIN LATERAL (
            SELECT t.organization, t.site FROM track_label t
            WHERE (t.site, t.organization) > (found.site, found.organization) ORDER BY t.site, t.organization LIMIT 1
        ) after
    )
    SELECT organization, site FROM found
    """,
    """
    DO $$ DECLARE reader name; BEGIN
        FOR reader IN SELECT grantee FROM information_schema.role_table_grants
            WHERE table_schema = 'report' AND table_name = 'stay' AND privilege_type = 'SELECT'
            AND grantee NOT IN (current_user, 'PUBLIC')
        LOOP EXECUTE format('GRANT SELECT ON report.site TO %I', reader); END LOOP;
    END $$
    """,
)
_LATER = {"hub_writer": _WRITER, "stay_newest": _NEWEST, "track_label_site": _SITES}  # what version 2 may lack
_NAMES = (
    *("edge_history", "hub_writer", "site_cursor", "source_label", "stay", "track_label"),
    *(f"stay_{number}" for number in range(PARTITIONS)),
)
_WITH_LATER = (*_NAMES, *sorted(_LATER.keys() - {*_NAMES}))
_LOCK = 7_203_884_512  # any number that other programs do not use for their own advisory locks


def create(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Create the tables if none exists, or what version 2 may lack."""
    if not _lacking(connection):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        lacking = _lacking(connection)
        if not _LATER.keys() >= set(lacking) and len(lacking) < len(_WITH_LATER):
            return  # some are lost, see `check_usable`
        connection.execute("SET LOCAL statement_timeout = 0")  # an index of many stays takes minutes
        later = [statement for name in _LATER if name in lacking for statement in _LATER[name]]
        for statement in (*(_TABLES if len(lacking) > len(_LATER) else ()), *later):
            connection.execute(statement.encode())


_FAULTS = """
SELECT name, to_regclass(name) IS NULL FROM unnest(%s::text[]) AS n(name) WHERE to_regclass(name) IS NULL
   OR NOT (SELECT bool_and(has_table_privilege(to_regclass(name), granted))
           FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS r(granted))
ORDER BY 1
"""

_DETACHED = """
SELECT name FROM unnest(%s::text[]) AS n(name) WHERE NOT EXISTS (
    SELECT 1 FROM pg_inherits WHERE inhparent = to_regclass('stay') AND inhrelid = to_regclass(name))
"""


def check_usable(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Raise SetupError if a table is missing, a partition detached, or the role may not use one."""
    faults = connection.execute(_FAULTS, (list(_NAMES),)).fetchall()
    missing = [name for name, is_missing in faults if is_missing and not name.startswith("stay_")] or [
        name for name, is_missing in faults if is_missing
    ]
    if missing:
        raise SetupError(
            f"Tables are missing in PostgreSQL, or their schema is not visible: {', '.join(missing)}. Restore the "
            "database, or give the hub an empty one and restart edge: sites then send their stays again"
        )
    detached = [name for (name,) in connection.execute(_DETACHED, (list(_NAMES[-PARTITIONS:]),))]
    if detached:
        number = detached[0].removeprefix("stay_")
        raise SetupError(
            f"Partitions of the stays are detached in PostgreSQL: {', '.join(detached)}. Attach each: ALTER TABLE stay "
            f"ATTACH PARTITION {detached[0]} FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {number})"
        )
    if faults:
        raise SetupError(
            f"The role of hub.history may not read and write these tables in PostgreSQL: "
            f"{', '.join(name for name, _ in faults)}. Make it their owner: ALTER TABLE ... OWNER TO"
        )


def check_owner(connection: psycopg.Connection[tuple[Any, ...]], hub_id: str = "") -> None:
    """With the id of a hub, let the database become its own.

    Raises SetupError for tables of another version, or of another hub.
    """
    row = connection.execute("SELECT version FROM edge_history").fetchone()
    version = row[0] if row else 0
    if version > VERSION:
        raise SetupError("The tables in PostgreSQL are of a later release of edge; update edge on this hub")
    if version < VERSION:
        raise SetupError(
            "The tables in PostgreSQL are of an earlier release of edge; move the stays back with that release first: "
            "edge hub move-history --back"
        )
    if hub_id and _owner(connection, hub_id) != hub_id:
        raise SetupError("This database has the stays of another hub; give each hub its own, and correct hub.history")


def _owner(connection: psycopg.Connection[tuple[Any, ...]], hub_id: str) -> str | None:
    """Return the id of the hub whose stays are in the database: this one, if there was none."""
    if (owner := _noted_owner(connection)) is None:
        with connection.transaction():
            connection.execute("SET LOCAL synchronous_commit = local")  # a batch is confirmed only after this
            connection.execute("UPDATE edge_history SET hub = %s WHERE hub IS NULL", (hub_id,))
        owner = _noted_owner(connection)
    return owner


def release(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Let any hub use the database, which is empty."""
    connection.execute("UPDATE edge_history SET hub = NULL")
    connection.execute("UPDATE hub_writer SET mark = NULL")


def _noted_owner(connection: psycopg.Connection[tuple[Any, ...]]) -> str | None:
    row = connection.execute("SELECT hub FROM edge_history").fetchone()
    return row[0] if row else None


def _lacking(connection: psycopg.Connection[tuple[Any, ...]]) -> list[str]:
    """Return the tables, and the indexes of later releases, that do not exist."""
    sql = "SELECT name FROM unnest(%s::text[]) AS n(name) WHERE to_regclass(name) IS NULL"
    return [name for (name,) in connection.execute(sql, (list(_WITH_LATER),))]
