"""Recovers a damaged database into a new file, from its readable pages and the newest backup.

SQLite cannot read a file with a damaged header, or a table with a damaged root page. This module knows the schema and
needs neither. It assigns each readable page to its table by the schema, the pointer map, parent pages, the backup, or
its content, and copies the rows. Rows on damaged pages come from the backup, unless readable neighbors show that they
were deleted.
"""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

from edge import clock
from edge.database import triggers
from edge.database.migrate import OF_LITESTREAM, create_schema, newest_schema
from edge.database.page_assignment import Source, assign, assign_by_content
from edge.database.page_file import PageFile
from edge.database.page_trees import SCHEMA, Coverage, Forest, Row, Tree, known_trees, schema_rows
from edge.database.search_text import folded_text, split_text
from edge.errors import Corrupt

_DERIVED = ("trigram", "version", "past_stay", "history_digest")  # filled by triggers, or again by the service
_ENDED = {"web_session"}  # never from the backup, which would reopen ended sessions


class Recovered(NamedTuple):
    """Row counts by table: total, from the backup, from search texts, damaged pages, and rejected rows.

    A row is rejected if it contradicts other rows or belongs to a lost record.
    """

    rows: dict[str, int]
    from_backup: dict[str, int]
    from_search: dict[str, int]
    unreadable: dict[str, int]
    rejected: dict[str, int]
    has_new_secrets: bool  # the site's secrets were lost and not in a backup


def recover(damaged: Path, target: Path, backup: Path | None = None) -> Recovered:
    """Write recoverable data to `target`; the damaged file is only read. `backup` must have passed inspection.

    Raises Corrupt if no page of the file is readable.
    """
    with ExitStack() as stack:
        file = stack.enter_context(PageFile(damaged))
        copy = stack.enter_context(closing(_read_only(backup))) if backup else None
        copied_file = stack.enter_context(PageFile(backup)) if backup else None
        number = _schema_number(file, copied_file)
        trees = _trees(number)
        forest, before = Forest(file), Forest(copied_file) if copied_file else None
        source, unassigned = assign(forest, trees, before)
        if unassigned:
            with closing(sqlite3.connect(":memory:", isolation_level=None)) as draft:
                _build(draft, number, trees, source, copy)
                assign_by_content(draft, trees, source, unassigned)
        if not any(source.groups.get(name) for name in trees if name != SCHEMA):
            raise Corrupt(f"{damaged} contains no recoverable data; restore a backup: edge restore")
        with closing(sqlite3.connect(target, isolation_level=None)) as fresh:
            fresh.execute("PRAGMA auto_vacuum = incremental")  # as in every new database; see edge.database.migrate
            built = _build(fresh, number, trees, source, copy)
            # Last, since recovered rows are not changes to report.
            for statement in _optional_triggers(number, forest, before):
                fresh.execute(statement)
            fresh.execute("COMMIT")
            rows = {name: _count(fresh, name) for name in trees if _is_kept(trees[name])}
        unreadable = Counter(_damaged_tables(source, trees)) + built.broken
    filled, regained, lost, rejected = map(_present, (built.filled, built.regained, unreadable, built.rejected))
    return Recovered(rows, filled, regained, lost, rejected, built.has_new_secrets)


def _present(counts: Counter[str]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)


def _schema_number(file: PageFile, backup: PageFile | None) -> int:
    numbers = (file.schema, backup.schema if backup else None)
    return next((number for number in numbers if number and 1 <= number <= newest_schema()), newest_schema())


def _trees(number: int) -> dict[str, Tree]:
    with closing(sqlite3.connect(":memory:")) as known:
        create_schema(known, number)
        for statement in OF_LITESTREAM:
            known.execute(statement)
        known.execute("ANALYZE")
        return known_trees(known)


def _is_kept(tree: Tree) -> bool:
    is_own = not tree.name.startswith(("sqlite_", "_litestream", *_DERIVED)) and tree.name != "schema_step"
    return tree.name == tree.table and is_own


class _Built(NamedTuple):
    filled: Counter[str]
    regained: Counter[str]
    broken: Counter[str]  # unreadable cells
    rejected: Counter[str]
    has_new_secrets: bool


def _build(
    fresh: sqlite3.Connection, number: int, trees: Mapping[str, Tree], source: Source, copy: sqlite3.Connection | None
) -> _Built:
    """Fill the new database in one transaction, which stays open."""
    create_schema(fresh, number)
    fresh.execute("BEGIN")
    built = _Built(Counter(), Counter(), Counter(), Counter(), False)
    kept = [tree for tree in trees.values() if _is_kept(tree)]
    for tree in kept:
        coverage = Coverage()
        _copy(fresh, tree, source, coverage, built)
        if copy and tree.name not in _ENDED:
            _fill(fresh, tree, copy, coverage, built)
    _keep_sequences(fresh, trees["sqlite_sequence"], source, copy)
    for kind in ("location", "asset"):
        built.regained[kind] += _regain_from_search(fresh, kind)
    for name in _orphans(fresh):
        built.rejected[name] += 1
    fresh.execute(_FOLLOW_HISTORY)
    fresh.execute(_COUNT_HISTORY)
    _index_missing(fresh)
    if fresh.execute("SELECT 1 FROM instance").fetchone():
        return built
    fresh.execute(
        "INSERT INTO instance (one, id_key, id_count, badge_key, created_at) VALUES (1, ?, 0, zeroblob(32), ?)",
        (secrets.token_bytes(32), clock.now()),
    )
    return built._replace(has_new_secrets=True)


def _copy(fresh: sqlite3.Connection, tree: Tree, source: Source, coverage: Coverage, built: _Built) -> None:
    """Copy rows of the damaged file. With duplicate keys the first wins; the other is from a freed page."""
    for group in source.groups.get(tree.name, []):
        for page in source.forest.pages(group, is_whole=group in source.whole):
            if not source.forest.kinds[page.number]:
                continue
            keys, is_sound = [], True
            for row in source.forest.rows(page.number):
                if row is None or not tree.fits(row):
                    built.broken[tree.name] += 1
                    is_sound = False
                    continue
                keys.append(tree.key(row))
                try:
                    _insert(fresh, tree, row)
                except sqlite3.IntegrityError:
                    built.rejected[tree.name] += group in source.whole
            if is_sound and source.forest.is_leaf(page.number):
                coverage.add_leaf(page, keys)


def _insert(fresh: sqlite3.Connection, tree: Tree, row: Row) -> None:
    """Insert a row. One that is older than a column ends before it."""
    rowid, values = row
    given = {column.name: value for value, column in zip(values, tree.columns, strict=False) if not column.is_generated}
    if tree.rowid_column is not None:
        given[tree.columns[tree.rowid_column].name] = rowid
    places = ", ".join("?" * len(given))
    fresh.execute(f"INSERT INTO {tree.name} ({', '.join(given)}) VALUES ({places})", list(given.values()))


def _fill(fresh: sqlite3.Connection, tree: Tree, copy: sqlite3.Connection, coverage: Coverage, built: _Built) -> None:
    """Add backup rows where the damaged file could not be read."""
    present = {row[1] for row in copy.execute(f"PRAGMA table_info({tree.name})")}
    columns = [column.name for column in tree.columns if not column.is_generated and column.name in present]
    if not columns:
        return
    names, places = ", ".join(columns), ", ".join("?" * len(columns))
    insert = f"INSERT OR IGNORE INTO {tree.name} ({names}) VALUES ({places})"
    for row in copy.execute(f"SELECT {'rowid' if tree.has_rowids else 'NULL'}, {names} FROM {tree.name}"):
        if not coverage.has(tree.key((row[0], list(row[1:])))):
            built.filled[tree.name] += fresh.execute(insert, row[1:]).rowcount


def _keep_sequences(fresh: sqlite3.Connection, tree: Tree, source: Source, copy: sqlite3.Connection | None) -> None:
    """Restore the highest numbers ever assigned, so that none is reused."""
    forest = source.forest
    groups = source.groups.get(tree.name, [])
    pages = [page for group in groups for page in forest.pages(group, is_whole=False) if forest.kinds[page.number]]
    sequences = [tuple(row[1]) for page in pages for row in forest.rows(page.number) if row and tree.fits(row)]
    sequences += copy.execute("SELECT name, seq FROM sqlite_sequence").fetchall() if copy else []
    for name, number in sequences:
        if isinstance(number, int):
            fresh.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (number, name))
            fresh.execute(_ADD_SEQUENCE, (name, number))


_ADD_SEQUENCE = """
    INSERT INTO sqlite_sequence (name, seq) SELECT ?1, ?2
    WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?1)
      AND EXISTS (SELECT 1 FROM sqlite_schema WHERE name = ?1 AND sql LIKE '%AUTOINCREMENT%')
"""


def _regain_from_search(fresh: sqlite3.Connection, kind: str) -> int:
    """Create records that survive only in the search text, which keeps their tags and history valid.

    Case is lost in the search text; keys become upper case, as most are.
    """
    number = 0
    for id_, text in fresh.execute(
        f"SELECT id, text FROM searchable WHERE kind = ? AND id NOT IN (SELECT id FROM {kind})", (kind,)
    ).fetchall():
        name, key = (*split_text(text), "", "")[:2]
        minted = _MINTED[kind].fullmatch(key.upper())
        values = (clock.now(), name, key.upper(), id_, int(minted[1]) if minted else None)
        number += fresh.execute(_REGAIN.format(kind=kind), values).rowcount
    return number


_REGAIN = """
    INSERT OR IGNORE INTO {kind} (id, organization_id, external_key, name, description, is_active, valid_from, valid_to,
        created_at, updated_at, deleted_at, key_number)
    SELECT id, organization_id, ?3, ?2, nullif(description, ''), is_active, valid_from, valid_to, valid_from, ?1,
        deleted_at, ?5 FROM searchable WHERE id = ?4
"""
# Keys of the series of `records.external_keys`: the next key is one more than the highest number.
_MINTED = {"asset": re.compile(r"ASSET-([0-9]{4,18})"), "location": re.compile(r"LOC-([0-9]{3,18})")}


def _index_missing(fresh: sqlite3.Connection) -> None:
    """Index records without search text."""
    fresh.create_function("casefold", 1, str.casefold)
    fresh.create_function("folded", 3, lambda name, key, tags: folded_text(name, key, json.loads(tags)))
    fresh.execute("DELETE FROM searchable WHERE id NOT IN (SELECT id FROM asset UNION ALL SELECT id FROM location)")
    for kind in ("asset", "location"):
        fresh.execute(_INDEX.format(kind=kind))


_INDEX = """
    INSERT INTO searchable SELECT id, organization_id, '{kind}', is_active, valid_from, valid_to, deleted_at,
        folded(name, external_key, (SELECT json_group_array(value) FROM (
            SELECT value FROM tag WHERE {kind}_id = record.id AND deleted_at IS NULL ORDER BY id))),
        casefold(ifnull(description, ''))
    FROM {kind} AS record WHERE id NOT IN (SELECT id FROM searchable)
"""


def _optional_triggers(schema: int, forest: Forest, before: Forest | None) -> list[str]:
    """Return the optional triggers that the database had."""
    present = {name for one in (forest, before) if one for kind, name, _ in schema_rows(one) if kind == "trigger"}
    known = triggers.optional(schema)
    return [statement for statement in known if present & set(statement.replace(".", " ").split())]


def _damaged_tables(source: Source, trees: Mapping[str, Tree]) -> Iterator[str]:
    """Yield the table of each damaged page, where known."""
    forest = source.forest
    owner = {group: name for name, groups in source.groups.items() for group in groups}
    for number in forest.lost():
        name = owner.get(forest.group_of(number))
        if name and _is_kept(trees[name]):
            yield name


def _orphans(connection: sqlite3.Connection) -> Iterator[str]:
    """Delete rows with references to lost rows, repeatedly. Yields the table of each deleted row."""
    while orphans := connection.execute("PRAGMA foreign_key_check").fetchall():
        for table, rowid, _, number in {row[:2]: row for row in orphans}.values():
            yield from [table] * _drop_orphan(connection, table, rowid, number)


def _drop_orphan(connection: sqlite3.Connection, table: str, rowid: int | None, number: int) -> int:
    """Delete an orphan and return the count; in a table without rowids, delete all orphans together."""
    if rowid is not None:
        return connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (rowid,)).rowcount
    links = connection.execute("SELECT * FROM pragma_foreign_key_list(?) WHERE id = ?", (table, number)).fetchall()
    matching = " AND ".join(f"parent.{link[4] or 'rowid'} = {table}.{link[3]}" for link in links)
    filled = " AND ".join(f"{link[3]} IS NOT NULL" for link in links)
    return connection.execute(
        f"DELETE FROM {table} WHERE {filled} AND NOT EXISTS (SELECT 1 FROM {links[0][2]} AS parent WHERE {matching})"
    ).rowcount


# Tracks from the backup may be older than the history, so the newest row sets the location.
_FOLLOW_HISTORY = """
    UPDATE track SET row_at = newest.observed_at, row_seq = newest.seq, row_rule = newest.rule,
        location_id = newest.location_id, dwell_started_at = newest.observed_at,
        last_seen_at = max(last_seen_at, newest.observed_at + newest.seen_for)
    FROM (SELECT position_no, observed_at, max(seq) AS seq, seen_for, rule, source.location_id
          FROM history JOIN source ON source.no = source_no
          WHERE (position_no, observed_at) IN (SELECT position_no, max(observed_at) FROM history GROUP BY position_no)
          GROUP BY position_no) AS newest
    WHERE newest.position_no = track.no AND (newest.observed_at, newest.seq) > (track.row_at, track.row_seq)
"""

_COUNT_HISTORY = "UPDATE track SET history_rows = (SELECT count(*) FROM history WHERE position_no = track.no)"


def _count(connection: sqlite3.Connection, table: str) -> int:
    number: int = connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    return number
