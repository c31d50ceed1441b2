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
    PAST = "past"  # has the index of past positions
    DIGESTS = "digests"  # has digests of days


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


# For whom, as in `Follower`.
_ALL = "site hub upstream feed events"
_COPIES = "site feed"
_COMPUTED = "past digests"
# Retention moves the horizons first, so its deletions are not changes.
_IF_KEPT = (
    "WHEN old.observed_at + old.seen_for >= "
    "(SELECT min(horizon) FROM (SELECT horizon FROM target UNION ALL SELECT horizon FROM feed))"
)
_IF_FED = "WHEN old.at >= (SELECT horizon FROM feed)"
_IF_RENAMED = "WHEN new.name <> old.name"
_IF_OTHER_ASSET = "WHEN new.asset_id <> old.asset_id OR new.site_no IS NOT old.site_no"
_IF_OTHER_PLACE = "WHEN new.location_id <> old.location_id"
_IF_RENUMBERED = "WHEN new.remote_no IS NOT old.remote_no"
_RENUMBERED = "16, ifnull(old.site_no, 0), NULL, NULL"
_IF_SOURCE = "WHEN EXISTS (SELECT 1 FROM source WHERE location_id = {0}.local_id)"
_IF_MOVED = f"{_IF_OTHER_PLACE} OR new.asset_id <> old.asset_id OR new.is_newest <> old.is_newest"
_OF_TAG = "iif(new.asset_id IS NULL, 3, 2), ifnull(new.asset_id, new.location_id), NULL, 1"
_OF_SCAN = (
    "1, ifnull((SELECT no FROM track WHERE asset_id = new.asset_id AND site_no IS NULL), 0), new.observed_at, NULL"
)
_OF_PASSAGE = "8, new.no, new.organization_id, iif(new.direction <> old.direction, 1, NULL)"
_OF_STAY = "1, new.position_no, new.observed_at, NULL"
_LEFT = "15, old.position_no, old.observed_at, old.source_no"
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
    f"change_{name}": Logged(event, values, frozenset(map(Follower, followers.split())))
    for name, event, values, followers in (
        ("asset_added", "INSERT ON asset", "2, new.id, NULL, 1", _ALL),
        ("asset_changed", "UPDATE ON asset", "2, new.id, NULL, 1", _ALL),
        ("location_added", "INSERT ON location", "3, new.id, NULL, 1", "site hub upstream feed"),
        ("location_changed", "UPDATE ON location", "3, new.id, NULL, 1", "site hub upstream feed"),
        ("tag_added", "INSERT ON tag", _OF_TAG, _ALL),
        ("tag_changed", "UPDATE ON tag", _OF_TAG, _ALL),
        ("stay_added", "INSERT ON history", _OF_STAY, f"{_COPIES} events {_COMPUTED}"),
        ("stay_changed", "UPDATE ON history", _OF_STAY, f"{_COPIES} {_COMPUTED}"),
        ("stay_removed", f"DELETE ON history {_IF_KEPT}", "1, old.position_no, old.observed_at, NULL", _COPIES),
        # If several people scanned the same history row, one undo leaves the row.
        ("scan_undone", "UPDATE OF undone_at ON handheld_scan WHEN new.asset_id IS NOT NULL", _OF_SCAN, "site"),
        # No trigger for other updates of tracks: it would fire for every read. See the table `told`.
        ("track_removed", "DELETE ON track", "6, old.no, old.organization_id, NULL", _COPIES),
        ("track_moved", f"UPDATE OF asset_id, site_no ON track {_IF_OTHER_ASSET}", "11, new.no, NULL, NULL", "feed"),
        ("reader_renamed", f"UPDATE OF name ON reader {_IF_RENAMED}", "4, new.id, NULL, NULL", "site"),
        ("person_renamed", f"UPDATE OF name ON person {_IF_RENAMED}", "5, new.id, NULL, NULL", "site"),
        ("passage_added", "INSERT ON passage", "8, new.no, new.organization_id, 1", f"{_COPIES} events"),
        ("passage_decided", "UPDATE ON passage", _OF_PASSAGE, f"{_COPIES} events"),
        ("passage_removed", f"DELETE ON passage {_IF_FED}", "8, old.no, old.organization_id, NULL", "feed"),
        ("door_added", "INSERT ON door", "9, new.id, NULL, NULL", "feed"),
        ("door_changed", "UPDATE ON door", "9, new.id, NULL, NULL", "feed"),
        ("site_added", "INSERT ON site", "10, new.no, NULL, NULL", "feed"),
        ("site_changed", "UPDATE OF code, name, removed_at ON site", "10, new.no, NULL, NULL", "feed"),
        # Positions of people may begin or cease to be hidden.
        ("people_setting", "INSERT ON people_setting", _AGAIN_PEOPLE, "feed"),
        ("people_added", "INSERT ON tracked_person", _AGAIN.replace("row", "new"), "feed"),
        ("people_removed", "DELETE ON tracked_person", _AGAIN.replace("row", "old"), "feed"),
        # Two locations became one, so old stays change their location: readers start again with a copy.
        ("source_moved", f"UPDATE OF location_id ON source {_IF_OTHER_PLACE}", "DELETE FROM feed_mark;", "feed"),
        ("position", f"UPDATE OF location_id, asset_id, is_newest ON track {_IF_MOVED}", _OF_POSITION, "events"),
        ("position_lost", "DELETE ON track", "12, old.asset_id, NULL, NULL", "events"),
        ("value_added", "INSERT ON asset_value", "13, new.asset_id, NULL, NULL", "events"),
        ("value_changed", "UPDATE ON asset_value", "13, new.asset_id, NULL, NULL", "events"),
        ("stay_left", "DELETE ON history", _LEFT, _COMPUTED),
        ("stay_relocated", "UPDATE OF source_no ON history WHEN new.source_no <> old.source_no", _LEFT, "past"),
        ("track_renumbered", f"UPDATE OF remote_no ON track {_IF_RENUMBERED}", _RENUMBERED, "digests"),
        ("link_added", f"INSERT ON link {_IF_SOURCE.format('new')}", "16, new.peer, NULL, NULL", "digests"),
        ("link_changed", "UPDATE OF local_id ON link", "16, new.peer, NULL, NULL", "digests"),
        ("link_removed", f"DELETE ON link {_IF_SOURCE.format('old')}", "16, old.peer, NULL, NULL", "digests"),
        ("epcis_stay_added", "INSERT ON history", _of_stay("new"), "epcis"),
        ("epcis_stay_moved", "UPDATE OF source_no ON history", _of_stay("old") + _of_stay("new"), "epcis"),
        ("epcis_stay_removed", f"DELETE ON history {_IF_NOT_BY_AGE} {_IF_NOT_OF_PERSON}", _of_stay("old"), "epcis"),
        ("epcis_scan_undone", f"UPDATE OF undone_at ON handheld_scan {_IF_UNDONE}", _UNDONE, "epcis"),
        ("epcis_load_added", "INSERT ON carrier_load", _of_load("new") + _of_load_end("new"), "epcis"),
        (
            *("epcis_load_ended", f"UPDATE OF unloaded_at ON carrier_load {_IF_ENDED}"),
            *(_of_load_end("old") + _of_load_end("new"), "epcis"),
        ),
        (
            *("epcis_load_removed", f"DELETE ON carrier_load {_IF_NOT_BY_AGE}"),
            *(_of_load("old") + _of_load_end("old"), "epcis"),
        ),
        ("epcis_passage_added", "INSERT ON passage", _of_passage("new"), "epcis"),
        ("epcis_passage_decided", f"UPDATE ON passage {_IF_DECIDED}", _of_passage("old") + _of_passage("new"), "epcis"),
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

# Those that record changes of stays. A move of the stays to PostgreSQL is none.
OF_STAYS = {name for name, one in LOGGED.items() if " ON history" in one.event}


def optional(schema: int) -> list[str]:
    """Return the statements of the optional triggers that databases with this schema may have."""
    known = {one for one in Follower if schema > _LAST_WITHOUT.get(one, LAST_WITH_FORMER_LOG)}
    return [
        *(statement for statement, _ in former(schema)),
        *(one.statement(name) for name, one in LOGGED.items() if not one.followers.isdisjoint(known)),
        *(sql for name, sql in NEWEST_TRACK.items() if schema > LAST_WITH_NEWEST_SEEN or name != "track_newest_read"),
    ]


LAST_WITH_NEWEST_SEEN = 52
LAST_WITH_FORMER_LOG = 63
LAST_WITH_FORMER_EPCIS = 64
LAST_WITH_FORMER_DIGESTS = 68
_LAST_WITHOUT = {
    Follower.EPCIS: LAST_WITH_FORMER_EPCIS,
    Follower.PAST: LAST_WITH_FORMER_DIGESTS,
    Follower.DIGESTS: LAST_WITH_FORMER_DIGESTS,
}


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
