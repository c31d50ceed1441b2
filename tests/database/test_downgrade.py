"""Downgrade: the database of an earlier release again, with all rows that fit it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from edge import clock
from edge.audit.actors import shell
from edge.cli import cli
from edge.database import change_log, migrate, triggers
from edge.database.change_log import Kind
from edge.database.connection import FILE_NAME, close_database, database, execute, open_database, writing
from edge.database.downgrade import NEWER_VALUES, ONE_WAY, downgrade
from edge.database.triggers import Follower
from edge.errors import SetupError
from edge.events.destinations import DestinationKind
from edge.events.log import EventKind
from edge.operations.snapshots import inspect_copy
from edge.people import organizations
from edge.readers.ledger import Bucket
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.rules.channels.kinds import KINDS
from edge.rules.conditions import Condition
from edge.rules.outputs.forms import Form
from edge.tracking import recent_reads
from edge.tracking.recent_reads import READ
from edge.upstream.counterparts import TroubleKind
from tests.operations import damage
from tests.operations.conftest import fresh_site

RELEASED = 21  # the schema of 0.2.0
NEWER = """
CREATE TABLE extra (id INTEGER PRIMARY KEY, asset_id INTEGER REFERENCES asset (id)) STRICT;
CREATE INDEX extra_asset ON extra (asset_id);
ALTER TABLE asset ADD COLUMN extra_id INTEGER REFERENCES extra (id);
CREATE INDEX asset_extra ON asset (extra_id);
CREATE TRIGGER extra_added AFTER INSERT ON asset BEGIN INSERT INTO extra (asset_id) VALUES (new.id); END;
INSERT INTO extra (asset_id) SELECT id FROM asset;
UPDATE asset SET extra_id = (SELECT id FROM extra WHERE asset_id = asset.id);
"""


def rows(file: Path) -> dict[str, Any]:
    """Return all rows of all tables, and the schema."""
    with closing(sqlite3.connect(file)) as connection:
        objects = migrate.schema_of(connection)
        tables = [item.name for item in objects if item.kind == "table" and "VIRTUAL" not in item.sql]
        found: dict[str, Any] = {name: sorted(connection.execute(f"SELECT * FROM {name}"), key=repr) for name in tables}
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return found | {"": objects}


@pytest.fixture(scope="session")
def used_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("used") / "data"
    with fresh_site(folder):
        organizations.add_organization(shell(), "Acme")
        damage.make_site(folder)
    return folder


@pytest.fixture(scope="session")
def schema_without_sync(used_site: Path) -> set[Any]:
    with closing(sqlite3.connect(used_site / FILE_NAME)) as connection:
        return migrate.schema_of(connection)


@pytest.fixture(scope="session")
def used_with_sync(used_site: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return a used site with the triggers of sync, events and Litestream, and all its rows."""
    folder = shutil.copytree(used_site, tmp_path_factory.mktemp("synced") / "data")
    open_database(folder / FILE_NAME)
    for statement in (*triggers.optional(migrate.newest_schema()), *migrate.OF_LITESTREAM):
        execute(statement)
    execute(
        "INSERT INTO target (one, organization_id, url, code, hub_name, client_id, joined_at, epoch) "
        "SELECT 1, id, 'https://hub', 'BER', 'hub', 'edge_1', 0, '0' FROM organization LIMIT 1"
    )
    execute('INSERT INTO follower SELECT value, (SELECT max(seq) FROM change) FROM json_each(\'["events", "site"]\')')
    close_database()
    return folder, rows(folder / FILE_NAME)


@pytest.fixture
def rows_with_sync(used_with_sync: tuple[Path, dict[str, Any]]) -> dict[str, Any]:
    return used_with_sync[1]


@pytest.fixture
def site_with_sync(used_with_sync: tuple[Path, dict[str, Any]], tmp_path: Path) -> Iterator[Path]:
    yield shutil.copytree(used_with_sync[0], tmp_path / "data")
    close_database()


@pytest.fixture
def site(used_site: Path, tmp_path: Path) -> Iterator[Path]:
    """Return the data directory of a used site, with its database ready to open."""
    folder = shutil.copytree(used_site, tmp_path / "data")
    open_database(folder / FILE_NAME)
    yield folder
    close_database()


def add_step(monkeypatch: pytest.MonkeyPatch, sql: str) -> int:
    steps = [*migrate._steps(), ("9999_extra", sql)]
    monkeypatch.setattr(migrate, "_steps", lambda: steps)
    return len(steps) - 1


def test_a_used_site_is_the_same_after_an_upgrade_and_a_downgrade(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows(site / FILE_NAME)
    number = add_step(monkeypatch, NEWER)
    migrate.migrate(site, keeps_copy=False)
    organization_id = organizations.find_organization(None).id
    later = assets.create(shell(organization_id), name="Later", tags=[NewTag("rfid", "E2801160600002054CC2096F")])
    close_database()
    done = downgrade(site, number)
    assert done.schema_before == number + 1
    assert {name for name in done.dropped if " " not in name} == {"extra"}
    after = rows(site / FILE_NAME)
    assert after[""] == before[""]
    for name in ("location", "history", "track", "person", "reader", "handheld_scan", "ledger"):
        assert before[name] == after[name]
    assert set(map(repr, before["asset"])) < set(map(repr, after["asset"]))
    migrate.migrate(site)
    assert execute("SELECT name FROM asset WHERE id = ?", (later.id,)).fetchone() == ("Later",)


@pytest.mark.parametrize("number", range(RELEASED, migrate.newest_schema() + 1))
def test_every_step_since_the_last_release_can_be_undone(
    site_with_sync: Path, rows_with_sync: dict[str, Any], schema_without_sync: set[Any], number: int
) -> None:
    """A step that cannot needs the line ONE_WAY, with the reason for the technician."""
    site = site_with_sync
    steps = migrate.steps_after(number, migrate.newest_schema())
    if any(ONE_WAY in sql for _, sql in steps):
        with pytest.raises(SetupError, match="cannot be undone"):
            downgrade(site, number)
        return
    downgrade(site, number)
    inspect_copy(site / FILE_NAME)
    with closing(sqlite3.connect(":memory:")) as fresh, closing(sqlite3.connect(site / FILE_NAME)) as downgraded:
        migrate.create_schema(fresh, number)
        assert migrate.schema_of(fresh) <= migrate.schema_of(downgraded)
        assert_writable(downgraded, number)
    migrate.migrate(site, keeps_copy=False)
    close_database()
    after = rows(site / FILE_NAME)
    assert schema_without_sync <= after.pop("")
    assert {name: len(after[name]) for name in after} == {name: len(rows_with_sync[name]) for name in after}
    for name in ("asset", "location", "tag", "history", "track", "person", "reader"):
        assert after[name] == rows_with_sync[name]


def assert_writable(downgraded: sqlite3.Connection, number: int) -> None:
    """Write without a commit. A trigger that stays without its table would stop every write."""
    for table, column in (("history", "observed_at"), ("track", "site_no"), ("asset", "name"), ("tag", "value")):
        assert downgraded.execute(f"UPDATE {table} SET {column} = {column}").rowcount
    kept = {item.name for item in migrate.schema_of(downgraded) if item.kind == "trigger"}
    assert {"change_stay_added", "change_person_renamed"} <= kept
    assert ("event_stay_added" in kept) == (number <= triggers.LAST_WITH_FORMER_LOG)


def test_the_index_and_digests_of_an_earlier_release_follow_the_log_after_an_upgrade(site: Path) -> None:
    for follower in (Follower.PAST, Follower.DIGESTS):
        with writing():
            change_log.begin(follower)
    kept = {"past_stay": "1, 2, 3, 4, 5, 6", "past_stay_build": "1, NULL", "history_digest": "0, 7, 8, 9"}
    for table, values in kept.items():
        execute(f"INSERT INTO {table} VALUES ({values})")
    execute("UPDATE history SET seen_for = seen_for + 1")
    close_database()
    downgrade(site, triggers.LAST_WITH_FORMER_DIGESTS)
    with closing(sqlite3.connect(site / FILE_NAME)) as connection:
        assert [connection.execute(f"SELECT count(*) FROM {table}").fetchone() for table in kept] == [(0,)] * 3
        assert connection.execute("SELECT count(*) FROM follower").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM change").fetchone() == (0,)
        former = [sql for sql, _ in triggers.former(triggers.LAST_WITH_FORMER_DIGESTS)]
        for statement in former:
            connection.execute(statement)
        for table, values in kept.items():
            connection.execute(f"INSERT INTO {table} VALUES ({values})")
        connection.commit()
    inspect_copy(site / FILE_NAME)
    migrate.migrate(site, keeps_copy=False)
    assert [execute(f"SELECT count(*) FROM {table}").fetchone() for table in kept] == [(1,)] * 3
    assert set(execute("SELECT name FROM follower")) == {("past",), ("digests",)}
    assert not set(execute("SELECT sql FROM sqlite_schema WHERE type = 'trigger'")) & {(sql,) for sql in former}
    execute("UPDATE history SET seen_for = seen_for + 1")
    assert change_log.has_news(Follower.PAST)
    assert change_log.has_news(Follower.DIGESTS)


def test_an_earlier_release_has_the_reads_of_the_last_minutes(site: Path) -> None:
    now, reads = clock.now(), [READ.pack(1, 2, 3, -50.0, 1, 1, 0, number) for number in range(20)]
    for number, one in enumerate(reads):
        recent_reads.insert_batch(now + number * clock.SECOND, now, 0, one)
    assert execute("SELECT count(*) > 10 FROM recent_read WHERE reads = x''").fetchone() == (1,)
    kept = list(recent_reads.stored_reads("true ORDER BY no", ()))
    close_database()
    downgrade(site, 62)
    with closing(sqlite3.connect(site / FILE_NAME)) as connection:
        assert [row for (row,) in connection.execute("SELECT reads FROM recent_read ORDER BY no")] == kept
    assert kept[-20:] == reads


def test_a_downgraded_hub_knows_the_newest_of_several_tracks_after_a_read(site: Path) -> None:
    for statement in triggers.NEWEST_TRACK.values():
        execute(statement)
    close_database()
    downgrade(site, triggers.LAST_WITH_NEWEST_SEEN)
    inspect_copy(site / FILE_NAME)
    with closing(sqlite3.connect(site / FILE_NAME)) as connection:
        assert _newest_after_a_read(connection) == [(0,), (1,)]
    migrate.migrate(site, keeps_copy=False)
    names = [name for (name,) in execute("SELECT name FROM sqlite_schema WHERE name LIKE 'track_newest_%'")]
    assert "track_newest_seen" not in names
    assert "track_newest_read" in names
    assert _newest_after_a_read(database.connection()) == [(0,), (1,)]


def _newest_after_a_read(connection: sqlite3.Connection) -> list[tuple[int]]:
    """Add a track of another site to an asset and read there. Returns whether each is the newest."""
    connection.execute("PRAGMA foreign_keys = 0")
    asset_id = connection.execute("SELECT asset_id FROM track ORDER BY no LIMIT 1").fetchone()[0]
    connection.execute("DELETE FROM track WHERE asset_id = ? AND site_no = 7", (asset_id,))
    connection.execute(
        "INSERT INTO track (asset_id, site_no, remote_no, organization_id, location_id, last_seen_at, "
        "dwell_started_at, row_at, row_seq, history_rows) "
        "SELECT asset_id, 7, 7, organization_id, location_id, 0, 0, 0, 0, 0 FROM track WHERE asset_id = ? LIMIT 1",
        (asset_id,),
    )
    connection.execute("UPDATE track SET last_seen_at = 1 << 60 WHERE asset_id = ? AND site_no = 7", (asset_id,))
    found = connection.execute("SELECT is_newest FROM track WHERE asset_id = ? ORDER BY no", (asset_id,)).fetchall()
    connection.commit()
    return found


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (f"{ONE_WAY} times are in local time\nCREATE TABLE extra (a INTEGER) STRICT;", "times are in local time"),
        ("DROP TABLE antenna_kind;", "Table antenna_kind was removed"),
        ("ALTER TABLE asset DROP COLUMN description;", "Columns of asset were removed by a newer release: description"),
    ],
)
def test_what_cannot_be_undone_is_refused_and_changes_nothing(
    site: Path, monkeypatch: pytest.MonkeyPatch, sql: str, message: str
) -> None:
    number = add_step(monkeypatch, sql)
    migrate.migrate(site, keeps_copy=False)
    close_database()
    before = rows(site / FILE_NAME)
    with pytest.raises(SetupError, match=message):
        downgrade(site, number)
    assert rows(site / FILE_NAME) == before


# Text columns with the values of an enumeration and without CHECK, and the values that every release knows that has the
# column. A value that is added here without an entry in NEWER_VALUES would stop the previous release.
ENUMERATIONS: dict[tuple[str, str], tuple[Iterable[str], str]] = {
    ("event", "kind"): (
        EventKind,
        "asset.moved asset.arrived asset.unseen asset.created asset.changed asset.deleted reader.offline reader.online",
    ),
    ("upstream_record", "trouble_kind"): (TroubleKind, "changed there,taken there,refused,waits"),
    ("rule", "kind"): (Condition, "enters leaves passes stays unseen more fewer offline battery unhealthy"),
    ("alert", "kind"): (Condition, "enters leaves passes stays unseen more fewer offline battery unhealthy"),
    ("destination", "kind"): (
        [*KINDS, *Form, *DestinationKind],
        "email ntfy webhook shelly shelly1 tasmota zigbee2mqtt topic mqtt stream",
    ),
    ("ledger", "bucket"): (
        Bucket,
        "recorded repeat unmatched_tag ambiguous_tag no_location filtered malformed too_large unknown_topic status "
        "ignored held dropped retained",
    ),
}


def test_every_value_that_an_earlier_release_does_not_know_says_what_becomes_of_it() -> None:
    for (table, column), (enumeration, known) in ENUMERATIONS.items():
        values = set(known.split("," if "," in known else " "))
        newer = {one.value for one in NEWER_VALUES if (one.table, one.column) == (table, column)}
        assert {str(value) for value in enumeration} == values | newer, f"{table}.{column}"
    assert {(one.table, one.column) for one in NEWER_VALUES} <= ENUMERATIONS.keys()


@pytest.mark.parametrize(("number", "left"), [(17, 8), (RELEASED, 8), (30, 10), (52, 11)])
def test_an_earlier_release_gets_only_events_of_kinds_that_it_knows(site: Path, number: int, left: int) -> None:
    """Regression: it stopped at the first event of another kind, once a minute and for all destinations."""
    organization_id = organizations.find_organization(None).id
    execute("DELETE FROM event")
    for kind in EventKind:
        columns = "nonce, organization_id, kind, subject_id, at, made_at, within, within_before, data"
        execute(
            f"INSERT INTO event ({columns}) VALUES ('n', ?, ?, 1, 1, 1, '[]', '[]', '{{}}')", (organization_id, kind)
        )
    close_database()
    done = downgrade(site, number)
    assert execute("SELECT count(*) FROM event").fetchone() == (left,)
    assert sum(done.dropped.get(f"event {kind}", 0) for kind in EventKind) == 11 - left


@pytest.mark.parametrize("number", [0, 999])
def test_an_unknown_schema_is_refused(site: Path, number: int) -> None:
    with pytest.raises(SetupError, match="this release knows 1 to"):
        downgrade(site, number)


def test_from_a_shell(site: Path) -> None:
    said = CliRunner().invoke(cli, [f"--set=data_dir={site}", "downgrade-database", str(RELEASED)])
    assert f"to {RELEASED}; left out: nothing" in said.output, said.exception


def test_the_loss_of_the_setting_that_hides_people_is_told(site: Path) -> None:
    """Regression: people became visible to everyone, and the technician read only the name of a table."""
    organization_id = organizations.find_organization(None).id
    columns = "organization_id, key_prefix, metadata_name, metadata_value, seen_by, muster_by, is_in_api"
    values = "?, 'P-', '', '', 'editor', 'editor', 0, 30, 30"
    execute(f"INSERT INTO people_setting ({columns}, history_days, report_days) VALUES ({values})", (organization_id,))
    close_database()
    said = CliRunner().invoke(cli, [f"--set=data_dir={site}", "downgrade-database", str(RELEASED)])
    assert "people_setting (1 rows)" in said.output, said.exception
    assert "everyone who may see assets can now see where they are" in said.output.splitlines()[-1]


def test_locations_keep_their_parents(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that refers to itself is rebuilt with its references."""
    organization_id = organizations.find_organization(None).id
    hall = locations.create(shell(organization_id), name="Hall")
    shelf = locations.create(shell(organization_id), name="Shelf", parent_id=hall.id)
    number = add_step(monkeypatch, "ALTER TABLE location ADD COLUMN extra TEXT;")
    migrate.migrate(site, keeps_copy=False)
    close_database()
    downgrade(site, number)
    assert execute("SELECT parent_id FROM location WHERE id = ?", (shelf.id,)).fetchone() == (hall.id,)


def test_what_waits_for_followers_waits_in_an_earlier_release_and_again_in_this_one(site_with_sync: Path) -> None:
    """Tables had it until schema 64, and its rows go back and forth with the database."""
    site = site_with_sync
    with closing(sqlite3.connect(site / FILE_NAME)) as connection:
        connection.execute("INSERT INTO epcis (one) VALUES (1)")
        connection.execute("INSERT INTO follower SELECT 'epcis', (SELECT max(seq) FROM change)")
        asset_id, track = connection.execute("SELECT asset_id, no FROM track LIMIT 1").fetchone()
        source, place = connection.execute("SELECT no, location_id FROM source LIMIT 1").fetchone()
        connection.execute("UPDATE asset SET name = 'Renamed' WHERE id = ?", (asset_id,))
        connection.execute("INSERT INTO change (kind, a) VALUES (2, 7)")  # sent again, which is no news
        connection.execute("UPDATE track SET is_newest = 1 - is_newest WHERE no = ?", (track,))
        connection.execute("INSERT INTO change (kind, a, b, c) VALUES (8, 5, 1, 1), (8, 6, 1, NULL)")
        connection.execute("INSERT INTO history VALUES (?, 8765, 9, 0, ?, 0, 0, NULL, 0)", (track, source))
        connection.execute(
            "INSERT INTO carrier_load (asset_id, loaded_at, carrier_id) VALUES (?1, 4321, ?1)", (asset_id,)
        )
        connection.execute("UPDATE sqlite_sequence SET seq = seq + 5 WHERE name = 'change'")  # claimed by sync
        (newest,) = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'change'").fetchone()
        connection.commit()
    downgrade(site, triggers.LAST_WITH_FORMER_LOG)
    with closing(sqlite3.connect(site / FILE_NAME)) as connection:
        assert connection.execute("SELECT kind, key FROM event_candidate ORDER BY no").fetchall() == [
            *((3, asset_id), (2, asset_id), (4, 5), (1, track))
        ]
        assert connection.execute(
            "SELECT asset_id, at, kind, place_id FROM epcis_pending ORDER BY kind"
        ).fetchall() == [*((asset_id, 8000, 1, place), (asset_id, 4000, 2, asset_id))]
        assert connection.execute("SELECT max(kind) < 12 FROM change").fetchone() == (1,)
        sequence = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'change'").fetchall()
        assert sequence == [(newest,)], "a hub that has this number would never get a change with a lower one"
    migrate.migrate(site, keeps_copy=False)
    with writing():
        taken = {one: change_log.take(one, 100) for one in (Follower.EPCIS, Follower.EVENTS)}
    news = [(Kind(one.kind), one.a, one.c) for one in taken[Follower.EVENTS] if one.kind < Kind.EPCIS]
    assert news == [
        *((Kind.ASSET, asset_id, 1), (Kind.POSITION, asset_id, None), (Kind.PASSAGE, 5, 1)),
        (Kind.POSITION, asset_id, None),
    ]
    events = [(one.a, one.b, one.c, one.before) for one in taken[Follower.EPCIS] if one.kind == Kind.EPCIS]
    assert sorted(events) == [(asset_id, 4000, asset_id, "[2,0,0]"), (asset_id, 8000, place, "[1,0,0]")]
    assert execute("SELECT name FROM follower ORDER BY name").fetchall() == [("epcis",), ("events",), ("site",)]
