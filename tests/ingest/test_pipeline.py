"""Pipeline: each message ends in exactly one bucket, and no message blocks the next one."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from edge import clock
from edge.audit.actors import shell
from edge.clock import SECOND
from edge.database.bounds import Bounds
from edge.database.connection import execute
from edge.errors import Unavailable
from edge.ingest import batch as batch_module
from edge.ingest import pipeline as pipeline_module
from edge.ingest.pipeline import Pipeline
from edge.ingest.receipts import Receipts
from edge.readers import dead_letters, ignored_messages, readers, unassigned_topics, unknown_tags
from edge.readers.readers import Placement
from edge.records import assets, locations
from edge.records.tags import NewTag
from tests.conftest import Cast
from tests.ingest.site import AISLE, DOCK, GAP, Site, buckets, csl, location_of, message, pipeline, seen
from tests.observed import counted


def test_a_read_of_a_known_tag_places_its_asset(site: Site) -> None:
    pipeline().handle([message(csl(seen(site.epcs[0])))])
    assert location_of(site.assets[0]) == site.dock
    assert buckets() == {"recorded": (1, 1)}


def test_each_reason_for_not_counting_has_its_bucket(site: Site, cast: Cast) -> None:
    readers.add_reader(shell(cast.acme), name="nowhere", topic="site/nowhere", format="csl")
    for value in ("00000ABC", "ABC"):
        assets.create(shell(cast.acme), name="twin", tags=[NewTag("rfid", value)])
    epc = site.epcs[0]
    pipeline().handle(
        [
            message(csl(seen("30FF"))),
            message(csl(seen("0ABC"))),
            message(csl(seen(epc)), "site/nowhere"),
            message(csl(seen(epc, port=2, rssi=-61))),
            message(csl(seen(epc, port=3))),
            message(b"{broken"),
            message(b"{}"),
            message(b'{"heartBeatFlag":1}'),
            message(csl(seen(epc)), "nobody/knows"),
            message(csl(seen(epc)), is_retained=True),
        ]
    )
    assert buckets() == {
        "unmatched_tag": (1, 1),
        "ambiguous_tag": (1, 1),
        "no_location": (1, 1),
        "filtered": (2, 2),
        "malformed": (1, 0),
        "ignored": (1, 0),
        "status": (1, 0),
        "unknown_topic": (1, 0),
        "retained": (1, 0),
    }
    assert execute("SELECT count(*) FROM position").fetchone() == (0,)


def test_a_message_has_the_bucket_of_its_best_read(site: Site) -> None:
    pipeline().handle([message(csl(seen("30FF"), seen(site.epcs[0]), seen("30EE")))])
    assert buckets() == {"recorded": (1, 1), "unmatched_tag": (0, 2)}


def test_a_poison_message_becomes_a_dead_letter_and_the_next_one_counts(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = batch_module.match_key

    def fails(tag_type: str, value: str) -> str:
        if value == "30BAD0":
            raise ZeroDivisionError("a bug")
        return works(tag_type, value)

    monkeypatch.setattr(batch_module, "match_key", fails)
    poison = csl(seen("30BAD0"))
    pipeline().handle([message(csl(seen(site.epcs[0]))), message(poison), message(csl(seen(site.epcs[1])))])
    assert buckets() == {"recorded": (2, 2), "malformed": (1, 0)}
    letter = execute("SELECT payload, reason, topic FROM dead_letter").fetchone()
    assert letter == (poison, "ZeroDivisionError: a bug", DOCK)


def test_an_unreadable_scan_list_becomes_a_dead_letter_with_the_reason(site: Site) -> None:
    pipeline().handle([message(b'{"reads":[{"tag":1.5}]}', AISLE)])
    assert buckets() == {"malformed": (1, 0)}
    assert "EPC is the number 1.5" in execute("SELECT reason FROM dead_letter").fetchone()[0]


def test_a_requeued_dead_letter_counts_after_the_cause_is_fixed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> str:
        raise ZeroDivisionError("a bug")

    line, at, works = pipeline(), clock.now() - 60 * SECOND, batch_module.match_key
    monkeypatch.setattr(batch_module, "match_key", fails)
    sent = csl(seen("30BAD0", at=at // 1000))
    line.handle([message(sent, mid=7, received_at=at)])
    no, payload, received_at = execute("SELECT no, payload, received_at FROM dead_letter").fetchone()
    again = replace(message(payload, received_at=received_at), dead_letter_id=no)
    line.handle([again])
    letters = execute("SELECT no FROM dead_letter").fetchall()  # not fixed yet: stored again
    assert (len(letters), letters[0][0] != no) == (1, True)
    monkeypatch.setattr(batch_module, "match_key", works)
    assets.attach_tag(shell(site.organization_id), site.assets[0], NewTag("rfid", "30BAD0"))
    line.handle([replace(again, dead_letter_id=letters[0][0])])
    assert location_of(site.assets[0]) == site.dock
    assert execute("SELECT count(*) FROM dead_letter").fetchone() == (0,)
    assert buckets() == {"recorded": (1, 1)}


@pytest.mark.parametrize("change", ["format = 'of tomorrow'", "format = 'mapping', mapping = '{'"])
def test_a_reader_with_an_unusable_format_does_not_affect_others(site: Site, change: str) -> None:
    execute(f"UPDATE reader SET {change} WHERE topic = ?", (AISLE,))
    pipeline().handle([message(b'{"reads":[]}', AISLE), message(csl(seen(site.epcs[0])))])
    assert buckets() == {"malformed": (1, 0), "recorded": (1, 1)}
    assert "cannot be used" in execute("SELECT reason FROM dead_letter").fetchone()[0]


def test_a_transaction_has_a_limited_number_of_reads(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the limit, because other writers wait for the transaction."""
    monkeypatch.setattr(pipeline_module, "MOST_READS", 5)
    line = pipeline()
    batch = [message(csl(seen("30F0"), seen("30F1")), mid=mid) for mid in range(1, 6)]
    assert [line.handle_some(batch), line.handle_some(batch[2:]), line.handle_some(batch[4:])] == [2, 2, 1]
    assert buckets() == {"unmatched_tag": (5, 10)}
    line.handle([replace(one, is_redelivered=True) for one in batch])
    assert buckets() == {"unmatched_tag": (5, 10), "repeat": (5, 0)}


def test_a_transaction_has_a_limited_time_of_parsing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages without reads cost time too."""
    line = pipeline()
    batch = [message(b"{", mid=mid) for mid in range(1, 4)]
    with monkeypatch.context() as patch:
        patch.setattr(pipeline_module, "MOST_PARSING", -1)
        assert line.handle_some(batch) == 1
    assert line.handle_some(batch[1:]) == 2
    assert buckets() == {"malformed": (3, 0)}


def test_a_message_with_too_many_reads_becomes_a_dead_letter(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline_module, "MOST_READS", 2)
    pipeline().handle([message(csl(*map(seen, site.epcs))), message(csl(seen(site.epcs[0])))])
    assert buckets() == {"malformed": (1, 0), "recorded": (1, 1)}
    reason = "the message has 3 reads; set the reader to publish at most 2 at once"
    assert execute("SELECT reason FROM dead_letter").fetchone() == (reason,)


def test_a_batch_counts_later_if_the_disk_is_full(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    line = pipeline()
    batch = [message(csl(seen(site.epcs[0])), mid=7)]
    with monkeypatch.context() as patch:
        patch.setattr(Receipts, "keep", lambda *_: (_ for _ in ()).throw(Unavailable("full")))
        with pytest.raises(Unavailable):
            line.handle(batch)
    assert buckets() == {}
    assert location_of(site.assets[0]) is None
    line.handle(batch)
    assert buckets() == {"recorded": (1, 1)}


def test_a_batch_counts_later_if_the_disk_is_read_only(site: Site) -> None:
    line = pipeline()
    batch = [message(csl(seen(site.epcs[0])), mid=7), message(b"no JSON", mid=8)]
    execute("PRAGMA query_only = 1")  # same error as for an SD card mounted read-only
    with pytest.raises(Unavailable, match="read-only"):
        line.handle(batch)
    execute("PRAGMA query_only = 0")
    line.handle(batch)
    assert buckets() == {"recorded": (1, 1), "malformed": (1, 0)}


def test_reads_of_one_tag_within_a_batch_keep_their_order(site: Site) -> None:
    at_aisle = b'{"reads":[{"tag":"%s"}]}' % site.epcs[0].encode()
    moment = clock.now()
    pipeline(is_smoothing=False).handle(
        [message(csl(seen(site.epcs[0])), received_at=moment), message(at_aisle, AISLE, received_at=moment)]
    )
    assert location_of(site.assets[0]) == site.aisle


def test_without_smoothing_a_burst_of_buffered_messages_loses_no_move(site: Site) -> None:
    line, now = pipeline(is_smoothing=False), clock.now()
    begin = now - 600 * SECOND
    at_dock = [begin + second * SECOND for second in range(0, 140, 2)]
    for at in at_dock:
        line.handle([message(csl(seen(site.epcs[0], at)), received_at=at + SECOND)])
    buffered = [
        b'{"reads":[{"tag":"%s","time":"%s"}]}' % (site.epcs[0].encode(), clock.rfc3339(at + SECOND).encode())
        for at in at_dock
    ]
    line.handle([message(payload, AISLE, received_at=now) for payload in buffered])
    rows = execute("SELECT s.location_id FROM history h JOIN source s ON s.no = h.source_no ORDER BY h.observed_at")
    assert [location_id for (location_id,) in rows] == [site.dock, site.aisle] * len(at_dock)


def test_changes_of_readers_and_tags_apply_from_the_next_batch(site: Site) -> None:
    line = pipeline()
    line.handle([message(csl(seen("30FF")))])
    asset = assets.create(shell(site.organization_id), name="late", tags=[NewTag("rfid", "30FF")]).id
    readers.change_reader(shell(site.organization_id), site.dock_reader, {"location_id": site.aisle})
    line.handle([message(csl(seen("30FF")))])
    assert location_of(asset) == site.aisle
    assets.delete(shell(site.organization_id), asset)
    line.handle([message(csl(seen("30FF")))])
    assert buckets() == {"unmatched_tag": (2, 2), "recorded": (1, 1)}


def test_a_deleted_location_is_ignored(site: Site) -> None:
    line = pipeline()
    locations.delete(shell(site.organization_id), site.dock)
    line.handle([message(csl(seen(site.epcs[0])))])
    assert buckets() == {"no_location": (1, 1)}


def test_tags_of_another_organization_are_unmatched(site: Site, cast: Cast) -> None:
    place = locations.create(shell(cast.rival), name="Theirs").id
    readers.add_reader(shell(cast.rival), name="theirs", topic="rival/reads", format="csl", location_id=place)
    pipeline().handle([message(csl(seen(site.epcs[0])), "rival/reads")])
    assert location_of(site.assets[0]) is None
    assert buckets() == {"unmatched_tag": (1, 1)}


def test_an_unassigned_topic_is_kept_with_its_newest_message(site: Site) -> None:
    line = pipeline()
    line.handle([message(b"one", "who/knows"), message(b"two", "who/knows")])
    assert execute("SELECT topic, messages, sample FROM unassigned_topic").fetchall() == [("who/knows", 2, b"two")]
    line.handle([message(b"x" * 1_000_000, "who/knows")])
    assert execute("SELECT length(sample) FROM unassigned_topic").fetchone() == (65_536,)


def test_repeated_and_retained_messages_of_an_unassigned_topic_do_not_count(site: Site) -> None:
    line = pipeline()
    line.handle([message(b"one", "who/knows", mid=1)])
    line.handle([message(b"one", "who/knows", mid=1, is_redelivered=True)])
    line.handle([message(b"two", "who/knows", is_retained=True)])
    assert execute("SELECT messages, sample FROM unassigned_topic").fetchall() == [(1, b"one")]


def test_a_message_has_at_most_5000_reads(site: Site) -> None:
    line, read = pipeline(), seen(site.epcs[0])
    line.handle([message(csl(*[read] * 5_000))])
    assert "malformed" not in buckets()
    line.handle([message(csl(*[read] * 5_001))])
    assert buckets()["malformed"] == (1, 0)


def test_a_status_note_has_only_printable_characters(site: Site, cast: Cast) -> None:
    """Check the note for control characters, which a terminal would execute."""
    readers.add_reader(shell(cast.acme), name="talker", topic="talker", format="smartreader")
    pipeline().handle([message(b'{"smartreader-status": "\\u001b[2J\\u009bok"}', "talker")])
    assert execute("SELECT note FROM reader_state").fetchall() == [("[2Jok",)]


def test_an_unknown_tag_is_counted_by_reader_with_its_location(site: Site) -> None:
    line = pipeline()
    line.handle([message(csl(seen("00ff01"), seen("30EE")))])
    line.handle([message(csl(seen("FF01")))])
    rows = execute("SELECT match_key, value, sightings, location_id, reason FROM unknown_tag ORDER BY match_key")
    assert rows.fetchall() == [
        ("30EE", "30EE", 1, site.dock, "unmatched"),
        ("FF01", "00ff01", 2, site.dock, "unmatched"),
    ]


def test_every_recognized_message_shows_that_the_reader_is_online(site: Site) -> None:
    line = pipeline()
    moment = clock.now()
    line.handle([message(csl(seen(site.epcs[0], port=2)), mid=3, received_at=moment)])
    line.handle([message(b'{"heartBeatFlag":1}', received_at=moment + SECOND)])
    state = execute("SELECT last_heard_at, last_read_at, qos FROM reader_state").fetchone()
    assert state == (moment + SECOND, moment, 0)
    assert execute("SELECT port, last_read_at FROM antenna_state").fetchall() == [(2, moment)]


def test_two_identities_of_one_advertisement_are_one_read(cast: Cast) -> None:
    place = locations.create(shell(cast.acme), name="Hall").id
    readers.add_reader(shell(cast.acme), name="gateway", topic="gw", format="openmqttgateway", location_id=place)
    beacon = "5b2f0c1e-8d47-4f0a-9c33-71de20aa4b10:10:257"
    asset = assets.create(shell(cast.acme), name="forklift", tags=[NewTag("ble", beacon)]).id
    payload = (
        b'{"id":"C3:0A:11:4E:7F:21","rssi":-74,"mfid":"4c00","uuid":"5b2f0c1e8d474f0a9c3371de20aa4b10",'
        b'"major":10,"minor":257,"txpower":-59}'
    )
    pipeline().handle([message(payload, "gw")])
    assert location_of(asset) == place
    assert buckets() == {"recorded": (1, 1)}


def test_antennas_inherit_the_signal_threshold_of_their_reader(site: Site) -> None:
    readers.change_reader(shell(site.organization_id), site.dock_reader, {"min_rssi": -55.0})
    readers.set_antenna(shell(site.organization_id), site.dock_reader, 4, Placement(site.aisle, None, True))
    line = pipeline()
    line.handle([message(csl(seen(site.epcs[0], port=4, rssi=-56))), message(csl(seen(site.epcs[1], port=4)))])
    assert buckets() == {"filtered": (1, 1), "recorded": (1, 1)}
    assert location_of(site.assets[1]) == site.aisle


# Invariants ------------------------------------------------------------------------------------------------------


def test_an_empty_message_becomes_a_dead_letter(site: Site) -> None:
    pipeline().handle([message(b"")])
    (letter,) = dead_letters.list_letters(site.organization_id, shown_bytes=100)
    assert (letter.payload, letter.size, letter.is_whole) == (b"", 0, True)


def test_dead_letters_without_room_are_counted_by_their_cause(site: Site) -> None:
    full = Pipeline(GAP, 7, Bounds(dead_letters=0))
    full.handle([message(b"{"), replace(message(b"{"), size=1_300_000)])
    assert {bucket: count.not_kept for bucket, count in counted().items()} == {"malformed": 1, "too_large": 1}


def test_a_message_that_is_too_large_is_counted_and_not_parsed(site: Site) -> None:
    pipeline().handle([replace(message(csl(seen(site.epcs[0]))), size=1_300_000)])
    assert buckets() == {"too_large": (1, 0)}
    (letter,) = dead_letters.list_letters(site.organization_id, shown_bytes=100)
    assert (letter.size, letter.is_whole) == (1_300_000, False)
    assert letter.reason.startswith("the message has 1,300,000 bytes")


def test_a_message_that_is_too_large_on_an_unassigned_topic_has_its_size(site: Site) -> None:
    pipeline().handle([replace(message(b"{", "site/new"), size=1_300_000)])
    (topic,) = unassigned_topics.list_topics(site.organization_id)
    assert (topic.topic, topic.size) == ("site/new", 1_300_000)


def test_the_last_unrecognized_messages_of_each_reader_are_kept(site: Site) -> None:
    line = pipeline()
    line.handle([message(b'{"n":%d}' % number) for number in range(8)] + [message(b'{"x":1}', AISLE)])
    line.handle([message(b'{"n":8}'), message(csl())])
    kept = ignored_messages.list_messages(site.organization_id, site.dock_reader)
    assert [message.payload for message in kept] == [b'{"n":%d}' % number for number in (8, 7, 6, 5, 4)]
    assert execute("SELECT count(*) FROM ignored_message").fetchone() == (6,)


def test_an_unknown_beacon_is_listed_by_its_stable_identity(site: Site) -> None:
    beacon = "5b2f0c1e-8d47-4f0a-9c33-71de20aa4b10:10:257"
    advert = "0201061AFF4C0002155B2F0C1E8D474F0A9C3371DE20AA4B10000A0101C5"
    readers.add_reader(shell(site.organization_id), name="gate", topic="gate", format="gl_s10", location_id=site.dock)
    line = pipeline()
    for address in ("C30A114E7F21", "D30A114E7F22"):
        line.handle([message(b'{"dev_list":[{"mac":"%s","ad":"%s"}]}' % (address.encode(), advert.encode()), "gate")])
    (unknown,) = unknown_tags.list_tags(site.organization_id)
    assert (unknown.value, unknown.sightings) == (beacon, 2)
    assets.attach_tag(shell(site.organization_id), site.assets[0], NewTag("ble", beacon.upper().replace(":", "/")))
    line.handle([message(b'{"dev_list":[{"mac":"E30A114E7F23","ad":"%s"}]}' % advert.encode(), "gate")])
    assert location_of(site.assets[0]) == site.dock
