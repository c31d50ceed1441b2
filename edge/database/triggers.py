"""Optional triggers, which exist only while somebody follows the log of changes, or for lists of many assets.

They are part of the schema, and a backup with any other trigger is refused. To change one, add a migration that creates
it again. They name the schema `main`, because rows that PostgreSQL lends are in a temporary table `history`, and SQLite
would add the triggers to that one. No trigger of the log fires for reads that only change a last-seen time, since those
are nearly all writes of an ingest batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from importlib.resources import files
from typing import NamedTuple


class Follower(StrEnum):
    """Who follows the log of changes; see `edge.database.change_log`."""

    SITE = "site"  # sends everything to its hub
    HUB = "hub"  # sends assets to its sites
    UPSTREAM = "upstream"  # sends records to a service with the v1 API
    FEED = "feed"  # has readers of the open feed
    EVENTS = "events"  # has destinations or rules
    EPCIS = "epcis"  # has webhooks that send EPCIS


class Logged(NamedTuple):
    """A write that is logged: the event, the columns kind, a, b and c of the row, or statements, and for whom."""

    event: str
    values: str
    followers: frozenset[Follower]

    def statement(self, name: str) -> str:
        """Return SQL that creates the trigger."""
        values = self.values
        body = values if values.endswith(";") else f"INSERT INTO change (kind, a, b, c) VALUES ({values});"
        return f"CREATE TRIGGER IF NOT EXISTS main.{name} AFTER {self.event} BEGIN {body} END"


_SITE, _FEED, _EVENTS, _EPCIS = (
    frozenset({one}) for one in (Follower.SITE, Follower.FEED, Follower.EVENTS, Follower.EPCIS)
)
_ALL = frozenset(Follower) - _EPCIS
_COPIES = _SITE | _FEED
# Retention moves the horizons first, so its deletions are not changes.
_IF_KEPT = (
    "WHEN old.observed_at + old.seen_for >= "
    "(SELECT min(horizon) FROM (SELECT horizon FROM target UNION ALL SELECT horizon FROM feed))"
)
_IF_FED = "WHEN old.at >= (SELECT horizon FROM feed)"
_IF_RENAMED = "WHEN new.name <> old.name"
_IF_OTHER_ASSET = "WHEN new.asset_id <> old.asset_id OR new.site_no IS NOT old.site_no"
_IF_OTHER_PLACE = "WHEN new.location_id <> old.location_id"
_IF_MOVED = f"{_IF_OTHER_PLACE} OR new.asset_id <> old.asset_id OR new.is_newest <> old.is_newest"
_OF_TAG = "iif(new.asset_id IS NULL, 3, 2), ifnull(new.asset_id, new.location_id), NULL, 1"
_OF_SCAN = (
    "1, ifnull((SELECT no FROM track WHERE asset_id = new.asset_id AND site_no IS NULL), 0), new.observed_at, NULL"
)
_OF_PASSAGE = "8, new.no, new.organization_id, iif(new.direction <> old.direction, 1, NULL)"
_OF_POSITION = "12, new.asset_id, NULL, NULL"
_AGAIN = (
    "INSERT INTO change (kind, a) SELECT 11, no FROM track WHERE asset_id = row.asset_id; "
    "INSERT INTO change (kind, a, b) SELECT 8, no, organization_id FROM passage WHERE asset_id = row.asset_id;"
)
_AGAIN_PEOPLE = (
    "INSERT INTO change (kind, a) SELECT 11, no FROM tracked_person p CROSS JOIN track t ON t.asset_id = p.asset_id "
    "WHERE t.organization_id = new.organization_id; "
    "INSERT INTO change (kind, a, b) SELECT 8, no, organization_id FROM tracked_person p "
    "CROSS JOIN passage g ON g.asset_id = p.asset_id WHERE g.organization_id = new.organization_id;"
)
# Deletions by age are no errors of EPCIS events. A site deletes the history of people early, which is none either.
_IF_NOT_BY_AGE = "WHEN (SELECT is_forgetting FROM epcis) = 0"
_IF_NOT_OF_PERSON = (
    "AND NOT EXISTS (SELECT 1 FROM track WHERE no = old.position_no AND is_person = 1 AND site_no IS NOT NULL)"
)
_IF_UNDONE = (
    "WHEN new.undone_at IS NOT old.undone_at AND new.seq IS NOT NULL "
    "AND new.asset_id IS NOT NULL AND new.location_id IS NOT NULL"
)
_UNDONE = (
    "INSERT INTO change (kind, a, b, c, before) "
    "VALUES (14, new.asset_id, new.observed_at, new.location_id, json_array(1, 0, 0));"
)
_IF_ENDED = "WHEN new.unloaded_at IS NOT old.unloaded_at"
_IF_DECIDED = "WHEN " + " OR ".join(
    f"new.{column} <> old.{column}" for column in ("asset_id", "at", "door_id", "direction", "revision", "decided_at")
)


def _epcis(row: str, at: str, place: str, kind: int, recorded: str, rest: str, asset: str = "") -> str:
    """Return SQL that logs an event that came with the new row or went with the old one."""
    return (
        "INSERT INTO change (kind, a, b, c, before) "
        f"SELECT 14, {asset or row + '.asset_id'}, {row}.{at}, {place}, "
        f"json_array({kind}, {1 if row == 'new' else -1}, {recorded}) {rest};"
    )


def _of_stay(row: str) -> str:
    found = f"FROM track t JOIN source s WHERE t.no = {row}.position_no AND s.no = {row}.source_no"
    return _epcis(row, "observed_at", "s.location_id", 1, f"{row}.observed_at + {row}.delay", found, "t.asset_id")


def _of_load(row: str) -> str:
    return _epcis(row, "loaded_at", f"{row}.carrier_id", 2, f"{row}.loaded_at", "")


def _of_load_end(row: str) -> str:
    return _epcis(
        row, "unloaded_at", f"{row}.carrier_id", 3, f"{row}.unloaded_at", f"WHERE {row}.unloaded_at IS NOT NULL"
    )


def _of_passage(row: str) -> str:
    """Return SQL for the events inward (1) and outward (2). After a revision both may have been sent."""
    return "".join(
        _epcis(
            row, "at", f"{row}.door_id", 3 + way, f"{row}.decided_at",
            f"WHERE {row}.direction = {way} OR {row}.revision > 0",
        )
        for way in (1, 2)
    )  # fmt: skip


# All writes that are logged, by the name of their trigger; `edge.database.change_log.Kind` has the kinds and columns.
# The 1 in `c` of records and passages is for events: without it, the row is only sent again. `b` of a passage and of a
# removed track is its organization.
LOGGED = {
    f"change_{name}": Logged(event, values, followers)
    for name, event, values, followers in (
        ("asset_added", "INSERT ON asset", "2, new.id, NULL, 1", _ALL),
        ("asset_changed", "UPDATE ON asset", "2, new.id, NULL, 1", _ALL),
        ("location_added", "INSERT ON location", "3, new.id, NULL, 1", _ALL - _EVENTS),
        ("location_changed", "UPDATE ON location", "3, new.id, NULL, 1", _ALL - _EVENTS),
        ("tag_added", "INSERT ON tag", _OF_TAG, _ALL),
        ("tag_changed", "UPDATE ON tag", _OF_TAG, _ALL),
        ("stay_added", "INSERT ON history", "1, new.position_no, new.observed_at, NULL", _COPIES | _EVENTS),
        ("stay_changed", "UPDATE ON history", "1, new.position_no, new.observed_at, NULL", _COPIES),
        ("stay_removed", f"DELETE ON history {_IF_KEPT}", "1, old.position_no, old.observed_at, NULL", _COPIES),
        # If several people scanned the same history row, one undo leaves the row.
        ("scan_undone", "UPDATE OF undone_at ON handheld_scan WHEN new.asset_id IS NOT NULL", _OF_SCAN, _SITE),
        # No trigger for other updates of tracks: it would fire for every read. See the table `told`.
        ("track_removed", "DELETE ON track", "6, old.no, old.organization_id, NULL", _COPIES),
        ("track_moved", f"UPDATE OF asset_id, site_no ON track {_IF_OTHER_ASSET}", "11, new.no, NULL, NULL", _FEED),
        ("reader_renamed", f"UPDATE OF name ON reader {_IF_RENAMED}", "4, new.id, NULL, NULL", _SITE),
        ("person_renamed", f"UPDATE OF name ON person {_IF_RENAMED}", "5, new.id, NULL, NULL", _SITE),
        ("passage_added", "INSERT ON passage", "8, new.no, new.organization_id, 1", _COPIES | _EVENTS),
        ("passage_decided", "UPDATE ON passage", _OF_PASSAGE, _COPIES | _EVENTS),
        ("passage_removed", f"DELETE ON passage {_IF_FED}", "8, old.no, old.organization_id, NULL", _FEED),
        ("door_added", "INSERT ON door", "9, new.id, NULL, NULL", _FEED),
        ("door_changed", "UPDATE ON door", "9, new.id, NULL, NULL", _FEED),
        ("site_added", "INSERT ON site", "10, new.no, NULL, NULL", _FEED),
        ("site_changed", "UPDATE OF code, name, removed_at ON site", "10, new.no, NULL, NULL", _FEED),
        # Positions of people may begin or cease to be hidden.
        ("people_setting", "INSERT ON people_setting", _AGAIN_PEOPLE, _FEED),
        ("people_added", "INSERT ON tracked_person", _AGAIN.replace("row", "new"), _FEED),
        ("people_removed", "DELETE ON tracked_person", _AGAIN.replace("row", "old"), _FEED),
        # Two locations became one, so old stays change their location: readers start again with a copy.
        ("source_moved", f"UPDATE OF location_id ON source {_IF_OTHER_PLACE}", "DELETE FROM feed_mark;", _FEED),
        ("position", f"UPDATE OF location_id, asset_id, is_newest ON track {_IF_MOVED}", _OF_POSITION, _EVENTS),
        ("position_lost", "DELETE ON track", "12, old.asset_id, NULL, NULL", _EVENTS),
        ("value_added", "INSERT ON asset_value", "13, new.asset_id, NULL, NULL", _EVENTS),
        ("value_changed", "UPDATE ON asset_value", "13, new.asset_id, NULL, NULL", _EVENTS),
        ("epcis_stay_added", "INSERT ON history", _of_stay("new"), _EPCIS),
        ("epcis_stay_moved", "UPDATE OF source_no ON history", _of_stay("old") + _of_stay("new"), _EPCIS),
        ("epcis_stay_removed", f"DELETE ON history {_IF_NOT_BY_AGE} {_IF_NOT_OF_PERSON}", _of_stay("old"), _EPCIS),
        ("epcis_scan_undone", f"UPDATE OF undone_at ON handheld_scan {_IF_UNDONE}", _UNDONE, _EPCIS),
        ("epcis_load_added", "INSERT ON carrier_load", _of_load("new") + _of_load_end("new"), _EPCIS),
        (
            *("epcis_load_ended", f"UPDATE OF unloaded_at ON carrier_load {_IF_ENDED}"),
            *(_of_load_end("old") + _of_load_end("new"), _EPCIS),
        ),
        (
            *("epcis_load_removed", f"DELETE ON carrier_load {_IF_NOT_BY_AGE}"),
            *(_of_load("old") + _of_load_end("old"), _EPCIS),
        ),
        ("epcis_passage_added", "INSERT ON passage", _of_passage("new"), _EPCIS),
        ("epcis_passage_decided", f"UPDATE ON passage {_IF_DECIDED}", _of_passage("old") + _of_passage("new"), _EPCIS),
    )
}

_NEWEST = (
    "UPDATE track SET is_newest = (no = (SELECT no FROM track AS other WHERE other.asset_id = track.asset_id "
    "ORDER BY other.last_seen_at DESC, other.no LIMIT 1)) WHERE asset_id = {0}; "
)

_OF_SEVERAL = "WHEN EXISTS (SELECT 1 FROM track AS other WHERE other.asset_id = new.asset_id AND other.no <> new.no)"

# Only a hub has several tracks per asset, so only a hub marks the newest.
NEWEST_TRACK = {
    name: f"CREATE TRIGGER IF NOT EXISTS main.{name} AFTER {event} BEGIN {''.join(map(_NEWEST.format, assets))}END"
    for name, event, assets in (
        ("track_newest_added", "INSERT ON track", ("new.asset_id",)),
        ("track_newest_read", f"UPDATE OF last_seen_at ON track {_OF_SEVERAL}", ("new.asset_id",)),
        ("track_newest_moved", "UPDATE OF asset_id ON track", ("old.asset_id", "new.asset_id")),
        ("track_newest_removed", "DELETE ON track", ("old.asset_id",)),
    )
}

# Hubs of earlier schemas have this one instead of `track_newest_read`.
LAST_WITH_NEWEST_SEEN = 52
NEWEST_SEEN = (
    "CREATE TRIGGER IF NOT EXISTS track_newest_seen AFTER UPDATE OF last_seen_at ON track "
    f"BEGIN {_NEWEST.format('new.asset_id')}END"
)


def _day_of(column: str) -> str:
    """Return SQL for the day (UTC) of a time in µs, rounded down before 1970, too."""
    return f"({column} - iif({column} < 0, 86399999999, 0)) / 86400000000"


_SITE_OF = "(SELECT ifnull(site_no, 0) FROM track WHERE no = {0}.position_no)"
_FORGET_DAY = "DELETE FROM history_digest WHERE site_no = {site} AND day = {day}; "
_FORGET = {
    row: _FORGET_DAY.format(site=_SITE_OF.format(row), day=_day_of(f"{row}.observed_at")) for row in ("old", "new")
}
_FORGET_TRACK = (
    "DELETE FROM history_digest WHERE site_no IN (ifnull(old.site_no, 0), ifnull(new.site_no, 0)) "
    f"AND day IN (SELECT {_day_of('observed_at')} FROM history WHERE position_no = new.no); "
)
_FORGET_SITE = (
    "DELETE FROM history_digest WHERE site_no = {0}.peer "
    "AND EXISTS (SELECT 1 FROM source WHERE location_id = {0}.local_id); "
)

# Triggers that drop the digest of a day when its history changes. A digest holds the site's ids of tracks and
# locations, so a change of those drops it, too.
DIGESTS = {
    name: f"CREATE TRIGGER IF NOT EXISTS main.{name} AFTER {event} BEGIN {body}END"
    for name, event, body in (
        ("digest_stay_added", "INSERT ON history", _FORGET["new"]),
        ("digest_stay_changed", "UPDATE ON history", _FORGET["old"] + _FORGET["new"]),
        ("digest_stay_removed", "DELETE ON history", _FORGET["old"]),
        (
            "digest_track_renumbered",
            "UPDATE OF site_no, remote_no ON track "
            "WHEN new.site_no IS NOT old.site_no OR new.remote_no IS NOT old.remote_no",
            _FORGET_TRACK,
        ),
        ("digest_link_added", "INSERT ON link", _FORGET_SITE.format("new")),
        ("digest_link_changed", "UPDATE ON link", _FORGET_SITE.format("old") + _FORGET_SITE.format("new")),
        ("digest_link_removed", "DELETE ON link", _FORGET_SITE.format("old")),
    )
}

# Stays that have ended are also stored by cell, see the table `past_stay`. The cells of a level are this long, and so
# are its longest stays; the last level has stays of any length.
PAST_LEVELS = 16


def past_width(level: int) -> int:
    """Return the length of the cells of a level in µs: 64 s, and four times more for each level."""
    return 64_000_000 << 2 * level


def past_level(begin: str, end: str) -> str:
    """Return SQL for the level of a stay."""
    levels = range(PAST_LEVELS - 1)
    cases = "".join(f"WHEN {end} - {begin} <= {past_width(level)} THEN {level} " for level in levels)
    return f"CASE {cases}ELSE {PAST_LEVELS - 1} END"


def past_cell(begin: str, end: str) -> str:
    """Return SQL for the cell of a stay."""
    cases = "".join(
        f"WHEN {end} - {begin} <= {past_width(level)} THEN {begin} / {past_width(level)} * {PAST_LEVELS} + {level} "
        for level in range(PAST_LEVELS - 1)
    )
    last = PAST_LEVELS - 1
    return f"CASE {cases}ELSE {begin} / {past_width(last)} * {PAST_LEVELS} + {last} END"


_STAY_BEFORE = (
    "(SELECT * FROM history WHERE position_no = {0}.position_no AND (observed_at, seq) < ({0}.observed_at, {0}.seq) "
    "ORDER BY observed_at DESC, seq DESC LIMIT 1) h"
)
_NEXT_STAY = (
    "(SELECT observed_at FROM history WHERE position_no = {0}.position_no "
    "AND (observed_at, seq) > ({0}.observed_at, {0}.seq) ORDER BY observed_at, seq LIMIT 1) n"
)


def _remove_past(begin_and_source: str, end: str, tables: str) -> str:
    row = begin_and_source
    cell = past_cell(f"{row}.observed_at", end)
    return (
        "DELETE FROM past_stay WHERE (cell, source_no, observed_at, track_no) IN "
        f"(SELECT {cell}, {row}.source_no, {row}.observed_at, {row}.position_no FROM {tables}); "
    )


def _add_past(row: str, end: str, tables: str) -> str:
    cell = past_cell(f"{row}.observed_at", end)
    return (
        "INSERT OR REPLACE INTO past_stay (cell, source_no, observed_at, track_no, seen_until, until) "
        f"SELECT {cell}, {row}.source_no, {row}.observed_at, {row}.position_no, {row}.observed_at + {row}.seen_for, "
        f"{end} FROM {tables} WHERE {end} > {row}.observed_at; "
    )


def _past(row: str) -> tuple[str, str, str]:
    """Return the tables of: this row and its next one; the row before it; the rows on both sides."""
    before, following = _STAY_BEFORE.format(row), _NEXT_STAY.format(row)
    return following, before, f"{before} CROSS JOIN {following}"


_NEW_NEXT, _NEW_BEFORE, _NEW_SIDES = _past("new")
_OLD_NEXT, _OLD_BEFORE, _OLD_SIDES = _past("old")

# Keep the stays of `past_stay`. A stay ends where the next row of its track begins,
# so a row also changes the stay before.
PAST_STAYS = {
    name: f"CREATE TRIGGER IF NOT EXISTS main.{name} AFTER {event} BEGIN {body}END"
    for name, event, body in (
        (
            "past_stay_added",
            "INSERT ON history",
            _remove_past("h", "n.observed_at", _NEW_SIDES)
            + _add_past("h", "new.observed_at", _NEW_BEFORE)
            + _add_past("new", "n.observed_at", _NEW_NEXT),
        ),
        (
            "past_stay_changed",
            "UPDATE OF seen_for, source_no ON history",
            _remove_past("old", "n.observed_at", _OLD_NEXT) + _add_past("new", "n.observed_at", _NEW_NEXT),
        ),
        (
            "past_stay_removed",
            "DELETE ON history",
            _remove_past("old", "n.observed_at", _OLD_NEXT)
            + _remove_past("h", "old.observed_at", _OLD_BEFORE)
            + _add_past("h", "n.observed_at", _OLD_SIDES),
        ),
    )
}

# Those that record changes of stays. A move of the stays to PostgreSQL is none.
OF_STAYS = {name for name, one in LOGGED.items() if " ON history" in one.event}


def optional(schema: int) -> list[str]:
    """Return the statements of the optional triggers that databases with this schema may have."""
    new = [one for one in Follower if schema > (LAST_WITH_FORMER_EPCIS if one == "epcis" else LAST_WITH_FORMER_LOG)]
    return [
        *(statement for statement, _ in former(schema)),
        *(one.statement(name) for name, one in LOGGED.items() if not one.followers.isdisjoint(new)),
        *NEWEST_TRACK.values(),
        NEWEST_SEEN,
        *DIGESTS.values(),
        *PAST_STAYS.values(),
    ]


LAST_WITH_FORMER_LOG = 63
LAST_WITH_FORMER_EPCIS = 64


def former(schema: int) -> Iterator[tuple[str, set[str]]]:
    """Yield the statements of the triggers that recorded changes in an earlier schema, with those who needed them."""
    until, followers = 0, set[str]()
    for line in files("edge.database").joinpath("former_triggers.sql").read_text("utf-8").splitlines():
        if line.startswith("-- until "):
            until, followers = int(line.split()[2]), set(line.split()[4:])
        elif line.startswith("CREATE ") and schema <= until:
            yield line.removesuffix(";"), followers


def tables_of(statement: str) -> set[str]:
    """Return the tables that a trigger of this file is on, reads or writes."""
    return set(re.findall(r" (?:ON|INTO|FROM|UPDATE(?! O[FN])) (\w+)(?![\w.])", statement))
