"""From a reader that sends to one that is set up: what is shown, dismissed, watched, and given an account."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from flask import Flask

from edge import clock, live_reads
from edge.app import create_app
from edge.live_reads import LiveRead
from edge.ops.health import Health
from edge.pages import formats
from edge.pages.broker_facts import BrokerFacts, NewAccount
from edge.pages.live_reads import by_tag_and_antenna
from edge.store import antenna_names, locations, readers, unassigned_topics, unknown_tags
from edge.store.actors import shell
from edge.store.people import Role
from edge.store.unassigned_topics import Unassigned
from edge.store.unknown_tags import Sighting
from tests.conftest import Cast
from tests.pages.conftest import SETTINGS, Browser, Site

SignIn = Callable[..., Browser]
FACTS = BrokerFacts(
    "localhost", 1884, 8883, make_account=lambda _, number: NewAccount("dock1", "s3cret", f"t/{number}")
)


@pytest.fixture
def app(cast: Cast) -> Flask:
    known = formats.NONE._replace(titles={"edge": "edge"})
    return create_app(replace(SETTINGS, public_url="http://box.lan:8080", broker=FACTS, formats=known), Health())


@pytest.fixture
def admin(sign_in_as: SignIn) -> Browser:
    return sign_in_as(Role.ADMINISTRATOR)


def hear(topic: str) -> None:
    unassigned_topics.record([Unassigned(topic, clock.now(), b"{}")])


def test_the_page_says_what_to_enter_in_the_reader_and_waits_for_its_first_message(admin: Browser) -> None:
    text = admin.get("/readers").text
    for words in ("box.lan", "1884", "8883", "dock1/reads", "Waiting for the first message"):
        assert words in text
    first = admin.get("/readers/heard")
    hear("hall/portal")
    heard = admin.get("/readers/heard", headers={"If-None-Match": first.headers["ETag"]})
    assert heard.status_code == 200
    assert "/readers/new?topic=hall/portal" in heard.text


def test_topics_of_nobody_are_shown_to_administrators_only(sign_in_as: SignIn) -> None:
    hear("hall/portal")
    editor = sign_in_as(Role.EDITOR)
    assert "hall/portal" not in editor.get("/readers").text
    assert "hall/portal" not in editor.get("/readers/heard").text


def test_a_reader_is_created_with_its_location(admin: Browser, cast: Cast) -> None:
    entered = {"name": "Portal", "topic": "a/b", "format": "edge", "location_name": "Dock 9", "is_enabled": "on"}
    assert admin.post("/readers/new", entered).status_code == 303
    (reader,) = readers.list_readers(cast.acme)
    assert locations.get(cast.acme, reader.location_id or 0).name == "Dock 9"


@pytest.mark.parametrize(
    ("field", "value"), [("location_name", "x" * 256), ("topic", "a/#/b"), ("topic", ""), ("location_id", "7")]
)
def test_neither_reader_nor_location_is_created_when_one_is_wrong(
    admin: Browser, cast: Cast, field: str, value: str
) -> None:
    entered = {"name": "Portal", "topic": "a/b", "format": "edge", "location_name": "Dock 9", field: value}
    assert admin.post("/readers/new", entered).status_code == 400
    assert readers.list_readers(cast.acme) == []
    assert admin.get("/locations?q=Dock").text.count("data-branch=") == 0


def test_a_reader_gets_an_account_whose_password_is_shown_once(admin: Browser, sign_in_as: SignIn, cast: Cast) -> None:
    reader = readers.add_reader(shell(cast.acme), name="P", topic="t", format="edge")
    theirs = readers.add_reader(shell(cast.rival), name="P", topic="rival/u", format="edge")
    text = admin.post(f"/readers/{reader.id}/account").text
    assert "s3cret" in text
    assert f"t/{reader.id}" in text
    assert "s3cret" not in admin.get(f"/readers/{reader.id}").text
    assert admin.post(f"/readers/{theirs.id}/account").status_code == 404
    assert sign_in_as(Role.EDITOR).post(f"/readers/{reader.id}/account").status_code == 403


def test_live_reads_are_kept_only_while_somebody_watches(sign_in_as: SignIn, cast: Cast) -> None:
    reader = readers.add_reader(shell(cast.acme), name="P", topic="t", format="edge")
    theirs = readers.add_reader(shell(cast.rival), name="P", topic="rival/u", format="edge")
    editor = sign_in_as(Role.EDITOR)
    read = LiveRead(reader.id, 1, "rfid", "E2AA", -55.0, clock.now(), "unmatched_tag", None)
    live_reads.note([read])
    assert "E2AA" not in editor.get(f"/readers/{reader.id}/reads").text
    live_reads.note([read, read._replace(rssi=-61.0), read._replace(antenna=2, value="E2BB")])
    text = editor.get(f"/readers/{reader.id}/reads/now").text
    assert "E2AA" in text
    assert "-61 to -55" in text
    assert "Unknown tag" in text
    assert "E2BB" not in editor.get(f"/readers/{reader.id}/reads/now?antenna=1").text
    assert "E2AA" not in editor.get(f"/readers/{reader.id}/reads/now?tag=e2b").text
    port = antenna_names.port_of(reader.id, "North door")
    live_reads.note([read._replace(antenna=port or 0, value="E2CC")])
    text = editor.get(f"/readers/{reader.id}/reads?antenna=north+door").text
    assert "E2CC" in text
    assert "E2AA" not in text
    assert ">North door</td>" in text
    assert editor.get(f"/readers/{theirs.id}/reads").status_code == 404
    assert editor.get(f"/readers/{theirs.id}/reads/now").status_code == 404


def test_rows_of_live_reads_keep_their_order() -> None:
    came = [("B", 1), ("A", 2), ("B", 1), ("A", 1)]
    reads = [LiveRead(1, port, "rfid", tag, None, at, "recorded", 5) for at, (tag, port) in enumerate(came)]
    found = [(row.value, row.antenna, row.reads) for row in by_tag_and_antenna(reads, 0)]
    assert found == [("A", 1, 1), ("A", 2, 1), ("B", 1, 2)]


def test_one_tag_is_one_row_with_all_that_saw_it(cast: Cast) -> None:
    one = readers.add_reader(shell(cast.acme), name="Portal 1", topic="t", format="edge")
    for reader_id, value, at in ((one.id, "E2 AA", 5), (0, "E2AA", 9)):
        unknown_tags.record([Sighting(cast.acme, "rfid", "E2AA", reader_id, value, "unmatched", at, None)])
    (tag,) = unknown_tags.list_tags(cast.acme)
    assert (tag.value, tag.readers, tag.by_hand, tag.sightings, tag.first_seen_at) == ("E2AA", "Portal 1", True, 2, 5)


def test_a_dismissed_tag_stays_away_until_it_is_brought_back(sign_in_as: SignIn, cast: Cast, site: Site) -> None:
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


def test_a_dismissed_topic_stays_away_until_it_is_brought_back(admin: Browser, cast: Cast) -> None:
    hear("tv/1")
    assert admin.post("/readers/topics", {"topic": "tv/+"}).status_code == 303
    hear("tv/2")
    hear("dock/1")
    assert [topic.topic for topic in unassigned_topics.list_topics(cast.acme)] == ["dock/1"]
    assert admin.post("/readers/topics", {"bring_back": "tv/+"}).status_code == 303
    hear("tv/2")
    assert len(unassigned_topics.list_topics(cast.acme)) == 2


def test_what_fits_an_asset_is_suggested(sign_in_as: SignIn, site: Site) -> None:
    viewer = sign_in_as(Role.VIEWER)
    assert viewer.get("/assets/suggested?q=cage").json == {"assets": [["ASSET-0002", "Roll cage"]]}
    assert viewer.get("/assets/suggested?q=%00").json == {"assets": []}
