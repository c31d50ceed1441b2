"""Replay of reads received before their tag or reader was set up."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec
import pytest

from edge import clock, metrics
from edge.audit.actors import shell
from edge.clock import HOUR, SECOND
from edge.database import migrate
from edge.database.connection import execute, writing
from edge.errors import Unavailable
from edge.ingest.pipeline import Pipeline
from edge.readers import dead_letters, kept_messages, readers, unknown_tags
from edge.readers.kept_messages import Pack, Window
from edge.readers.readers import Placement
from edge.records import assets, locations
from edge.records.tags import NewTag
from tests.ingest.site import AISLE, DOCK, GAP, Site, buckets, csl, everything_recorded, location_of, message, seen

MEGABYTE = 1 << 20
MINUTE = 60 * SECOND
UNKNOWN = "30BAD0"


def line(limit: int = MEGABYTE) -> Pipeline:
    return Pipeline(GAP, 7, window=Window(limit, HOUR))


def catch_up(pipeline: Pipeline) -> None:
    for _ in range(100):
        if not pipeline.catch_up():
            return
    raise AssertionError("it never comes to an end")


def moment(minutes_ago: int) -> int:
    return (clock.now() - minutes_ago * MINUTE) // 1000 * 1000


def attach(site: Site, value: str) -> int:
    return assets.create(shell(site.organization_id), name="Late", tags=[NewTag("rfid", value)]).id


def stays(asset_id: int) -> int:
    sql = "SELECT count(*) FROM history h JOIN position p ON p.no = h.position_no WHERE p.asset_id = ?"
    number: int = execute(sql, (asset_id,)).fetchone()[0]
    return number


def test_attaching_a_tag_replays_its_reads(site: Site) -> None:
    pipeline, at = line(), moment(minutes_ago=20)
    pipeline.handle([message(csl(seen(UNKNOWN, at=at), seen(site.epcs[0], at=at)), mid=1)])
    pipeline.handle([message(csl(seen(UNKNOWN, at=at + 10 * MINUTE)), mid=2)])
    assert buckets() == {"recorded": (1, 1), "unmatched_tag": (1, 2)}
    asset = attach(site, UNKNOWN)
    catch_up(pipeline)
    assert buckets() == {"recorded": (2, 3)}
    assert stays(asset) == 2
    assert unknown_tags.list_tags(site.organization_id) == []
    assert execute("SELECT count(*) FROM raw_message").fetchone() == (0,)
    assert execute("SELECT count(*) FROM replay").fetchone() == (0,)


def test_the_upgrade_notes_by_its_own_keys_for_which_tags_kept_messages_wait(site: Site) -> None:
    """Their reads would expire, because the key of a GTIN has changed."""
    pipeline = line()
    catch_up(pipeline)  # for the readers of the site, which are new
    gtin = b'{"reads":[{"tag":"036000291452","type":"barcode"}]}'
    pipeline.handle([message(gtin, AISLE, mid=1)])
    old = kept_messages.hash_of(site.organization_id, "barcode", "036000291452")
    execute("UPDATE raw_message SET waits_for = ?", (old,))
    [sql] = [sql for name, sql in migrate.steps_after(58, migrate.newest_schema()) if name.endswith("_matching_again")]
    for statement in sql.split(";\n")[:-1]:
        execute(statement)
    catch_up(pipeline)
    tag = NewTag("barcode", "00036000291452")
    asset = assets.create(shell(site.organization_id), name="Late", tags=[tag]).id
    catch_up(pipeline)
    assert location_of(asset) == site.aisle


def test_a_replay_runs_after_a_restart_and_only_once(site: Site) -> None:
    line().handle([message(csl(seen(UNKNOWN), seen(site.epcs[0])), mid=1)])
    attach(site, UNKNOWN)
    catch_up(line())
    recorded, counted = everything_recorded(), buckets()
    with writing():
        kept_messages.request_for_reader(site.organization_id, site.dock_reader)
    catch_up(line())
    assert (everything_recorded(), buckets()) == (recorded, counted)
    assert counted == {"recorded": (1, 2)}


def test_other_unmatched_tags_are_still_kept(site: Site) -> None:
    pipeline = line()
    pipeline.handle([message(csl(seen(UNKNOWN), seen("30BAD1")), mid=1)])
    attach(site, UNKNOWN)
    catch_up(pipeline)
    assert buckets() == {"recorded": (1, 1), "unmatched_tag": (0, 1)}
    (waiting,) = unknown_tags.list_tags(site.organization_id)
    assert (waiting.value, waiting.sightings) == ("30BAD1", 1)
    attach(site, "30BAD1")
    catch_up(pipeline)
    assert buckets() == {"recorded": (1, 2)}


def test_setting_up_a_topic_replays_its_messages(site: Site) -> None:
    pipeline = line()
    pipeline.handle([message(csl(seen(site.epcs[0]), seen(UNKNOWN)), "site/new/reads", mid=1)])
    assert buckets() == {"unknown_topic": (1, 0)}
    actor = shell(site.organization_id)
    readers.add_reader(actor, name="new", topic="site/new/reads", format="csl", location_id=site.dock)
    catch_up(pipeline)
    assert buckets() == {"recorded": (1, 1), "unmatched_tag": (0, 1)}
    assert [tag.value for tag in unknown_tags.list_tags(site.organization_id)] == [UNKNOWN]


def test_placing_an_antenna_replays_its_reads(site: Site) -> None:
    pipeline, actor = line(), shell(site.organization_id)
    readers.change_reader(actor, site.dock_reader, {"location_id": None})
    pipeline.handle([message(csl(seen(site.epcs[0], port=4)), mid=1)])
    catch_up(pipeline)
    assert buckets() == {"no_location": (1, 1)}
    readers.set_antenna(actor, site.dock_reader, 4, Placement(site.aisle, None, True))
    catch_up(pipeline)
    assert buckets() == {"recorded": (1, 1)}


def test_fixing_the_format_replays_unreadable_messages(site: Site) -> None:
    pipeline, actor = line(), shell(site.organization_id)
    mapped = b'{"tags":[{"tagId":"%s"}]}' % site.epcs[0].encode()
    pipeline.handle([message(mapped, AISLE, mid=1), message(b"3074;1", AISLE, mid=2), message(b"{", DOCK, mid=3)])
    assert buckets() == {"ignored": (1, 0), "malformed": (2, 0)}
    (aisle,) = [row.id for row in readers.list_readers(site.organization_id) if row.topic == AISLE]
    mapping = '{"list_path": "tags", "tag_path": "tagId"}'
    readers.change_reader(actor, aisle, {"format": "mapping", "mapping": mapping})
    catch_up(pipeline)
    assert buckets() == {"recorded": (1, 1), "malformed": (2, 0)}
    assert execute("SELECT count(*) FROM ignored_message").fetchone() == (0,)
    readers.change_reader(actor, aisle, {"mapping": '{"payload": "lines", "delimiter": ";", "tag_path": "[0]"}'})
    catch_up(pipeline)
    assert buckets() == {"recorded": (1, 1), "unmatched_tag": (1, 1), "malformed": (1, 0)}
    assert [letter.payload for letter in dead_letters.list_letters(site.organization_id, 100)] == [b"{"]


def counted(reader_id: int) -> tuple[float, float]:
    """Return (messages, reads) of a reader in the metrics, over all buckets."""
    totals = [0.0, 0.0]
    for line in metrics.exposition().decode().splitlines():
        for no, name in enumerate(("messages", "reads")):
            if line.startswith(f'edge_ingest_{name}_total{{bucket="') and f'reader="{reader_id}"' in line:
                totals[no] += float(line.rpartition(" ")[2])
    return totals[0], totals[1]


def test_a_replayed_message_is_counted_once_in_the_metrics(site: Site) -> None:
    pipeline, actor = line(), shell(site.organization_id)
    aisle = readers.add_reader(actor, name="new", topic="site/new/reads", format="edge", location_id=site.aisle).id
    before = counted(aisle)  # metrics are global, and IDs repeat between tests
    sent = [b"3074%d;1" % number for number in range(4)] + [msgspec.json.encode({"reads": [{"tag": UNKNOWN}]})]
    pipeline.handle([message(payload, "site/new/reads", mid=no) for no, payload in enumerate(sent, start=1)])
    assert (counted(aisle)[0] - before[0], counted(aisle)[1] - before[1]) == (5, 1)
    for mapping in ('{"tag_path": "x"}', '{"payload": "lines", "delimiter": ";", "tag_path": "[0]"}'):
        readers.change_reader(actor, aisle, {"format": "mapping", "mapping": mapping})
        catch_up(pipeline)
    attach(site, UNKNOWN)
    catch_up(pipeline)
    messages, _ = counted(aisle)
    assert messages - before[0] == 5


def test_recorded_messages_are_not_kept(site: Site) -> None:
    line().handle([message(csl(seen(site.epcs[0])), mid=1), message(csl(), mid=2)])
    assert execute("SELECT count(*) FROM raw_message").fetchone() == (0,)


def test_a_failing_message_does_not_stop_the_replay(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = line()
    pipeline.handle([message(csl(seen(UNKNOWN)), mid=1)])
    pipeline.handle([message(csl(seen(UNKNOWN)), mid=2)])
    execute("UPDATE raw_message SET data = x'00' WHERE no = 1")
    attach(site, UNKNOWN)
    catch_up(pipeline)
    assert buckets() == {"recorded": (1, 1), "unmatched_tag": (1, 1)}


def pack(reader_id: int, received_at: int, size: int) -> Pack:
    return Pack(None, reader_id, received_at, b"", b"x" * (size - kept_messages.ROW_BYTES))


def test_kept_messages_are_limited_by_reader_in_total_and_by_age(store: object) -> None:
    now = clock.now()
    window = Window(10_000, HOUR)

    def kept() -> list[tuple[int, int]]:
        return execute("SELECT reader_id, count(*) FROM raw_message GROUP BY reader_id ORDER BY reader_id").fetchall()

    with writing():
        window.keep([pack(1, now, 900) for _ in range(20)])
        assert kept() == [(1, 2)]
        window.keep([pack(reader, now, 900) for reader in range(2, 8) for _ in range(3)])
        assert sum(number for _, number in kept()) == 11
        window.keep([pack(9, now, 2_600)])
        assert 9 not in dict(kept())
        window.keep([pack(9, now + HOUR + SECOND, 900)])
        assert kept() == [(9, 1)]


def test_a_replayed_pack_frees_its_own_bytes_only(store: object) -> None:
    """The two packs that a reader may keep stay two after one of them was replayed and replaced."""
    now = clock.now()
    window = Window(10_000, HOUR)
    with writing():
        window.keep([pack(1, now, 900), pack(1, now, 900)])
        (oldest,) = execute("SELECT min(no) FROM raw_message").fetchone()
        window.remove(oldest, pack(1, now, 900))
        window.keep([pack(1, now, 900) for _ in range(3)])
        assert execute("SELECT count(*) FROM raw_message").fetchone() == (2,)


def test_a_replay_continues_after_the_disk_was_full(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = line()
    pipeline.handle([message(csl(seen(UNKNOWN)), mid=1)])
    asset = attach(site, UNKNOWN)

    def full(*_: object) -> None:
        raise Unavailable("The disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("edge.ingest.batch.record", full)
        with pytest.raises(Unavailable):
            catch_up(pipeline)
    catch_up(pipeline)
    assert stays(asset) == 1


def moves(asset_id: int) -> list[int]:
    """Return the locations of the rows of history, oldest first."""
    sql = (
        "SELECT s.location_id FROM history h JOIN position p ON p.no = h.position_no "
        "JOIN source s ON s.no = h.source_no WHERE p.asset_id = ? ORDER BY h.observed_at, h.seq"
    )
    return [location_id for (location_id,) in execute(sql, (asset_id,))]


def reader_at(site: Site, location_id: int) -> None:
    readers.change_reader(shell(site.organization_id), site.dock_reader, {"location_id": location_id})


@pytest.mark.parametrize("is_smoothing", [True, False])
def test_a_read_that_had_counted_stays_where_it_was_read(site: Site, *, is_smoothing: bool) -> None:
    pipeline = Pipeline(GAP, 7, window=Window(MEGABYTE, HOUR), is_smoothing=is_smoothing)
    for minute in range(20, 10, -1):
        tags = [seen(site.epcs[0], at=moment(minute)), seen(UNKNOWN, at=moment(minute))]
        pipeline.handle([message(csl(*tags), mid=minute)])
    before = moves(site.assets[0])
    reader_at(site, site.aisle)
    late = attach(site, UNKNOWN)
    catch_up(pipeline)
    assert moves(site.assets[0]) == before
    assert set(moves(late)) == {site.dock}
    assert location_of(late) == site.dock
    assert buckets() == {"recorded": (10, 20)}


def test_a_tag_that_moved_to_another_asset_leaves_its_earlier_reads(site: Site) -> None:
    pipeline, actor = line(), shell(site.organization_id)
    pipeline.handle([message(csl(seen(site.epcs[0], at=moment(5)), seen(UNKNOWN, at=moment(5))), mid=1)])
    (tag,) = assets.get(site.organization_id, site.assets[0]).tags
    assets.detach_tag(actor, site.assets[0], tag.id)
    other = attach(site, site.epcs[0])
    attach(site, UNKNOWN)
    catch_up(pipeline)
    assert (stays(site.assets[0]), stays(other)) == (1, 0)


def test_reads_without_a_location_count_where_the_antenna_is_placed_and_others_where_it_was(site: Site) -> None:
    pipeline = line()
    pipeline.handle([message(csl(seen(UNKNOWN, at=moment(5))), mid=1)])
    reader_at(site, site.aisle)
    attach(site, "30BAD1")
    catch_up(pipeline)
    locations.delete(shell(site.organization_id), site.dock)
    late = attach(site, UNKNOWN)
    catch_up(pipeline)
    assert moves(late) == [site.aisle]


def test_messages_of_a_removed_reader_wait_for_a_reader_of_the_topic(site: Site) -> None:
    pipeline, actor = line(), shell(site.organization_id)
    pipeline.handle([message(csl(seen(site.epcs[0], at=moment(5)), seen(UNKNOWN, at=moment(5))), mid=1)])
    before = buckets()
    readers.remove_reader(actor, site.dock_reader)
    late = attach(site, UNKNOWN)
    catch_up(pipeline)
    assert (stays(site.assets[0]), stays(late), buckets()) == (1, 0, before)
    readers.add_reader(actor, name="new", topic=DOCK, format="csl", location_id=site.aisle, clock_setting="reader")
    assets.create(actor, name="Later", tags=[NewTag("rfid", "30BAD2")])
    catch_up(pipeline)
    assert moves(site.assets[0]) == [site.dock]


@pytest.mark.parametrize(
    "mapping", ['{"tag_path": "x"}', '{"list_path": "tags", "tag_path": "epc", "rssi_path": "rssi"}']
)
def test_a_message_in_another_format_keeps_the_reads_that_had_counted(site: Site, mapping: str) -> None:
    pipeline, actor = line(), shell(site.organization_id)
    pipeline.handle([message(csl(seen(site.epcs[0], at=moment(5)), seen(UNKNOWN, at=moment(5))), mid=1)])
    before = moves(site.assets[0])
    readers.change_reader(actor, site.dock_reader, {"format": "mapping", "mapping": mapping, "location_id": site.aisle})
    attach(site, UNKNOWN)
    catch_up(pipeline)
    assert moves(site.assets[0]) == before
    assert sum(reads for _, reads in buckets().values()) == 2
    assert dead_letters.list_letters(site.organization_id, 100) == []


def test_a_kept_message_without_a_reader_leaves_others_of_its_batch(site: Site) -> None:
    """A reader with a wildcard is narrowed to one of its devices; later one for the other device follows."""
    pipeline, actor = line(), shell(site.organization_id)
    wide = readers.add_reader(actor, name="wide", topic="site/wide/+", format="csl", location_id=site.aisle)
    sent = {"site/wide/1": UNKNOWN, "site/wide/2": "30BAD1"}
    pipeline.handle([message(csl(seen(tag)), topic, mid=no) for no, (topic, tag) in enumerate(sent.items())])
    readers.change_reader(actor, wide.id, {"topic": "site/wide/1"})
    catch_up(pipeline)
    first = attach(site, UNKNOWN)
    catch_up(pipeline)
    assert stays(first) == 1
    readers.add_reader(actor, name="second", topic="site/wide/2", format="csl", location_id=site.aisle)
    second = attach(site, "30BAD1")
    catch_up(pipeline)
    assert (stays(first), stays(second)) == (1, 1)
    assert buckets() == {"recorded": (2, 2)}


@pytest.mark.parametrize("has_places", [False, True])
def test_messages_that_earlier_releases_kept_are_still_replayed(site: Site, *, has_places: bool) -> None:
    """The stored form is an array of each message; releases until 2026-11-27 wrote no places."""
    at = moment(5)
    payload = csl(seen(site.epcs[0], at=at), seen(UNKNOWN, at=at))
    kept: list[Any] = [DOCK, payload, at, "recorded", ["recorded", "unmatched_tag"], [[at, 0], [at, 0]]]
    if has_places:
        place = {"location_id": site.dock, "min_rssi": None, "is_enabled": True, "kind": "zone", "rssi_offset": 0.0}
        kept.append([None, [place, [[1, 0, site.organization_id]]]])
    pipeline = line()
    pipeline.handle([message(payload, mid=1, received_at=at)])
    data = zlib.compress(msgspec.msgpack.encode([kept]))
    assert execute("UPDATE raw_message SET data = ?", (data,)).rowcount == 1
    reader_at(site, site.aisle)
    late = attach(site, UNKNOWN)
    catch_up(pipeline)
    assert moves(late) == [site.dock if has_places else site.aisle]
    assert moves(site.assets[0]) == [site.dock]
    assert buckets() == {"recorded": (1, 2)}
