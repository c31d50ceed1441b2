"""Inbox: unassigned topics, unmatched tags and unreadable messages."""

from __future__ import annotations

import re

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import writing
from edge.people.people import Role
from edge.readers import dead_letters, readers, unassigned_topics, unknown_tags
from edge.readers.dead_letters import NewDeadLetter
from edge.readers.unknown_tags import Sighting
from edge.records import assets
from tests.conftest import Cast
from tests.pages.conftest import Browser, SignIn, Site, hear


def test_an_unknown_tag_is_attached_by_the_key_of_an_asset(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    unknown_tags.record([Sighting(cast.acme, "rfid", "E2AA", 0, "E2AA", "unmatched", clock.now(), site.dock.id)])
    browser = sign_in_as(Role.EDITOR)
    assert "E2AA" in browser.get("/readers/unknown-tags").text
    entered = {"tag_type": "rfid", "value": "E2AA", "asset": "NO-SUCH"}
    assert browser.post("/readers/unknown-tags", entered).status_code == 400
    assert browser.post("/readers/unknown-tags", {**entered, "asset": "ASSET-0002"}).status_code == 303
    assert "E2AA" in [tag.value for tag in assets.get(cast.acme, site.cage.id).tags]
    assert unknown_tags.list_tags(cast.acme) == []


def test_a_dead_letter_is_handed_in_once_more(
    admin: Browser, cast: Cast, requeued: list[tuple[int, str, bytes, int]]
) -> None:
    reader = readers.add_reader(shell(cast.acme), name="P", topic="t", format="edge")
    dead_letters.add([NewDeadLetter(cast.acme, reader.id, "t", b"\xffbroken", 7, "not UTF-8", 1_700_000_000_000_000)])
    page = admin.get("/readers/dead-letters").text
    assert "not UTF-8" in page
    assert "ff 62 72" in page
    other = readers.add_reader(shell(cast.acme), name="Q", topic="u", format="edge")
    assert "not UTF-8" in admin.get(f"/readers/{reader.id}").text
    assert "not UTF-8" not in admin.get(f"/readers/{other.id}").text
    assert "ff62726f6b656e" in admin.get(f"/readers/{reader.id}/edit").text.replace(" ", "")  # to be tried
    no = dead_letters.list_letters(cast.acme, 9)[0].no
    assert admin.post(f"/readers/dead-letters/{no}").status_code == 303
    assert requeued == [(no, "t", b"\xffbroken", 1_700_000_000_000_000)]
    assert admin.post(f"/readers/dead-letters/{no}", {"drop": 1}).status_code == 303
    assert dead_letters.list_letters(cast.acme, 9) == []
    assert admin.post(f"/readers/dead-letters/{no}").status_code == 404


@pytest.mark.usefixtures("requeued")
def test_messages_of_another_organization_are_hidden(admin: Browser, cast: Cast) -> None:
    theirs = readers.add_reader(shell(cast.rival), name="P", topic="rival/t", format="edge")
    dead_letters.add([NewDeadLetter(cast.rival, theirs.id, "t", b"secret", 6, "why", 1)])
    unknown_tags.record([Sighting(cast.rival, "rfid", "E2BB", theirs.id, "E2BB", "unmatched", 1, None)])
    no = dead_letters.list_letters(cast.rival, 9)[0].no
    for path in (f"/readers/{theirs.id}", f"/readers/{theirs.id}/edit"):
        assert admin.get(path).status_code == 404
    assert "secret" not in admin.get("/readers/dead-letters").text
    assert "E2BB" not in admin.get("/readers/unknown-tags").text
    assert admin.post(f"/readers/dead-letters/{no}").status_code == 404
    assert admin.post(f"/readers/{theirs.id}/remove").status_code == 404


def test_a_gateway_with_a_topic_per_tag_is_one_line_until_it_is_set_up(admin: Browser, cast: Cast) -> None:
    message = b'{"id": "C3:0A:11:4E:7F:21", "rssi": -60}'
    topics = {f"home/gate/BTtoMQTT/{number}": message for number in range(3)} | {"home/other/1/2": b"?"}
    with writing():
        unassigned_topics.record(
            [unassigned_topics.Unassigned(topic, clock.now(), payload) for topic, payload in topics.items()]
        )
    listed = admin.get("/readers/topics").text
    assert (
        listed.count('<h2 class="mono">home/gate/BTtoMQTT/') == 1
    )  # in one line: the heading, its link, and its name for screen readers
    assert "home/gate/BTtoMQTT/+" in listed
    assert '<option value="openmqttgateway" selected>' in admin.get("/readers/new?topic=home/gate/BTtoMQTT/%2B").text
    admin.post(
        "/readers/new",
        {"name": "Gate", "topic": "home/gate/BTtoMQTT/+", "format": "openmqttgateway", "location_id": ""},
    )
    assert [topic.topic for topic in unassigned_topics.list_topics(cast.acme)] == ["home/other/1/2"]


def test_a_message_that_is_too_large_is_shown_with_its_size(admin: Browser) -> None:
    with writing():
        unassigned_topics.record([unassigned_topics.Unassigned("yard/1", clock.now(), b"{", 1_300_000)])
    listed = admin.get("/readers/topics").text
    assert "Last message, 1.3 MB" in listed
    assert "Messages over 1 MiB are not read" in listed


def test_topics_of_an_unknown_format_are_grouped_by_address(admin: Browser) -> None:
    few = [f"hall/C30A114E7F0{number}" for number in range(9)]
    many = [f"yard/c3:0a:11:4e:7f:{number:02x}" for number in range(12)]
    with writing():
        unassigned_topics.record([unassigned_topics.Unassigned(topic, clock.now(), b"?") for topic in few + many])
    listed = admin.get("/readers/topics").text
    assert listed.count('<h2 class="mono">yard/') == 1
    assert "yard/+" in listed
    assert listed.count('<h2 class="mono">hall/') == len(few)


def test_a_tag_is_one_row_with_all_its_readers(cast: Cast) -> None:
    one = readers.add_reader(shell(cast.acme), name="Portal 1", topic="t", format="edge")
    for reader_id, value, at in ((one.id, "E2 AA", 5), (0, "E2AA", 9)):
        unknown_tags.record([Sighting(cast.acme, "rfid", "E2AA", reader_id, value, "unmatched", at, None)])
    (tag,) = unknown_tags.list_tags(cast.acme)
    assert (tag.value, tag.readers, tag.is_scanned, tag.sightings, tag.first_seen_at) == (
        "E2AA",
        "Portal 1",
        True,
        2,
        5,
    )


def test_a_dismissed_tag_stays_hidden_until_it_is_restored(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
    def see(organization_id: int = cast.acme) -> None:
        unknown_tags.record([Sighting(organization_id, "rfid", "E2AA", 0, "E2AA", "unmatched", clock.now(), None)])

    see()
    editor = sign_in_as(Role.EDITOR)
    editor.post("/readers/unknown-tags", {"tag_type": "rfid", "match_key": "E2AA", "dismiss": 1})
    see()
    see(cast.rival)
    assert unknown_tags.list_tags(cast.acme) == []
    assert len(unknown_tags.list_tags(cast.rival)) == 1
    assert "Show rfid:E2AA again" in editor.get("/readers/unknown-tags").text
    assert editor.post("/readers/unknown-tags", {"bring_back": "rfid:E2AA"}).status_code == 303
    assert editor.post("/readers/unknown-tags", {"bring_back": "rfid:E2AA"}).status_code == 404
    see()
    assert len(unknown_tags.list_tags(cast.acme)) == 1


def test_a_dismissed_topic_stays_hidden_until_it_is_restored(admin: Browser, cast: Cast) -> None:
    hear("tv/1")
    assert admin.post("/readers/topics", {"topic": "tv/+"}).status_code == 303
    hear("tv/2")
    hear("dock/1")
    assert [topic.topic for topic in unassigned_topics.list_topics(cast.acme)] == ["dock/1"]
    assert admin.post("/readers/topics", {"bring_back": "tv/+"}).status_code == 303
    hear("tv/2")
    assert len(unassigned_topics.list_topics(cast.acme)) == 2


def test_every_unmatched_tag_is_listed_and_the_tile_shows_the_same_number(admin: Browser, cast: Cast) -> None:
    """A tag that two readers read is one unmatched tag."""
    made = [readers.add_reader(shell(cast.acme), name=name, topic=name, format="edge").id for name in ("a", "b")]
    now = clock.now()
    unknown_tags.record(
        [
            unknown_tags.Sighting(cast.acme, "rfid", f"E{number:03}", reader, f"E{number:03}", "unknown", now, None)
            for number in range(120)
            for reader in made
        ]
    )
    assert "<b>120</b><span>unmatched tags</span>" in admin.get("/readers").text
    shown: list[str] = []
    for offset in (0, 50, 100):
        page = admin.get(f"/readers/unknown-tags?offset={offset}").text
        assert "of 120 unmatched tags" in page
        shown += re.findall(r'<span class="mono">(E\d+)</span><span class="below"><span class="pill">rfid', page)
    assert sorted(shown) == [f"E{number:03}" for number in range(120)]
    assert f"reader={made[0]}&amp;offset=50" in admin.get(f"/readers/unknown-tags?reader={made[0]}").text
