"""A copy kept by the reader of the manual equals the box, whatever happens on it and to the answers."""

from __future__ import annotations

import gzip
import json
import random
import shutil
import sqlite3
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from flask.testing import FlaskClient

from edge import clock
from edge.audit.actors import person, shell
from edge.database import change_log
from edge.database.connection import FILE_NAME, close_database, execute, open_database, writing
from edge.feed import cursors, pages, rows
from edge.feed.rows import Scope
from edge.handhelds import scans
from edge.handhelds.scans import Submitted
from edge.people import api_keys, people, tokens
from edge.people.people import Role
from edge.people.secrets import hash_secret
from edge.readers import readers
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.sync.store import epochs, outgoing
from edge.tracking import deletion, tracked_people
from edge.tracking.positions import record
from edge.tracking.stays import Quality, Scan
from edge.tracking.tracked_people import PeopleSetting
from edge.validation import json_text
from tests.application import make_app
from tests.conftest import Cast
from tests.manual.documents import marked
from tests.tracking.postgres.copies import copied_stays

SECOND = 1_000_000
HOUR = 3600 * SECOND
EPOCH = 1_700_000_000 * SECOND
GAP = 300 * SECOND
STEPS = 250


def reader_of_the_manual() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "reader"}
    code = marked("run:feed-reader").code.replace("BOX, CLIENT, SECRET = sys.argv[1:4]", "")
    exec(compile(code, "feed.md", "exec"), names)  # noqa: S102  the program of the manual
    return names


class Box(NamedTuple):
    organization_id: int
    client: FlaskClient
    headers: dict[str, str]
    history: str = ""  # URL of a database that has a copy of the stays during each request

    def get(self, cursor: str = "", query: str = "") -> Any:
        with copied_stays(self.history):
            return self.client.get(f"/feed/changes?{f'cursor={cursor}' if cursor else query}", headers=self.headers)


@pytest.fixture
def box(cast: Cast, history: str) -> Box:
    return box_of(cast.acme)._replace(history=history)


def box_of(organization_id: int, scopes: tuple[str, ...] = (api_keys.FEED_SCOPE,)) -> Box:
    key = api_keys.add_key(shell(organization_id), "Analysts", scopes, hash_secret("secret"))
    pair = tokens.exchange("production", key.id, "secret")
    assert pair
    client = make_app().test_client()
    return Box(organization_id, client, {"Authorization": f"Bearer {pair.access_token}", "User-Agent": "mirror/1.0"})


class Mirror:
    def __init__(self, box: Box) -> None:
        self.box = box
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        weakref.finalize(self, self.db.close)
        self.apply: Callable[[sqlite3.Connection, bytes], bool | None] = reader_of_the_manual()["apply"]

    @property
    def cursor(self) -> str:
        if not self.db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'place'").fetchone():
            return ""
        row = self.db.execute("SELECT cursor FROM place").fetchone()
        return row[0] if row else ""

    def follow(self) -> None:
        for _ in range(500):
            answer = self.box.get(self.cursor)
            if answer.status_code == 410:
                self.db.execute("DELETE FROM place")
                continue
            assert answer.status_code == 200, answer.text
            if not self.apply(self.db, answer.data):
                return
        raise AssertionError("the feed has no end")

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        if not self.db.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchone():
            return []
        return sorted(self.db.execute(f"SELECT * FROM {table}").fetchall(), key=repr)


def truth(organization_id: int, table: str, *, hides_people: bool = True) -> list[tuple[Any, ...]]:
    """Return the rows of the box as the feed shows them, read directly."""
    scope = Scope(organization_id, None, hides_people=hides_people)
    owner = (organization_id,)
    if table == "stay":
        numbers = [no for (no,) in execute("SELECT no FROM track WHERE organization_id = ?", owner)]
        known = rows.tracks(scope, numbers)
        with rows.lending_oldest(known, known, 1_000):
            lines = [line for no in known for line in rows.stays_after(known, no, -(1 << 62), -1, -1)[0]]
    elif table == "passage":
        found = execute("SELECT no FROM passage WHERE organization_id = ?", owner)
        lines = rows.passages(scope, {no: None for (no,) in found})
    else:
        source = "asset" if table == "tag" else table
        ids = [no for (no,) in execute(f"SELECT id FROM {source} WHERE organization_id = ?", owner)]
        lines = rows.records(scope, source, ids)
        if table == "tag":
            ids = [no for (no,) in execute("SELECT id FROM location WHERE organization_id = ?", owner)]
            lines += rows.records(scope, "location", ids)
    shown = [json.loads(json_text.encode(line)) for line in lines if line["op"] == "put" and line["table"] == table]
    values = [
        tuple(json.dumps(value) if isinstance(value, dict) else value for value in line["row"].values())
        for line in shown
    ]
    return sorted(values, key=repr)


TABLES = ("asset", "location", "tag", "stay", "passage")


def assert_equal(mirror: Mirror, *, hides_people: bool = True) -> None:
    for table in TABLES:
        assert mirror.rows(table) == truth(mirror.box.organization_id, table, hides_people=hides_people), table


class Day:
    """Random activity: scans in any order, by hand and undone, changes of records, deletions, people."""

    def __init__(self, organization_id: int, seed: int, topic: str = "portal") -> None:
        self.organization_id, self.chance = organization_id, random.Random(seed)
        self.actor = shell(organization_id)
        self.assets = [self._asset(number) for number in range(4)]
        self.places = [locations.create(self.actor, name=f"Dock {number}").id for number in range(3)]
        self.reader = readers.add_reader(self.actor, name="Portal", topic=topic, format="edge").id
        self.ann = person(organization_id, people.add_person(self.actor, "Ann", Role.OPERATOR).id, "Ann")
        self.door = self._door()
        self.scans: list[str] = []
        self.number = 100

    def _asset(self, number: int) -> int:
        return assets.create(self.actor, name=f"Pallet {number}", external_key=f"P-{number}").id

    def _door(self) -> int:
        with writing():
            row = execute(
                "INSERT INTO door (organization_id, name, created_at) VALUES (?, 'Gate', 0) RETURNING id",
                (self.organization_id,),
            ).fetchone()
        return int(row[0])

    def step(self) -> None:
        often = [self.scan] * 8 + [self.scan_by_hand] * 3 + [self.undo] * 3
        seldom = [self.add, self.delete, self.rename, self.tag, self.move, self.pass_door, self.become, self.prune]
        self.chance.choice(often + seldom)()

    def moment(self) -> int:
        return EPOCH + self.chance.randrange(24) * HOUR // 2 + self.chance.randrange(4) * SECOND

    def scan(self) -> None:
        count = self.chance.randrange(1, 4)
        at = [self.moment() for _ in range(count)]
        made = [(self.chance.choice(self.assets), self.chance.choice(self.places), one) for one in at]
        read = [
            Scan(self.organization_id, asset, place, self.reader, 1, one, one + SECOND, Quality.READER)
            for asset, place, one in made
        ]
        record(read, GAP)

    def scan_by_hand(self) -> None:
        self.number += 1
        asset = assets.get(self.organization_id, self.chance.choice(self.assets))
        scan = Submitted(f"{self.number:026}", asset.external_key, self.chance.choice(self.places), self.moment())
        self.scans.append(scan.id)
        scans.submit(self.ann, [scan], EPOCH + 100 * HOUR)

    def undo(self) -> None:
        if self.scans:
            scans.undo(self.ann, self.scans.pop(self.chance.randrange(len(self.scans))), GAP)

    def add(self) -> None:
        self.number += 1
        self.assets.append(self._asset(self.number))

    def delete(self) -> None:
        if len(self.assets) > 2:
            assets.delete(self.actor, self.assets.pop())

    def rename(self) -> None:
        self.number += 1
        assets.rename(self.actor, self.chance.choice(self.assets), f"K-{self.number}")

    def become(self) -> None:
        """An asset becomes a person, or ceases to be one."""
        kind = self.chance.choice(["person", "pallet"])
        assets.patch(self.actor, self.chance.choice(self.assets), {"metadata": json.dumps({"kind": kind})})

    def tag(self) -> None:
        self.number += 1
        asset = assets.get(self.organization_id, self.chance.choice(self.assets))
        if asset.tags and self.chance.random() < 0.5:
            assets.detach_tag(self.actor, asset.id, asset.tags[0].id)
        else:
            assets.attach_tag(self.actor, asset.id, NewTag("rfid", f"E{self.number}"))

    def move(self) -> None:
        locations.patch(self.actor, self.chance.choice(self.places), {"name": f"Dock {self.chance.randrange(9)}"})

    def pass_door(self) -> None:
        at = self.moment()
        with writing():
            execute(
                "INSERT INTO passage (organization_id, door_id, asset_id, at, direction, confidence, inner_reads, "
                "outer_reads, since, until, decided_at) VALUES (?, ?, ?, ?, 1, 900, 1, 1, ?, ?, ?)",
                (self.organization_id, self.door, self.chance.choice(self.assets), at, at, at, at),
            )
            execute("UPDATE passage SET direction = 4 WHERE no % 3 = 0 AND direction <> 4")

    def prune(self) -> None:
        """People's history ends first, and copies of it, too."""
        deletion.drop_history_of_people(self.organization_id, EPOCH + 3 * HOUR)


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MOST_CHANGES", 5)
    monkeypatch.setattr(pages, "MOST_ROWS", 4)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("seed", range(4))
def test_a_copy_equals_the_box_after_a_day(box: Box, seed: int) -> None:
    setting = PeopleSetting(metadata_name="kind", metadata_value="person", history_days=1)
    tracked_people.save(shell(box.organization_id), setting)
    day = Day(box.organization_id, seed)
    mirror = Mirror(box)
    for _ in range(20):
        day.step()
    for step in range(STEPS):
        if day.chance.random() < 0.3:  # also in the middle of a first copy
            answer = box.get(mirror.cursor)
            if day.chance.random() < 0.5:
                mirror.apply(mirror.db, answer.data)
        if step % 50 == 49:
            is_shown = day.chance.random() < 0.5
            tracked_people.save(shell(box.organization_id), setting._replace(is_in_api=is_shown))
            mirror.follow()
            assert_equal(mirror, hides_people=not is_shown)
        day.step()
    mirror.follow()
    assert_equal(mirror, hides_people=not tracked_people.setting(box.organization_id).is_in_api)
    assert mirror.rows("stay")


def test_a_page_that_was_cut_off_changes_nothing(box: Box) -> None:
    day = Day(box.organization_id, 1)
    mirror = Mirror(box)
    mirror.follow()
    for _ in range(10):
        day.scan()
    answer = box.get(mirror.cursor)
    before, page = [mirror.rows(table) for table in TABLES], answer.data.rstrip(b"\n")
    for size in range(len(page)):
        with suppress(json.JSONDecodeError, UnicodeDecodeError):
            assert mirror.apply(mirror.db, page[:size]) is None
        mirror.db.execute("ROLLBACK")
    assert [mirror.rows(table) for table in TABLES] == before
    mirror.apply(mirror.db, page)
    assert_equal(mirror)
    mirror.apply(mirror.db, page)  # again changes nothing
    assert_equal(mirror)


def test_a_large_page_is_compressed_if_the_reader_accepts_it(box: Box) -> None:
    day = Day(box.organization_id, 1)
    for number in range(30):
        assets.create(day.actor, name=f"Crate {number}")
    plain = box.get()
    for _ in range(20):
        end = json.loads(plain.data.splitlines()[-1])
        plain = box.get(end["cursor"])
        if len(plain.data) > 1024:
            break
    path = f"/feed/changes?cursor={end['cursor']}"
    packed = box.client.get(path, headers={**box.headers, "Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.data) == plain.data


def test_a_reader_continues_after_a_restart(box: Box, store: Path) -> None:
    day, mirror = Day(box.organization_id, 1), Mirror(box)
    day.scan()
    mirror.follow()
    close_database()
    open_database(store / FILE_NAME)
    day.scan()
    assert box.get(mirror.cursor).status_code == 200
    mirror.follow()
    assert_equal(mirror)


def test_a_reader_of_a_database_that_was_copied_back_starts_again(box: Box, store: Path) -> None:
    """Numbers of changes are used a second time there, so a plain comparison of numbers would miss changes."""
    day, mirror = Day(box.organization_id, 1), Mirror(box)
    mirror.follow()
    close_database()
    copy = shutil.copy(store / FILE_NAME, store / "copy.db")
    open_database(store / FILE_NAME)
    early = mirror.cursor
    day.scan()
    mirror.follow()
    close_database()
    for file in store.glob(f"{FILE_NAME}-*"):
        file.unlink()
    shutil.copy(copy, store / FILE_NAME)
    open_database(store / FILE_NAME)
    for _ in range(3):
        day.scan()
    assert box.get(mirror.cursor).status_code == 410
    assert box.get(early).status_code == 200  # nothing was lost before it
    mirror.follow()
    assert_equal(mirror)


def test_a_renewed_epoch_and_a_trimmed_feed_end_all_cursors(box: Box) -> None:
    day, mirror = Day(box.organization_id, 1), Mirror(box)
    mirror.follow()
    with writing():
        epochs.renew_epochs(execute)
    assert box.get(mirror.cursor).status_code == 410
    mirror.follow()
    day.scan()
    day.scan()
    change_log.trim(change_log.newest(), 1)
    answer = box.get(mirror.cursor)
    assert (answer.status_code, answer.json["error"]["type"]) == (410, "gone")
    mirror.follow()
    assert_equal(mirror)


def test_retention_removes_no_stays_from_copies(box: Box) -> None:
    day, mirror = Day(box.organization_id, 1), Mirror(box)
    for hour in range(4):
        scan = Scan(
            box.organization_id, day.assets[0], day.places[hour % 2], day.reader, 1,
            EPOCH + hour * HOUR, EPOCH + hour * HOUR, Quality.READER,
        )  # fmt: skip
        record([scan], GAP)
    mirror.follow()
    assert deletion.drop_history(EPOCH + 2 * HOUR)
    mirror.follow()
    assert len(mirror.rows("stay")) == 4
    assert len(truth(box.organization_id, "stay")) == 2


def test_the_feed_has_nothing_of_others(box: Box, cast: Cast) -> None:
    Day(cast.rival, 1, "rival/portal")
    other = Day(box.organization_id, 2)
    other.scan()
    rival = box_of(cast.rival)
    mirror = Mirror(rival)
    mirror.follow()
    for _ in range(40):
        other.step()
    lines = [json.loads(line) for line in rival.get(mirror.cursor).data.splitlines()]
    assert [line["op"] for line in lines] == ["cursor"]
    mirror.follow()
    assert_equal(mirror)
    stolen = Mirror(box)
    stolen.follow()
    assert rival.get(stolen.cursor).status_code == 410


def test_the_feed_requires_its_scope_and_a_key(cast: Cast) -> None:
    box = box_of(cast.acme, api_keys.SCOPES)
    assert box.get().status_code == 403
    assert box.client.get("/feed/changes").status_code == 401
    assert all(api_keys.FEED_SCOPE not in scopes for scopes in tokens.SCOPES_OF_ROLE.values())


@pytest.mark.parametrize(
    "query", ["cursor=1.2", "cursor=1.2.zz", "since=1", "site=BER&site=HAM", "cursor=1.1.0000000000000000.9.1.1.1x"]
)
def test_wrong_parameters_are_refused(box: Box, query: str) -> None:
    assert box.get(query=query).status_code == 400


def test_unknown_cursors_and_sites_are_refused(box: Box) -> None:
    assert box.get("1.1.0000000000000000").status_code == 410
    assert box.get("1.1.0000000000000000.9.1.1.1").status_code == 410
    assert box.get(query="site=BER").status_code == 404
    text = box.client.get("/feed/changes", headers=box.headers).data.splitlines()[-1]
    cursor = json.loads(text)["cursor"].split(".")
    for table in range(10):
        for key in (["9" * 18, "-1", "-1"], ["9" * 19, "0", "0"], ["0", "-" + "9" * 19, "0"]):  # larger: 500 before
            edge = ".".join([*cursor[:3], str(table), *key])
            assert box.get(edge).status_code == (400 if "9" * 19 in edge else 200)


def test_the_feed_closes_after_its_last_reader(box: Box) -> None:
    day, mirror = Day(box.organization_id, 1), Mirror(box)
    assert not triggers()
    mirror.follow()
    assert triggers()
    cursors.forget_silent(clock.now())
    assert triggers()
    cursors.forget_silent(clock.now() + cursors.FORGET_AFTER + 1)
    assert not triggers()
    day.scan()
    assert not change_log.newest() or not change_log.after(0, 1)
    assert box.get(mirror.cursor).status_code == 410


def test_too_many_readers_of_a_key_forget_the_silent_ones(box: Box) -> None:
    first = Mirror(box)
    first.follow()
    for _ in range(cursors.MOST_OF_KEY):
        assert box.get().status_code == 200
    refused = box.get(first.cursor)
    assert refused.status_code == 410
    assert f"an API key can have {cursors.MOST_OF_KEY} readers" in refused.text
    assert execute("SELECT count(*) FROM feed_reader").fetchone() == (cursors.MOST_OF_KEY,)


def triggers() -> int:
    sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND sql LIKE '%INTO change %'"
    sql += " AND name NOT LIKE '%for_hub'"
    return int(execute(sql).fetchone()[0])


@pytest.mark.parametrize("is_copied", [True, False])
def test_a_page_has_few_records_with_many_tags(box: Box, monkeypatch: pytest.MonkeyPatch, is_copied: bool) -> None:
    """A page with 500 assets of 500 tags each took 250 MB and could not be sent."""
    mirror, actor = Mirror(box), shell(box.organization_id)
    if not is_copied:
        mirror.follow()
    for number in range(4):
        tags = [NewTag("barcode", f"{number}-{at}") for at in range(20)]
        assets.create(actor, name="Pallet", tags=tags)
        locations.create(actor, name="Rack", tags=[NewTag("barcode", f"L{tag.value}") for tag in tags])
    monkeypatch.setattr(pages, "MOST_METADATA", 100 * outgoing.TAG_BYTES)
    numbers: list[int] = []
    apply = mirror.apply

    def counted(db: sqlite3.Connection, data: bytes) -> bool | None:
        numbers.append(data.count(b'"op":"put","table":"tag"'))
        return apply(db, data)

    mirror.apply = counted
    mirror.follow()
    assert max(numbers) < 100
    assert len(mirror.rows("tag")) == sum(numbers) == 160
    assert mirror.rows("tag") == truth(box.organization_id, "tag")


@pytest.mark.parametrize("damaged", ['{"a": ', "{} x", ""])
def test_damaged_metadata_is_null(box: Box, damaged: str) -> None:
    asset = assets.create(shell(box.organization_id), name="Pallet", metadata='{"a":1}')
    execute("UPDATE asset SET metadata = ? WHERE id = ?", (damaged, asset.id))
    mirror = Mirror(box)
    mirror.follow()
    assert mirror.db.execute("SELECT name, metadata FROM asset").fetchall() == [("Pallet", None)]
