"""Several installations in one process, each with its own database file, one open at a time.

Tests compare the contents with their own SQL, directly from the files.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from edge.audit import actors
from edge.audit.actors import shell
from edge.database.connection import FILE_NAME, close_database, database, execute, open_database
from edge.errors import EdgeError, Unavailable
from edge.operations import backup
from edge.operations.backup import Rotation
from edge.people import organizations
from edge.people.secrets import hash_secret
from edge.readers import readers
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.sync import batch_format, hub, verify
from edge.sync.recover import recover
from edge.sync.sender import BatchRefused, HistoryWaits, LinkError, SecondBox, Sender, Stopped
from edge.sync.store import digests, hub_link, mirrors, remote_batches, site_quotas, sites
from edge.sync.store.exchange import AssetRecord, LocationRecord, Peer
from edge.sync.store.hub_link import HubAccess
from edge.tracking import history_engine
from edge.tracking.positions import record
from edge.tracking.postgres import pool
from edge.tracking.stays import Quality, Scan
from tests.databases import make_database
from tests.tracking.postgres.server import Server

SECOND = 1_000_000
HOUR = 3600 * SECOND
GAP = 300 * SECOND
EPOCH = 1_700_000_000 * SECOND


class Box:
    """An installation with one organization."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True)
        self.folder, self.name = folder, name
        close_database()
        make_database(folder)
        # The same ids in each run, so that a seed lives the same life again.
        execute("UPDATE instance SET id_key = ?", (blake2b(name.encode(), digest_size=16).digest(),))
        self.organization_id = organizations.add_organization(actors.shell(), "Acme").id
        self.actor = actors.shell(self.organization_id)
        close_database()

    @contextmanager
    def in_use(self) -> Iterator[Box]:
        close_database()
        open_database(self.folder / FILE_NAME)
        yield self
        close_database()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / FILE_NAME)) as connection:
            return connection.execute(sql).fetchall()

    def back_up(self) -> Path:
        with self.in_use():
            return backup.make_backup(self.folder, self.folder / "backups", Rotation(7, 4)).backup.path

    def restore(self, file: Path) -> None:
        close_database()
        backup.restore_backup(shell(), file, self.folder)

    def copy_files(self) -> Path:
        """Copy the database file, like a snapshot of the machine."""
        close_database()
        return Path(shutil.copy(self.folder / FILE_NAME, self.folder / f"{uuid4()}.db"))

    def copy_back(self, file: Path) -> None:
        close_database()
        shutil.copy(file, self.folder / FILE_NAME)


_LENT = (
    "CREATE TEMP TABLE history (position_no, observed_at, seq, seen_for, source_no, delay, quality, rssi, rule, "
    "PRIMARY KEY (position_no, observed_at, seq))"
)

# Rows of PostgreSQL with an end that is not the begin of the next row of their track.
_WRONG_ENDS = (
    b"SELECT * FROM (SELECT *, lead(observed_at) OVER (PARTITION BY track ORDER BY observed_at, seq) AS following "
    b"FROM stay) s WHERE until IS DISTINCT FROM following OR (level IS NULL) <> (until IS NULL)"
)


class Hub(Box):
    server: Server | None = None  # has the history of new hubs

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name)
        self.history = self.server.new_url() if self.server else ""

    @contextmanager
    def in_use(self) -> Iterator[Hub]:
        """Open it like a new process, which knows nothing of the last one."""
        with super().in_use():
            history_engine.use(self.history, history_engine.this_hub(is_service=True))
            remote_batches.forget()
            try:
                yield self
            finally:
                history_engine.use("")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        if not self.history:
            return super().rows(sql)
        with closing(sqlite3.connect(self.folder / FILE_NAME)) as file:
            file.execute(_LENT)
            with closing(psycopg.connect(self.history)) as remote:
                if remote.execute("SELECT to_regclass('stay')").fetchone() != (None,):
                    assert remote.execute(_WRONG_ENDS).fetchall() == []
                    columns = "track, observed_at, seq, seen_for, source, delay, quality, rssi, rule"
                    stays = remote.execute(f"SELECT {columns} FROM stay".encode()).fetchall()
                    file.executemany("INSERT INTO temp.history VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", stays)
            return file.execute(sql).fetchall()

    def copy_history(self) -> None:
        """Continue with a copy of the history in PostgreSQL, if it is there."""
        if self.server and self.history:
            pool.close()
            self.history = self.server.copy(self.history)

    def add_site(self, code: str) -> int:
        with self.in_use():
            made = sites.add_site(self.actor, code, f"Site {code}", hash_secret(code))
            sites.join(hash_secret(code), hash_secret(f"secret {code}"))
            return made.no

    def permanent_id(self) -> str:
        return str(self.rows("SELECT id FROM hub")[0][0])

    def answer(self, site_no: int, path: str, body: bytes) -> Any:
        with self.in_use():
            site = sites.get_site(self.organization_id, site_no)
            if path == "hello":
                return hub.hello(site, batch_format.unpack(body), len(body))
            if path == "masters":
                return hub.masters(site, batch_format.unpack(body))
            if path == "recover":
                return hub.recover(site, batch_format.unpack(body))
            if path == "digests":
                return hub.digests(site, batch_format.unpack(body))
            return hub.changes(site, body)


class SiteBox(Box):
    """A site with a few locations and one reader. Its link to the hub can be disturbed with `spoil`."""

    pallet: int  # an asset for use by tests

    def __init__(self, folder: Path, code: str, of: Hub) -> None:
        super().__init__(folder, code)
        self.hub = of
        self.site_no = of.add_site(code)
        self.spoil: Callable[[Callable[[], Any]], Any] = lambda send: send()
        with self.in_use():
            self.yard = locations.create(self.actor, name="Yard", external_key="YARD").id
            self.docks = [
                locations.create(self.actor, name=f"Dock {n}", external_key=f"DOCK-{n}", parent_id=self.yard).id
                for n in range(3)
            ]
            self.reader_id = readers.add_reader(self.actor, name=f"Gate {code}", topic=f"{code}/gate", format="edge").id

    def join(self, epoch: str | None = None) -> None:
        """Join for the first time, or again: `epoch` is the last one that the hub has of this site."""
        access = HubAccess("https://hub", self.name, "The hub", f"key of {self.name}", self.hub.permanent_id())
        with self.in_use():
            hub_link.begin(self.actor, access._replace(epoch=epoch))

    def leave(self) -> None:
        with self.in_use():
            hub_link.end(self.actor)

    def follow_restored_hub(self) -> None:
        """Take the code that a restored hub has for this site, and leave if that hub has removed the site."""
        [(self.name, removed_at)] = self.hub.rows(f"SELECT code, removed_at FROM site WHERE no = {self.site_no}")
        if removed_at is not None and self.rows("SELECT 1 FROM target"):
            self.leave()

    def rejoin(self) -> None:
        """Join again with a new code of the same site, after leaving."""
        with self.hub.in_use():
            sites.renew_code(self.hub.actor, self.site_no, hash_secret("return"))
            joined = sites.join(hash_secret("return"), hash_secret("yet another secret"))
        self.join(joined.epoch if joined else None)

    def add_dock(self, key: str) -> None:
        with self.in_use():
            dock = locations.create(self.actor, name=key, external_key=key, parent_id=self.yard)
        self.docks.append(dock.id)

    def add_asset(self, key: str, *tags: str) -> int:
        with self.in_use():
            return self.add_asset_now(key, *tags)

    def add_asset_now(self, key: str, *tags: str) -> int:
        return assets.create(
            self.actor, name=f"Pallet {key}", external_key=key, tags=[NewTag("rfid", tag) for tag in tags]
        ).id

    def scan(self, asset_id: int, dock: int, at: int) -> None:
        with self.in_use():
            self.scan_now(asset_id, dock, at)

    def scan_now(self, asset_id: int, dock: int, at: int) -> None:
        scan = Scan(
            self.organization_id, asset_id, self.docks[dock], self.reader_id, 1, at, at + 7, Quality.READER, -51.5
        )
        record([scan], GAP)

    def call(self, path: str, body: bytes) -> Any:
        """Call the hub, and raise the errors that the site's client would raise."""

        sql = f"SELECT api_key_id FROM site WHERE no = {self.site_no}"
        key = Box.rows(self.hub, sql)

        def send() -> Any:
            if Box.rows(self.hub, sql) != key:
                raise LinkError("a request that arrives late, whose key is revoked meanwhile")
            close_database()
            try:
                return self.hub.answer(self.site_no, path, body)
            except hub.Retired as error:
                raise Stopped(str(error)) from error
            except sites.SecondBox as error:
                raise SecondBox(str(error), error.retry_after_seconds) from error
            except site_quotas.HistoryWaits as error:
                raise HistoryWaits(str(error), error.retry_after_seconds) from error
            except Unavailable as error:
                raise LinkError(str(error), error.retry_after_seconds) from error
            except (EdgeError, batch_format.TooLarge) as error:
                raise BatchRefused(str(error)) from error
            finally:
                open_database(self.folder / FILE_NAME)

        return self.spoil(send)

    def fetch(self) -> None:
        """Fetch the hub's assets for this site."""
        with self.in_use():
            sender = Sender(self.call)
            sender.connect()
            sender.pull()

    def recover(self) -> list[str]:
        """Recover as a new or restored machine. Returns the progress texts."""
        with self.in_use():
            return self._recover()

    def _recover(self) -> list[str]:
        return list(recover(self.actor, self.call))

    def join_again(self) -> None:
        """Join with a new code, after the hub has refused this machine."""
        with self.hub.in_use():
            sites.renew_code(self.hub.actor, self.site_no, hash_secret("again"))
            joined = sites.join(hash_secret("again"), hash_secret("another secret"))
            assert joined
        known = {
            "former_codes": tuple(sites.former_codes(joined)),
            "epoch": joined.epoch,
            "acked_seq": joined.acked_seq,
        }
        access = HubAccess("https://hub", self.name, "The hub", "another key", **known)
        with self.in_use():
            hub_link.renew_key(self.actor, access)

    def sync(self, rounds: int = 50) -> None:
        """Send until no change waits."""
        with self.in_use():
            sender = Sender(self.call)
            sender.connect()
            for _ in range(rounds):
                if sender.push().is_all and not sender.push().rows:
                    return
            raise AssertionError("still not in sync")

    def settle(self, rounds: int = 100) -> None:
        """Sync like the worker until no change waits and a requested comparison finds no difference."""
        with self.in_use():
            here = hub_link.find()
            if here and here.recovering:
                self._recover()
            sender = Sender(self.call)
            sender.connect()
            for _ in range(rounds):
                if not sender.push().is_all:
                    continue
                sender.pull()
                here = hub_link.find()
                assert here
                if not here.verify_wanted:
                    return
                verify.repair(here, verify.compare(here, self.call))
        raise AssertionError("still not in sync")


def apply_records(peer: Peer, *records: AssetRecord | LocationRecord) -> list[str]:
    """Store records of a peer. Returns a text for each refused one. Call in a transaction."""
    aside: list[str] = []
    assets_only = [record for record in records if isinstance(record, AssetRecord)]
    locations_only = [record for record in records if isinstance(record, LocationRecord)]
    for _ in mirrors.apply_in_steps(peer, assets_only, locations_only, aside):
        pass
    return aside


class Kill(BaseException):
    """Simulates a killed process."""


def kill_at_each_commit(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Repeat an action, killed before the first commit, then before the second, until it is complete."""
    commit = database.commit
    for allowed in range(100):
        left = [allowed]

        def commit_or_die(left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Kill
            commit()

        with monkeypatch.context() as patched:
            patched.setattr(database, "commit", commit_or_die)
            try:
                do()
            except Kill:
                close_database()
                continue
        assert allowed, "nothing was committed"
        return
    raise AssertionError("it never ends")


_SITE_HISTORY = """
SELECT a.external_key, a.created_at, l.external_key, h.observed_at, h.seq, h.seen_for, r.name,
       s.port, h.delay, h.quality, h.rule, h.rssi
FROM history h JOIN track t ON t.no = h.position_no JOIN asset a ON a.id = t.asset_id
JOIN source s ON s.no = h.source_no JOIN location l ON l.id = s.location_id LEFT JOIN reader r ON r.id = s.reader_id
ORDER BY 1, 2, 4, 5
"""
_HUB_HISTORY = """
SELECT a.external_key, a.created_at, substr(l.external_key, {prefix}), h.observed_at, h.seq, h.seen_for,
       n.name, s.port, h.delay, h.quality, h.rule, h.rssi
FROM history h JOIN track t ON t.no = h.position_no JOIN asset a ON a.id = t.asset_id
JOIN source s ON s.no = h.source_no JOIN location l ON l.id = s.location_id
LEFT JOIN remote_name n ON n.site_no = t.site_no AND n.kind = 4 AND n.remote_id = s.remote_reader
WHERE t.site_no = {site} ORDER BY 1, 2, 4, 5
"""
_SITE_TRACKS = """
SELECT a.external_key, a.created_at, l.external_key, t.last_seen_at, t.dwell_started_at, t.row_at, t.row_seq,
       t.row_rule, t.history_rows
FROM track t JOIN asset a ON a.id = t.asset_id JOIN location l ON l.id = t.location_id ORDER BY 1, 2
"""
_HUB_TRACKS = """
SELECT a.external_key, a.created_at, substr(l.external_key, {prefix}), t.last_seen_at, t.dwell_started_at, t.row_at,
       t.row_seq, t.row_rule, t.history_rows
FROM track t JOIN asset a ON a.id = t.asset_id JOIN location l ON l.id = t.location_id WHERE t.site_no = {site}
ORDER BY 1, 2
"""
_ASSETS = """
SELECT a.external_key, a.name, a.description, a.is_active, a.metadata, a.valid_from, a.valid_to, a.created_at,
       a.updated_at, a.deleted_at, (SELECT group_concat(tag_type || ':' || value, ' ') FROM (
           SELECT tag_type, value FROM tag WHERE asset_id = a.id AND deleted_at IS NULL ORDER BY 1, 2))
FROM asset a {where} ORDER BY 1, 8
"""
_LOCATIONS = """
SELECT substr(l.external_key, {prefix}), l.name, l.is_active, l.created_at, l.updated_at, l.deleted_at,
       l.valid_from, l.valid_to, CASE WHEN p.id {root} THEN NULL ELSE substr(p.external_key, {prefix}) END
FROM location l LEFT JOIN location p ON p.id = l.parent_id {where} ORDER BY 1, 4
"""


def assert_equal(site: SiteBox) -> None:
    """Check that hub and site have equal data, except history that the site's retention deleted."""
    here, there = site_dump(site), hub_dump(site)
    horizon = site.rows("SELECT horizon FROM target")[0][0]
    kept_longer = [row for row in there["history"] if row not in here["history"]]
    assert all(row[3] + row[5] < horizon for row in kept_longer), kept_longer
    there["history"] = [row for row in there["history"] if row in here["history"]]
    if horizon:
        for dump in (here, there):
            dump["tracks"] = [row[:-1] for row in dump["tracks"]]
    for table in here:
        wrong_here = [row for row in here[table] if row not in there[table]]
        wrong_there = [row for row in there[table] if row not in here[table]]
        assert (wrong_here, wrong_there) == ([], []), f"{table}: only here {wrong_here}, only there {wrong_there}"
    wrong = "SELECT no FROM track WHERE history_rows <> (SELECT count(*) FROM history WHERE position_no = track.no)"
    assert site.hub.rows(wrong) == []


_LIVE_ASSETS = _ASSETS.format(where="WHERE a.deleted_at IS NULL {whose}")


def assert_copies(site: SiteBox) -> None:
    """Check that the site has equal copies of the hub's live assets, except its own, and no other copies."""
    here = site.rows(_LIVE_ASSETS.format(whose="AND a.id IN (SELECT record_id FROM mirror)"))
    whose = f"AND a.id NOT IN (SELECT record_id FROM mirror WHERE peer = {site.site_no})"
    there = site.hub.rows(_LIVE_ASSETS.format(whose=whose))
    only_here, only_there = [row for row in here if row not in there], [row for row in there if row not in here]
    assert (only_here, only_there) == ([], []), f"{site.name}: only here {only_here}, only there {only_there}"


def assert_digests(box: Box) -> None:
    """Check that every stored digest equals the one computed from the history."""
    with box.in_use():
        digests.catch_up()
        stored: dict[int, dict[int, digests.Digest]] = {}
        for site_no, day, *digest in execute("SELECT * FROM history_digest WHERE row_count IS NOT NULL"):
            stored.setdefault(site_no, {})[day] = (digest[0], digest[1])
        for site_no, by_day in stored.items():
            scope = digests.Scope(box.organization_id, site_no or None)
            computed = digests.by_day(scope, digests.ALL_DAYS)
            wrong = {day: digest for day, digest in by_day.items() if computed.get(day, (0, 0)) != digest}
            assert wrong == {}, f"{box.name}, site {site_no}: {wrong} stored, {computed} computed"


def site_dump(site: SiteBox) -> dict[str, list[tuple[Any, ...]]]:
    return {
        "history": site.rows(_SITE_HISTORY),
        "tracks": site.rows(_SITE_TRACKS),
        "assets": site.rows(_ASSETS.format(where="WHERE a.id NOT IN (SELECT record_id FROM mirror)")),
        "locations": site.rows(_LOCATIONS.format(prefix=1, root="IS NULL", where="")),
    }


def hub_dump(site: SiteBox) -> dict[str, list[tuple[Any, ...]]]:
    """Return the hub's data of one site."""
    mine = {"site": site.site_no, "prefix": len(site.name) + 2}
    own = f"JOIN mirror m ON m.record_id = {{}}.id AND m.peer = {site.site_no}"
    root = f"= (SELECT location_id FROM site WHERE no = {site.site_no})"
    return {
        "history": site.hub.rows(_HUB_HISTORY.format(**mine)),
        "tracks": site.hub.rows(_HUB_TRACKS.format(**mine)),
        "assets": site.hub.rows(_ASSETS.format(where=own.format("a"))),
        "locations": site.hub.rows(_LOCATIONS.format(prefix=mine["prefix"], root=root, where=own.format("l"))),
    }
