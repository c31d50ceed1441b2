"""Readers: set up, tried out and changed, and their status pages."""

from __future__ import annotations

import pytest

from edge import clock
from edge.audit import trail
from edge.audit.actors import shell
from edge.database.connection import writing
from edge.formats.reads import Attempt, Read, Trial, TrialRead
from edge.pages.readers import readers as pages
from edge.readers import broker_accounts, ignored_messages, ledger, readers, sign_ins, status, unassigned_topics
from edge.readers.ignored_messages import IgnoredMessage
from edge.readers.ledger import Bucket, Tally
from edge.readers.status import ReaderStatus
from tests.conftest import Cast
from tests.pages.conftest import Browser, Site, opened_with


def test_an_unassigned_topic_is_set_up_with_three_fields(admin: Browser, cast: Cast, site: Site) -> None:
    unassigned_topics.record(
        [
            unassigned_topics.Unassigned("dock/7", clock.now(), b'{"reads": [{"tag": "E2AA"}]}'),
            unassigned_topics.Unassigned("other", clock.now(), b"\x00\xff"),
        ]
    )
    listed = admin.get("/readers/topics").text
    assert "Plain format for your own gateway" in listed
    assert "format not recognized" in listed
    assert "00 ff" in listed
    form = admin.get("/readers/new?topic=dock/7").text
    assert 'value="dock/7"' in form
    assert '<option value="edge" selected>' in form
    entered = {"name": "Portal 7", "topic": "dock/7", "format": "edge", "location_id": site.dock.id}
    assert admin.post("/readers/new", entered).status_code == 303
    reader = readers.list_readers(cast.acme)[0]
    assert (reader.name, reader.topic, reader.format, reader.location_id) == (
        "Portal 7",
        "dock/7",
        "edge",
        site.dock.id,
    )


def test_a_topic_with_a_matching_mapping_is_set_up_with_it(admin: Browser) -> None:
    message = b'{"reads": [{"EPC": "3074257BF7194E4000001A85", "ant": 1}]}'
    unassigned_topics.record([unassigned_topics.Unassigned("keonn/gate", clock.now(), message)])
    assert "a mapping can read it: Keonn" in admin.get("/readers/topics").text
    form = admin.get("/readers/new?topic=keonn/gate").text
    assert "Recognized from the last message: Keonn" in form
    assert "&#34;tag_path&#34;: &#34;EPC&#34;" in form
    assert '<option value="mapping" selected>' in form


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"topic": "a/#/b"}, "topic"),
        ({"format": "nonsense"}, "format nonsense is not known"),
        ({"name": ""}, "name"),
        ({"min_rssi": "5"}, "between -150 and 0"),
        ({"location_id": 99}, "location"),
    ],
)
def test_a_reader_that_cannot_be_is_refused_on_its_form(
    admin: Browser, cast: Cast, change: dict[str, object], fault: str
) -> None:
    answer = admin.post("/readers/new", {"name": "P", "topic": "t", "format": "edge", **change})
    assert answer.status_code == 400
    assert fault in answer.text
    assert readers.list_readers(cast.acme) == []


def test_the_buckets_of_every_hour_add_up(admin: Browser, cast: Cast) -> None:
    reader = readers.add_reader(shell(cast.acme), name="P", topic="t", format="edge")
    hour = ledger.hour_of(clock.now())
    messages = {Tally(reader.id, hour, bucket): number for number, bucket in enumerate(Bucket, 1)}
    ledger.add(messages, {tally: 2 * number for tally, number in messages.items()})
    hours = ledger.hours(cast.acme, reader.id)
    assert (hours[0].messages, hours[0].reads) == (sum(messages.values()), 2 * sum(messages.values()))
    page = admin.get(f"/readers/{reader.id}").text
    assert f"<b>{sum(messages.values())}</b>" in page
    assert page.count('<th scope="col" class="right">') >= len(Bucket)


def test_an_antenna_gets_its_own_location_and_follows_the_reader_again(admin: Browser, cast: Cast, site: Site) -> None:
    reader = readers.add_reader(shell(cast.acme), name="P", topic="t", format="edge", location_id=site.dock.id)
    path = f"/readers/{reader.id}/antennas"
    entered = {"port": 2, "location_id": site.rack.id, "min_rssi": "-62,5", "is_enabled": "on"}
    assert admin.post(path, entered).status_code == 303
    antenna = status.antennas(cast.acme, reader.id)[0]
    assert (antenna.location_name, antenna.min_rssi, antenna.is_own) == ("Rack A", -62.5, True)
    admin.post(path, {"port": 2, "follow": 1})
    assert status.antennas(cast.acme, reader.id) == []


def test_a_reader_with_antennas_without_a_location_is_not_shown_as_working(
    admin: Browser, cast: Cast, site: Site
) -> None:
    reader = readers.add_reader(shell(cast.acme), name="P", topic="t", format="edge")
    now = clock.now()
    with writing():
        status.record_readers([ReaderStatus(reader.id, now, now, -10_000, 1, None, False)])
        status.record_antennas({(reader.id, 1): now, (reader.id, 2): now})
    assert "antenna without location" in admin.get("/readers").text
    page = admin.get(f"/readers/{reader.id}").text
    assert 'name="port" type="text" value="1"' in page, "the first that needs one"
    for expected in ("Reads are ignored", '<details class="list antenna-form" open>', "correct (+0.0 s)"):
        assert expected in page
    for port in (1, 2):
        admin.post(f"/readers/{reader.id}/antennas", {"port": port, "location_id": site.rack.id, "is_enabled": "on"})
    assert "without a location" not in admin.get("/readers").text
    assert 'antenna-form" open' not in admin.get(f"/readers/{reader.id}").text


def test_an_unknown_format_is_shown_with_the_most_similar_one(admin: Browser, cast: Cast) -> None:
    reader = readers.add_reader(shell(cast.acme), name="R", topic="t", format="csl")
    with writing():
        ignored_messages.record(
            [IgnoredMessage(reader.id, "t", b'{"reads": [{"tag": "E2AA"}]}', 28, "nothing at list_path", clock.now())]
        )
        hour = ledger.hour_of(clock.now())
        ledger.add({Tally(reader.id, hour, Bucket.IGNORED): 1}, {})
    page = admin.get(f"/readers/{reader.id}").text
    assert "This looks like" in page
    assert "Plain format" in page
    assert "nothing at list_path" in page
    assert ">unreadable<" in admin.get("/readers").text


def test_a_reader_with_only_earlier_messages_is_not_shown_as_never_received(admin: Browser, cast: Cast) -> None:
    reader = readers.add_reader(shell(cast.acme), name="R", topic="t", format="edge")
    assert "no messages yet" in admin.get("/readers").text
    ledger.add({Tally(reader.id, ledger.hour_of(clock.now()), Bucket.RECORDED): 3}, {})
    listed = admin.get("/readers").text
    assert "no messages since setup" in listed
    assert "no messages yet" not in listed


def test_a_message_is_tried_out_before_anything_is_saved(
    admin: Browser, cast: Cast, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Attempt] = []

    def try_out(_organization_id: int, attempt: Attempt) -> Trial:
        tried.append(attempt)
        read = Read("rfid", "30AA", (), 2, -58.0)
        return Trial("recorded", "a note", (TrialRead(read, None, None, site.dock.id, "recorded"),))

    monkeypatch.setattr(pages, "try_out", try_out)
    form = {"name": "New", "topic": "dock/+", "format": "edge", "location_id": site.dock.id, "min_rssi": "-60"}
    page = admin.post("/readers/try", form | {"message": "ef 30", "is_hex": "on", "message_topic": "dock/7"})
    assert page.status_code == 200
    for expected in ("30AA", "-58 dBm", "Recorded", "a note", site.dock.name, 'value="New"'):
        assert expected in page.text
    assert tried == [Attempt("dock/7", b"\xef\x30", "edge", None, site.dock.id, -60.0)]
    assert readers.list_readers(cast.acme) == []
    wrong = admin.post("/readers/try", form | {"message": "xyz", "is_hex": "on"})
    assert (wrong.status_code, "Enter bytes in hexadecimal" in wrong.text) == (400, True)
    assert admin.post("/readers/try", form | {"reader_id": 5}).status_code == 404


def test_the_trust_in_the_times_of_a_reader_is_set_up(admin: Browser, cast: Cast) -> None:
    reader = readers.add_reader(shell(cast.acme), name="R", topic="t", format="edge")
    assert "not known yet" in admin.get(f"/readers/{reader.id}").text
    with writing():
        status.record_readers([ReaderStatus(reader.id, clock.now(), None, -clock.HOUR, 1, None, False)])
    assert "1 h 0 min behind, corrected" in admin.get(f"/readers/{reader.id}").text
    form = {"name": "R", "topic": "t", "format": "edge", "location_id": "", "is_enabled": "on"}
    for setting, expected in (("receipt", "not trusted"), ("reader", "trusted nevertheless"), ("Asia/Tokyo", "behind")):
        admin.edit(f"/readers/{reader.id}/edit", form | {"clock_setting": setting})
        assert readers.get_reader(cast.acme, reader.id).clock_setting == setting
        assert expected in admin.get(f"/readers/{reader.id}").text
    assert '<option value="Asia/Tokyo" selected>' in admin.get(f"/readers/{reader.id}/edit").text
    wrong = admin.edit(f"/readers/{reader.id}/edit", form | {"clock_setting": "Mars/North"})
    assert (wrong.status_code, "write auto, reader, receipt or a time zone" in wrong.text) == (400, True)
    (act,) = trail.recent(cast.acme, 1)
    assert "Asia/Tokyo" in str(act.detail)


def test_a_message_that_came_is_there_to_be_tried(admin: Browser, cast: Cast) -> None:
    with writing():
        came = [("dock/7", clock.now(), b'{"tag": 1}'), ("bin", clock.now(), b"\x00\xff")]
        unassigned_topics.record([unassigned_topics.Unassigned(*one) for one in came])
    assert "{&#34;tag&#34;: 1}" in admin.get("/readers/new?topic=dock/7").text
    assert "00 ff" in admin.get("/readers/new?topic=bin").text


def test_two_editors_of_a_reader_see_both_values(admin: Browser, cast: Cast) -> None:
    reader = readers.add_reader(shell(cast.acme), name="Portal", topic="t", format="edge")
    path = f"/readers/{reader.id}/edit"
    opened = opened_with(admin.get(path).text)
    readers.change_reader(shell(cast.acme), reader.id, {"name": "Portal of Ed"})
    entered = {"name": "Portal of Ada", "topic": "t", "format": "edge", "is_enabled": "on", "opened": opened}
    answer = admin.post(path, entered)
    assert answer.status_code == 409
    assert "saved: <b>Portal of Ed</b>" in answer.text
    assert 'value="Portal of Ada"' in answer.text
    assert admin.post(path, {**entered, "opened": opened_with(answer.text)}).status_code == 303
    assert readers.get_reader(cast.acme, reader.id).name == "Portal of Ada"


def test_the_pages_of_readers_are_in_the_language_of_the_person(admin: Browser, cast: Cast) -> None:
    admin.send("/language", {"language": "de"})
    assert "Der Broker nimmt nur Verbindungen von diesem Gerät an." in admin.get("/readers").text
    reader = readers.add_reader(shell(cast.acme), name="Topic", topic="a/#", format="edge")
    page = admin.get(f"/readers/{reader.id}").text
    assert "<h1>Topic</h1>" in page
    assert "noch nicht bekannt" in page, "the state of its clock"
    assert "Zone: Objekte bleiben, wo sie gelesen werden" in page
    refused = admin.post("/readers/new", {"name": "P", "topic": "a/b", "format": "edge"}).text
    assert "Topic a/b überschneidet sich mit dem Topic des Lesegeräts Topic (a/#)" in refused
    refused = admin.post("/readers/new", {"name": "P", "topic": "a/#/b", "format": "edge"}).text
    assert ": # muss die ganze letzte Ebene sein, wie in site/dock1/#" in refused
    opened = opened_with(admin.get(f"/readers/{reader.id}/edit").text)
    readers.change_reader(shell(cast.acme), reader.id, {"clock_setting": "receipt"})
    entered = {"name": "Topic", "topic": "a/#", "format": "edge", "clock_setting": "reader", "opened": opened}
    overtaken = admin.post(f"/readers/{reader.id}/edit", {**entered, "is_enabled": "on"}).text
    assert "gespeichert: <b>Zeit des Empfangs (Uhr des Lesegeräts ignorieren)</b>" in overtaken


def test_a_reader_that_the_broker_keeps_out_is_explained_on_its_page(
    admin: Browser, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two organizations use the box, so an address that is not this reader's is not shown."""
    known = sign_ins.SignIns()
    monkeypatch.setattr(sign_ins, "SIGN_INS", known)
    reader = readers.add_reader(shell(cast.acme), name="dock", topic="site/dock1/reads", format="edge")
    account = broker_accounts.set_account(shell(cast.acme), reader.id, "x")

    def shown() -> str:
        return admin.get(f"/readers/{reader.id}").text

    for _ in range(sign_ins.FEWEST):
        known.refuse("192.168.4.31", clock.now())
    assert 'id="sign-in"' not in shown()
    for _ in range(sign_ins.FEWEST):
        known.note("New connection from 192.168.4.77:5001 on port 1883.", (), clock.now())
        known.note(f"Client {account.name} disconnected, not authorised.", (), clock.now())
    assert "the broker refuses sign-ins from 192.168.4.77 (3)" in shown()
    line = f"New client connected from 192.168.4.31:5001 as {account.name} (p2, c1, k60, u'{account.name}')."
    known.note(line, (), clock.now() - sign_ins.SILENT - clock.SECOND)
    assert "signs in from 192.168.4.31, but nothing comes on the topic site/dock1/reads" in shown()
    with writing():
        seen = ReaderStatus(reader.id, clock.now(), read_at=None, clock_offset=None, qos=1, note=None, is_offline=False)
        status.record_readers([seen])
    assert "192.168.4.31 (3)" in shown()
    known.note("New connection from 192.168.4.40:5001 on port 1883.", (), clock.now())
    known.note(line.replace("192.168.4.31", "192.168.4.40"), (), clock.now())
    assert f"without encryption, which the broker does not offer: {account.name}" in shown()
