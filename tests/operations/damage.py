"""A site of about 1,100 pages with all large tables in use, its backup, and random page damage."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from edge.audit.actors import service, shell
from edge.database.connection import FILE_NAME, close_database, database, execute, writing
from edge.database.migrate import newest_schema
from edge.database.page_file import OVERFLOW, OVERFLOW_FIRST, PageFile
from edge.database.page_trees import Forest, schema_rows
from edge.database.repair import _is_kept, _trees
from edge.operations.backup import Rotation, make_backup
from edge.people import organizations
from edge.people.people import Role, add_person
from edge.readers.readers import add_reader
from edge.records import assets, locations
from edge.records.tags import NewTag

Rows = dict[str, dict[tuple[object, ...], tuple[object, ...]]]  # by table and primary key

_AT = 1_770_000_000_000_000  # microseconds

# Number of rows per table, besides the 1,200 assets: enough for several levels of pages in the large tables.
_TABLES = {
    "source": "INSERT INTO source (organization_id, location_id, reader_id, port) "
    "SELECT organization_id, id, (SELECT min(id) FROM reader), 1 FROM location",
    "track": "INSERT INTO track (asset_id, organization_id, location_id, last_seen_at, dwell_started_at, row_at, "
    "row_seq, history_rows) SELECT id, organization_id, (SELECT min(id) FROM location), {at} + 24000000, "
    "{at} + 23000000, {at} + 23000000, 23, 24 FROM asset",
    "history": "INSERT INTO history SELECT no, {at} + 1000000 * value, value, 900000, "
    "(SELECT min(no) FROM source) + (no + value) % 20, 1000 + value, 0, -600, 0 FROM track, numbers WHERE value < 24",
    "ledger": "INSERT INTO ledger SELECT reader.id, 490000 + value, 'recorded', value, value * 7, 0 "
    "FROM reader, numbers WHERE value < 300",
    "recent_read": "INSERT INTO recent_read (received_at, until, gap, bytes_before, reads) "
    "SELECT {at} + value, {at} + value, 60000000, value * 300, randomblob(300) FROM numbers WHERE value < 300",
    "receipt": "INSERT INTO receipt SELECT value, randomblob(19 * (1 + value % 30)) FROM numbers WHERE value > 0",
    "handheld_scan": "INSERT INTO handheld_scan (id, organization_id, person_id, sent_by, location_id, asset_id, code, "
    "outcome, observed_at, received_at, seq) SELECT lower(hex(randomblob(16))), asset.organization_id, person.id, "
    "person.id, (SELECT min(id) FROM location), asset.id, external_key, 'recorded', {at}, {at} + 1, 1 "
    "FROM asset, person",
    "dead_letter": "INSERT INTO dead_letter (organization_id, topic, payload, size, reason, received_at) "
    "SELECT organization.id, 'site/x', randomblob(100 * (value % 90)), 5, 'no JSON', {at} + value "
    "FROM organization, numbers WHERE value < 60",
    "unknown_tag": "INSERT INTO unknown_tag (organization_id, tag_type, match_key, reader_id, value, reason, "
    "first_seen_at, last_seen_at, sightings) SELECT organization.id, 'rfid', printf('%024X', value), "
    "(SELECT min(id) FROM reader), printf('%024X', value), 'no tag', {at}, {at}, 1 FROM organization, numbers",
    "carrier_load": "INSERT INTO carrier_load SELECT id, {at}, (SELECT min(id) FROM asset), NULL, NULL, {at} + 5 "
    "FROM asset WHERE id > (SELECT min(id) FROM asset)",
    "change": "INSERT INTO change (kind, a, b) SELECT 1, no, {at} FROM track",
    "event": "INSERT INTO event (nonce, organization_id, kind, subject_id, at, made_at, within, within_before, data) "
    "SELECT hex(randomblob(8)), organization_id, 'asset.moved', id, {at}, {at}, '', '', '{{}}' FROM asset",
    "floor_plan": "INSERT INTO floor_plan SELECT min(id), organization_id, 'image/png', 10, 10, {at}, "
    "randomblob(40000) FROM location",
}


class Damaged(NamedTuple):
    """A sound file with all its `rows`, and the `pages` that hold each of them."""

    file: Path
    backups: Path
    rows: Rows
    pages: dict[tuple[str, tuple[object, ...]], set[int]]
    in_backup: Rows
    page_count: int


def make_site(site: Path, seed: int = 0) -> Damaged:
    """Fill the open, empty database of `site`, back it up, change some rows, and close it."""
    actor = service(organizations.list_organizations()[0].id)
    add_person(shell(actor.organization_id), name="Ada", role=Role.ADMINISTRATOR, email="ada@example.org")
    for number in range(6):
        add_reader(shell(actor.organization_id), name=f"dock{number}", topic=f"site/dock{number}", format="edge")
    with writing():
        for number in range(40):
            locations.create(actor, name=f"Dock {number}")
        _add_assets(actor.organization_id, 0, 1200)
        execute(
            "CREATE TEMP TABLE numbers AS WITH RECURSIVE n (value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM n "
            "WHERE value < 999) SELECT value FROM n"
        )
        for statement in _TABLES.values():
            execute(statement.format(at=_AT))
    make_backup(site, site / "backups", Rotation(9, 9))
    in_backup = _all_rows(database.connection())
    _change(actor.organization_id)
    execute("PRAGMA wal_checkpoint(TRUNCATE)")
    rows = _all_rows(database.connection())
    close_database()
    file = site / FILE_NAME
    with PageFile(file) as pages:
        return Damaged(file, site / "backups", rows, _pages(pages), in_backup, pages.count)


def _add_assets(organization_id: int, first: int, after: int) -> None:
    for number in range(first, after):
        assets.create(
            service(organization_id), name=f"Asset {number}", metadata=f'{{"mark":{number}}}',
            tags=[NewTag("rfid", f"{number:024X}")],
        )  # fmt: skip


def _change(organization_id: int) -> None:
    """Change the site as between a backup and the damage: create, change and delete records."""
    with writing():
        _add_assets(organization_id, 1200, 1300)
        execute("UPDATE asset SET name = name || ' changed' WHERE rowid % 7 = 0")
        execute("DELETE FROM history WHERE position_no % 11 = 0 AND seq < 20")
        execute("DELETE FROM receipt WHERE number < 400")
        execute("DELETE FROM recent_read WHERE no < 100")


def spoil(site: Damaged, pages: Iterable[int], content: Callable[[int], bytes] = bytes) -> None:
    with PageFile(site.file) as file:
        size = file.size
    with site.file.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * size)
            file.write(content(size))


def random_damage(site: Damaged, seed: int, number: int = 100) -> list[int]:
    """Damage random pages and return them; every second seed includes the header and the schema."""
    chosen = random.Random(seed)
    first = [1] if seed % 2 else []
    return first + chosen.sample(range(2, site.page_count + 1), number - len(first))


def expected(site: Damaged, damaged: Iterable[int]) -> Rows:
    """Return the rows on undamaged pages, and all other rows of the backup."""
    gone = set(damaged)
    rows_by_table: Rows = {}
    for table, rows in site.rows.items():
        rows_by_table[table] = {key: row for key, row in rows.items() if not site.pages[table, key] & gone}
    for table, rows in site.in_backup.items():
        for key, row in rows.items():
            if key in site.rows[table]:  # not deleted since the backup
                rows_by_table[table].setdefault(key, row)
    return rows_by_table


def missing(site: Damaged, damaged: Iterable[int], repaired: Path) -> list[str]:
    """Return the expected rows missing from the repaired file, except those with lost parents."""
    due = expected(site, damaged)
    with closing(sqlite3.connect(repaired)) as connection:
        links = {table: connection.execute(f"PRAGMA foreign_key_list({table})").fetchall() for table in due}
        names = {table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")] for table in due}
        for kind in ("asset", "location"):  # recreated from their search text, with their dependents
            ids = {key for key, row in due["searchable"].items() if row[2] == kind}
            due[kind] |= dict.fromkeys(ids - due[kind].keys(), ())
        while _drop_orphans(due, links, names):
            pass
        present = _all_rows(connection)
    ignored = {"instance", "version", "web_session"}
    faults = []
    for table in due.keys() - ignored:
        for key, row in due[table].items():
            if key not in present[table]:
                faults.append(f"{table} {key} is missing, of pages {site.pages.get((table, key))}")
            elif row and present[table][key] != row and table not in ("track", "searchable"):
                faults.append(f"{table} {key} is {present[table][key]}, not {row}")
        extra = present[table].keys() - site.rows[table].keys() - site.in_backup.get(table, {}).keys()
        faults += [
            f"{table} {key} was never there" for key in extra if table not in ("audit", "searchable", "schema_step")
        ]
    return faults


def _drop_orphans(rows: Rows, links: dict[str, list[tuple[Any, ...]]], names: dict[str, list[str]]) -> int:
    dropped = 0
    for table, kept in rows.items():
        for _, _, parent, column, *_ in links[table]:
            place = names[table].index(column)
            lost = [
                key for key, row in kept.items() if row and row[place] is not None and (row[place],) not in rows[parent]
            ]
            for key in lost:
                del kept[key]
            dropped += len(lost)
    return dropped


def _all_rows(connection: sqlite3.Connection) -> Rows:
    rows_by_table: Rows = {}
    for name, tree in _trees(newest_schema()).items():
        if _is_kept(tree):
            key = _key_columns(connection, name)
            names = [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
            places = [names.index(column) for column in key]
            rows_by_table[name] = {
                tuple(row[place] for place in places): row for row in connection.execute(f"SELECT * FROM {name}")
            }
    return rows_by_table


def _key_columns(connection: sqlite3.Connection, name: str) -> list[str]:
    keys = sorted((row[5], row[1]) for row in connection.execute(f"PRAGMA table_info({name})") if row[5])
    return [column for _, column in keys]


def _pages(file: PageFile) -> dict[tuple[str, tuple[object, ...]], set[int]]:
    """Return the pages of each row of a sound file, including overflow pages."""
    forest = Forest(file)
    roots = {root: name for kind, name, root in schema_rows(forest) if root and kind == "table"}
    pages_by_row: dict[tuple[str, tuple[object, ...]], set[int]] = {}
    trees = _trees(newest_schema())
    for group, name in roots.items():
        if name not in trees or not _is_kept(trees[name]):
            continue
        tree = trees[name]
        for page in forest.pages(group, is_whole=True):
            for row in forest.rows(page.number):
                assert row is not None
                key = (row[0],) if tree.has_rowids else tuple(row[1][: tree.key_length])
                pages_by_row[name, key] = {page.number}
    first: dict[int, list[int]] = {}
    following: dict[int, int] = {}
    for number in range(2, file.count + 1):
        pointer = file.parent(number)
        if pointer and pointer.kind == OVERFLOW_FIRST:
            first.setdefault(pointer.page, []).append(number)
        elif pointer and pointer.kind == OVERFLOW:
            following[pointer.page] = number
    for pages in pages_by_row.values():
        for page in list(pages):
            for number in first.get(page, []):
                while number:
                    pages.add(number)
                    number = following.get(number, 0)
    return pages_by_row
