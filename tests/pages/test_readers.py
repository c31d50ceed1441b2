"""Readers, what waits to be set up, people and devices."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask

from edge import clock
from edge.auth.secrets import hash_secret
from edge.errors import Invalid
from edge.ingest.reads import Attempt, Guess, Read, Trial, TrialRead
from edge.pages.formats import Formats
from edge.store import (
    actors,
    assets,
    audit_trail,
    dead_letters,
    devices,
    ignored_messages,
    ledger,
    people,
    reader_status,
    readers,
    sessions,
    unassigned_topics,
    unknown_tags,
)
from edge.store.actors import shell
from edge.store.database import writing
from edge.store.dead_letters import NewDeadLetter
from edge.store.ignored_messages import IgnoredMessage
from edge.store.ledger import Bucket, Tally
from edge.store.people import Role
from edge.store.reader_status import ReaderStatus
from edge.store.unknown_tags import Sighting
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site, give

SignIn = Callable[..., Browser]


@pytest.fixture
def handed_in(app: Flask) -> list[tuple[int, str, bytes, int]]:
    """Ingest, as far as the pages know it; the value is what was handed in again."""
    found: list[tuple[int, str, bytes, int]] = []

    def check(name: str, _mapping: str | None) -> None:
        if name != "plain":
            raise Invalid.one("format", "invalid_value", "format is not known")

    known = Formats(
        {"plain": "Plain format", "custom": "Described"},
        "custom",
        lambda name, topic: f"{topic.rpartition('/')[0]}/+" if name else topic,
        lambda _topic, payload: Guess("plain") if payload.startswith(b"{") else Guess(),
        check,
        lambda *message: found.append(message),
    )
    give(app, formats=known)
    return found


@pytest.fixture
def admin(sign_in_as: SignIn, handed_in: object) -> Browser:
    return sign_in_as(Role.ADMINISTRATOR)


def test_a_topic_that_was_heard_is_set_up_with_three_fields(admin: Browser, cast: Cast, site: Site) -> None:
    unassigned_topics.record(
        [
            unassigned_topics.Unassigned("dock/7", clock.now(), b'{"tag": 1}'),
            unassigned_topics.Unassigned("other", clock.now(), b"\x00\xff"),
        ]
    )
    listed = admin.get("/readers/topics").text
    assert "Plain format" in listed
    assert "format not recognised" in listed
    assert "00 ff" in listed
    form = admin.get("/readers/new?topic=dock/7").text
    assert 'value="dock/7"' in form
    assert '<option value="plain" selected>' in form
    entered = {"name": "Portal 7", "topic": "dock/7", "format": "plain", "location_id": site.dock.id}
    assert admin.post("/readers/new", entered).status_code == 303
    reader = readers.list_readers(cast.acme)[0]
    assert (reader.name, reader.topic, reader.format, reader.location_id) == (
        "Portal 7",
        "dock/7",
        "plain",
        site.dock.id,
    )


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"topic": "a/#/b"}, "topic"),
        ({"format": "nonsense"}, "format is not known"),
        ({"name": ""}, "name"),
        ({"min_rssi": "5"}, "between -150 and 0"),
        ({"location_id": 99}, "location"),
    ],
)
def test_a_reader_that_cannot_be_is_refused_on_its_form(
    admin: Browser, cast: Cast, change: dict[str, object], fault: str
) -> None:
    answer = admin.post("/readers/new", {"name": "P", "topic": "t", "format": "plain", **change})
    assert answer.status_code == 400
    assert fault in answer.text
    assert readers.list_readers(cast.acme) == []


def test_the_buckets_of_every_hour_add_up(admin: Browser, cast: Cast) -> None:
    reader = readers.add_reader(shell(cast.acme), name="P", topic="t", format="plain")
    hour = ledger.hour_of(clock.now())
    messages = {Tally(reader.id, hour, bucket): number for number, bucket in enumerate(Bucket, 1)}
    ledger.add(messages, {tally: 2 * number for tally, number in messages.items()})
    hours = ledger.hours(cast.acme, reader.id)
    assert (hours[0].messages, hours[0].reads) == (sum(messages.values()), 2 * sum(messages.values()))
    page = admin.get(f"/readers/{reader.id}").text
    assert f"<b>{sum(messages.values())}</b>" in page
    assert page.count('<th scope="col" class="right">') >= len(Bucket)


def test_an_antenna_gets_a_place_of_its_own_and_follows_again(admin: Browser, cast: Cast, site: Site) -> None:
    reader = readers.add_reader(shell(cast.acme), name="P", topic="t", format="plain", location_id=site.dock.id)
    path = f"/readers/{reader.id}/antennas"
    entered = {"port": 2, "location_id": site.rack.id, "min_rssi": "-62,5", "is_enabled": "on"}
    assert admin.post(path, entered).status_code == 303
    antenna = reader_status.antennas(cast.acme, reader.id)[0]
    assert (antenna.location_name, antenna.min_rssi, antenna.is_own) == ("Rack A", -62.5, True)
    admin.post(path, {"port": 2, "follow": 1})
    assert reader_status.antennas(cast.acme, reader.id) == []


def test_an_unknown_tag_is_attached_by_the_key_of_an_asset(
    sign_in_as: SignIn, handed_in: object, cast: Cast, site: Site
) -> None:
    unknown_tags.record([Sighting(cast.acme, "rfid", "E2AA", 0, "E2AA", "unmatched", clock.now(), site.dock.id)])
    browser = sign_in_as(Role.EDITOR)
    assert "E2AA" in browser.get("/readers/unknown-tags").text
    entered = {"tag_type": "rfid", "value": "E2AA", "asset": "NO-SUCH"}
    assert browser.post("/readers/unknown-tags", entered).status_code == 400
    assert browser.post("/readers/unknown-tags", {**entered, "asset": "ASSET-0002"}).status_code == 303
    assert "E2AA" in [tag.value for tag in assets.get(cast.acme, site.cage.id).tags]
    assert unknown_tags.list_tags(cast.acme) == []


def test_a_dead_letter_is_handed_in_once_more(
    admin: Browser, cast: Cast, handed_in: list[tuple[int, str, bytes, int]]
) -> None:
    reader = readers.add_reader(shell(cast.acme), name="P", topic="t", format="plain")
    dead_letters.add([NewDeadLetter(cast.acme, reader.id, "t", b"\xffbroken", 7, "not UTF-8", 1_700_000_000_000_000)])
    page = admin.get("/readers/dead-letters").text
    assert "not UTF-8" in page
    assert "ff 62 72" in page
    other = readers.add_reader(shell(cast.acme), name="Q", topic="u", format="plain")
    assert "not UTF-8" in admin.get(f"/readers/{reader.id}").text
    assert "not UTF-8" not in admin.get(f"/readers/{other.id}").text
    assert "ff62726f6b656e" in admin.get(f"/readers/{reader.id}/edit").text.replace(" ", "")  # to be tried
    no = dead_letters.list_letters(cast.acme, 9)[0].no
    assert admin.post(f"/readers/dead-letters/{no}").status_code == 303
    assert handed_in == [(no, "t", b"\xffbroken", 1_700_000_000_000_000)]
    assert admin.post(f"/readers/dead-letters/{no}", {"drop": 1}).status_code == 303
    assert dead_letters.list_letters(cast.acme, 9) == []
    assert admin.post(f"/readers/dead-letters/{no}").status_code == 404


def test_what_another_organization_hears_stays_there(admin: Browser, cast: Cast) -> None:
    theirs = readers.add_reader(shell(cast.rival), name="P", topic="rival/t", format="plain")
    dead_letters.add([NewDeadLetter(cast.rival, theirs.id, "t", b"secret", 6, "why", 1)])
    unknown_tags.record([Sighting(cast.rival, "rfid", "E2BB", theirs.id, "E2BB", "unmatched", 1, None)])
    no = dead_letters.list_letters(cast.rival, 9)[0].no
    for path in (f"/readers/{theirs.id}", f"/readers/{theirs.id}/edit"):
        assert admin.get(path).status_code == 404
    assert "secret" not in admin.get("/readers/dead-letters").text
    assert "E2BB" not in admin.get("/readers/unknown-tags").text
    assert admin.post(f"/readers/dead-letters/{no}").status_code == 404
    assert admin.post(f"/readers/{theirs.id}/remove").status_code == 404


def test_the_last_administrator_stays(admin: Browser, cast: Cast) -> None:
    last = people.list_people(cast.acme)[0]
    assert admin.post(f"/people/{last.id}/disable").status_code == 409
    answer = admin.edit(f"/people/{last.id}/edit", {"name": last.name, "role": "viewer"})
    assert "last administrator" in answer.text
    assert people.list_people(cast.acme)[0].role == Role.ADMINISTRATOR


def test_a_new_password_ends_the_sessions_of_the_person(admin: Browser, sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.EDITOR)
    person = browser.get("/scan/state").json["person"]  # type: ignore[index]
    assert admin.edit(f"/people/{person}/edit", {"name": "Ed", "role": "editor", "pin": "12"}).status_code == 400
    entered = {"name": "Ed", "role": "editor", "password": "a whole new password"}
    assert admin.edit(f"/people/{person}/edit", entered).status_code == 303
    assert browser.get("/").status_code == 303


def test_a_new_password_of_ones_own_ends_the_other_sessions(app: Flask, admin: Browser, cast: Cast) -> None:
    person = admin.get("/scan/state").json["person"]  # type: ignore[index]
    sessions.add_session(actors.person(cast.acme, person, "Ada"), hash_secret("elsewhere"), clock.now() + clock.HOUR)
    entered = {"name": "Ada", "role": "administrator", "password": "a whole new password"}
    assert admin.edit(f"/people/{person}/edit", entered).status_code == 303
    assert Browser(app, "elsewhere").get("/").status_code == 303
    assert admin.get("/").status_code == 200


def test_a_changed_role_counts_at_once(admin: Browser, sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.EDITOR)
    person = browser.get("/scan/state").json["person"]  # type: ignore[index]
    admin.edit(f"/people/{person}/edit", {"name": "Ed", "role": "viewer"})
    assert browser.get("/assets/new").status_code == 403


def test_a_device_is_enrolled_by_its_link_and_revoked(app: Flask, admin: Browser, cast: Cast) -> None:
    page = admin.post("/devices", {"name": "Scanner 3"}).text
    link = page.split('<output id="link">')[1].split("<")[0]
    path = link.removeprefix("http://localhost")
    handheld = Browser(app)
    assert "Is this Scanner 3?" in handheld.get(path).text
    assert "Is this Scanner 3?" in handheld.get(path).text  # a preview uses nothing up
    cookie = handheld.client.get_cookie("edge_form")
    assert cookie
    handheld.token = cookie.value
    assert handheld.post(path).location == "/sign-in?next=/scan"
    assert "Scan your badge" in handheld.get("/sign-in").text
    assert Browser(app).get(path).status_code == 404
    row = devices.list_devices(cast.acme)[0]
    assert admin.post(f"/devices/{row.id}/revoke").status_code == 303
    assert "Scan your badge" not in handheld.get("/sign-in").text


def test_what_administrators_do_is_written_down(admin: Browser, cast: Cast) -> None:
    admin.post("/people/new", {"name": "Olga", "role": "operator", "badge": "B-1"})
    admin.post("/keys/new", {"name": "WMS", "assets": "write", "tracking": "read"})
    acts = audit_trail.recent(cast.acme, 2)
    assert [act.action for act in acts] == ["key.created", "person.created"]
    assert acts[0].detail["scopes"] == ["assets:read", "assets:write", "tracking:read"]
    assert "edge_" not in str(acts)


def test_a_gateway_with_a_topic_for_each_tag_is_one_line_and_vanishes_when_it_is_set_up(
    admin: Browser, cast: Cast
) -> None:
    topics = {f"home/gate/{number}": b"{}" for number in range(3)} | {"home/other/1/2": b"?"}
    with writing():
        unassigned_topics.record(
            [unassigned_topics.Unassigned(topic, clock.now(), payload) for topic, payload in topics.items()]
        )
    listed = admin.get("/readers/topics").text
    assert (
        listed.count('<h2 class="mono">home/gate/') == 1
    )  # in one line: the heading, its link, and the name of that for a screen reader
    assert "home/gate/+" in listed
    assert '<option value="plain" selected>' in admin.get("/readers/new?topic=home/gate/%2B").text
    admin.post("/readers/new", {"name": "Gate", "topic": "home/gate/+", "format": "plain", "location_id": ""})
    assert [topic.topic for topic in unassigned_topics.list_topics(cast.acme)] == ["home/other/1/2"]


def test_what_a_format_does_not_know_is_shown_with_what_it_looks_like(admin: Browser, cast: Cast) -> None:
    reader = readers.add_reader(shell(cast.acme), name="R", topic="t", format="custom")
    with writing():
        ignored_messages.record([IgnoredMessage(reader.id, "t", b'{"a":1}', 7, "nothing at list_path", clock.now())])
        hour = ledger.hour_of(clock.now())
        ledger.add({Tally(reader.id, hour, Bucket.IGNORED): 1}, {})
    page = admin.get(f"/readers/{reader.id}").text
    assert "This looks like" in page
    assert "Plain format" in page
    assert "nothing at list_path" in page
    assert "not understood" in admin.get("/readers").text


def test_a_message_is_tried_out_before_anything_is_saved(admin: Browser, app: Flask, cast: Cast, site: Site) -> None:
    tried: list[Attempt] = []

    def try_out(_organization_id: int, attempt: Attempt) -> Trial:
        tried.append(attempt)
        read = Read("rfid", "30AA", (), 2, -58.0)
        return Trial("recorded", "a note", (TrialRead(read, None, None, site.dock.id, "recorded"),))

    give(app, formats=app.extensions["installation"].formats._replace(try_out=try_out))
    form = {"name": "New", "topic": "dock/+", "format": "plain", "location_id": site.dock.id, "min_rssi": "-60"}
    page = admin.post("/readers/try", form | {"message": "ef 30", "is_hex": "on", "message_topic": "dock/7"})
    assert page.status_code == 200
    for told in ("30AA", "-58 dBm", "Recorded", "a note", site.dock.name, 'value="New"'):
        assert told in page.text
    assert tried == [Attempt("dock/7", b"\xef\x30", "plain", None, site.dock.id, -60.0)]
    assert readers.list_readers(cast.acme) == []
    wrong = admin.post("/readers/try", form | {"message": "xyz", "is_hex": "on"})
    assert (wrong.status_code, "not bytes in hexadecimal" in wrong.text) == (400, True)
    assert admin.post("/readers/try", form | {"reader_id": 5}).status_code == 404


def test_what_the_times_of_a_reader_are_worth_is_set_up_and_its_clock_is_told(admin: Browser, cast: Cast) -> None:
    reader = readers.add_reader(shell(cast.acme), name="R", topic="t", format="plain")
    assert "not known yet" in admin.get(f"/readers/{reader.id}").text
    with writing():
        reader_status.record_readers([ReaderStatus(reader.id, clock.now(), None, -clock.HOUR, 1, None, False)])
    assert "1 h 0 min behind, corrected" in admin.get(f"/readers/{reader.id}").text
    form = {"name": "R", "topic": "t", "format": "plain", "location_id": "", "is_enabled": "on"}
    for setting, told in (("receipt", "not believed"), ("reader", "believed all the same"), ("Asia/Tokyo", "behind")):
        admin.edit(f"/readers/{reader.id}/edit", form | {"clock_setting": setting})
        assert readers.get_reader(cast.acme, reader.id).clock_setting == setting
        assert told in admin.get(f"/readers/{reader.id}").text
    assert '<option value="Asia/Tokyo" selected>' in admin.get(f"/readers/{reader.id}/edit").text
    wrong = admin.edit(f"/readers/{reader.id}/edit", form | {"clock_setting": "Mars/North"})
    assert (wrong.status_code, "write auto, reader, receipt, or the time zone" in wrong.text) == (400, True)
    (act,) = audit_trail.recent(cast.acme, 1)
    assert "Asia/Tokyo" in str(act.detail)


def test_a_message_that_came_is_there_to_be_tried(admin: Browser, cast: Cast) -> None:
    with writing():
        came = [("dock/7", clock.now(), b'{"tag": 1}'), ("bin", clock.now(), b"\x00\xff")]
        unassigned_topics.record([unassigned_topics.Unassigned(*one) for one in came])
    assert "{&#34;tag&#34;: 1}" in admin.get("/readers/new?topic=dock/7").text
    assert "00 ff" in admin.get("/readers/new?topic=bin").text


def test_two_who_edit_a_reader_at_once_see_both_values(admin: Browser, cast: Cast) -> None:
    reader = readers.add_reader(shell(cast.acme), name="Portal", topic="t", format="plain")
    path = f"/readers/{reader.id}/edit"
    opened = admin.get(path).text.split('name="updated_at" value="')[1].split('"')[0]
    readers.change_reader(shell(cast.acme), reader.id, {"name": "Portal of Ed"})
    entered = {"name": "Portal of Ada", "topic": "t", "format": "plain", "is_enabled": "on", "updated_at": opened}
    answer = admin.post(path, entered)
    assert answer.status_code == 409
    assert "saved: <b>Portal of Ed</b>" in answer.text
    assert 'value="Portal of Ada"' in answer.text
    seen = answer.text.split('name="updated_at" value="')[1].split('"')[0]
    assert admin.post(path, {**entered, "updated_at": seen}).status_code == 303
    assert readers.get_reader(cast.acme, reader.id).name == "Portal of Ada"


def test_two_who_edit_a_person_at_once_see_both_values(admin: Browser, cast: Cast) -> None:
    person = people.add_person(shell(cast.acme), "Olga", Role.OPERATOR)
    path = f"/people/{person.id}/edit"
    people.update_person(shell(cast.acme), person.id, name="Olga B")
    entered = {"name": "Olga C", "role": "operator", "updated_at": str(person.updated_at)}
    answer = admin.post(path, entered)
    assert answer.status_code == 409
    assert "saved: <b>Olga B</b>" in answer.text
    assert people.list_people(cast.acme)[-1].name != "Olga C"


def test_a_form_that_does_not_say_what_it_was_opened_with_changes_nothing(
    admin: Browser, cast: Cast, site: Site
) -> None:
    reader = readers.add_reader(shell(cast.acme), name="Portal", topic="t", format="plain")
    person = people.add_person(shell(cast.acme), "Olga", Role.OPERATOR)
    for path, entered in {
        f"/assets/{site.pallet.id}/edit": {"name": "Other", "external_key": site.pallet.external_key},
        f"/locations/{site.dock.id}/edit": {"name": "Other", "external_key": site.dock.external_key},
        f"/readers/{reader.id}/edit": {"name": "Other", "topic": "t", "format": "plain"},
        f"/people/{person.id}/edit": {"name": "Other", "role": "operator"},
    }.items():
        answer = admin.post(path, {**entered})
        assert (answer.status_code, "saved: <b>" in answer.text) == (409, True), path
