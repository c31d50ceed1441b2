"""Events of EPCIS 2.0: their content, ids, filters and pages."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.database.connection import execute, execute_many, writing
from edge.epcis import places, query, sources
from edge.epcis.documents import CONTEXT
from edge.epcis.event_ids import event_id, text_to_hash
from edge.epcis.names import Names, digital_link
from edge.epcis.places import Place
from edge.errors import Invalid, NotFound
from edge.handhelds import scans
from edge.handhelds.scans import Submitted
from edge.people import api_keys
from edge.records import assets, gs1, gs1_epcs, locations
from edge.records.tags import NewTag
from edge.tracking import tracked_people
from edge.tracking.tracked_people import PeopleSetting
from edge.validation import times
from tests.conftest import Cast
from tests.feed.test_feed import EPOCH, GAP, HOUR, Box, Day, box_of
from tests.tracking.postgres.copies import copied_stays

PALLET = "https://id.gs1.org/00/095211411234567892"
DOCK = "https://id.gs1.org/414/9521141123454/254/DOCK1"


class Site(Day):
    """A day with an SSCC, a dock with a GLN, and a door."""

    def __init__(self, organization_id: int) -> None:
        super().__init__(organization_id, 3)
        assets.attach_tag(self.actor, self.assets[0], NewTag("barcode", "(00)095211411234567892"))
        locations.attach_tag(self.actor, self.places[0], NewTag("barcode", "(414)9521141123454(254)DOCK1"))

    def see(self, asset: int, place: int, hour: int) -> None:
        self.number += 1
        key = assets.get(self.organization_id, self.assets[asset]).external_key
        one = Submitted(f"{self.number:026}", key, self.places[place], EPOCH + hour * HOUR)
        scans.submit(self.ann, [one], EPOCH + 100 * HOUR)
        self.scans.append(one.id)

    def passage(self, hour: int, direction: int, revision: int = 0) -> None:
        at = EPOCH + hour * HOUR
        with writing():
            execute(
                "INSERT INTO passage (organization_id, door_id, asset_id, at, direction, confidence, inner_reads, "
                "outer_reads, since, until, decided_at, revision) VALUES (?, ?, ?, ?, ?, 900, 1, 1, ?, ?, ?, ?)",
                (self.organization_id, self.door, self.assets[0], at, direction, at, at, at, revision),
            )


@pytest.fixture
def box(cast: Cast, history: str) -> Box:
    return box_of(cast.acme, api_keys.SCOPES)._replace(history=history)


@pytest.fixture
def site(box: Box) -> Site:
    return Site(box.organization_id)


def ask(box: Box, headers: dict[str, str] | None = None, **filters: str) -> Any:
    with copied_stays(box.history):
        return box.client.get("/epcis/events", query_string=filters, headers={**box.headers, **(headers or {})})


def events(box: Box, **filters: str) -> list[dict[str, Any]]:
    """Return the events of all pages."""
    return [event for page in pages(box, **filters) for event in page]


def pages(box: Box, **filters: str) -> Iterator[list[dict[str, Any]]]:
    answer = ask(box, **filters)
    while True:
        assert answer.status_code == 200, answer.text
        yield answer.json["epcisBody"]["queryResults"]["resultsBody"]["eventList"]
        link = answer.headers.get("Link")
        if link is None:
            return
        assert link.endswith('; rel="next"')
        following = parse_qs(urlsplit(link.partition(">")[0].removeprefix("<")).query)
        answer = ask(box, **{name: values[0] for name, values in following.items()})


def test_a_scan_is_an_object_event(box: Box, site: Site) -> None:
    site.see(0, 0, 1)
    answer = ask(box)
    assert answer.json["@context"] == [CONTEXT]
    assert (answer.json["type"], answer.headers["GS1-EPCIS-Version"]) == ("EPCISQueryDocument", "2.0.0")
    [event] = events(box)
    assert event.pop("eventID") == event_id(event)
    assert event == {
        "type": "ObjectEvent",
        "eventTime": "2023-11-14T23:13:20.000Z",
        "eventTimeZoneOffset": "+00:00",
        "recordTime": "2023-11-19T02:13:20.000Z",
        "epcList": [PALLET],
        "action": "OBSERVE",
        "readPoint": {"id": DOCK},
        "bizLocation": {"id": DOCK},
    }


def test_event_ids_follow_the_published_algorithm() -> None:
    """The reference example of the algorithm, without its extensions."""
    event = {
        "type": "ObjectEvent",
        "eventTime": "2020-03-04T10:00:30.000Z",
        "eventTimeZoneOffset": "+01:00",
        "recordTime": "2020-03-04T10:00:30.999Z",
        "epcList": [digital_link(f"(00)0401234500000{end}") for end in ("03338", "01112", "02225")],
        "action": "OBSERVE",
        "bizStep": "departing",
        "readPoint": {"id": "https://id.gs1.org/414/4012345000115/254/987"},
    }
    assert text_to_hash(event) == (
        "eventType=ObjectEventeventTime=2020-03-04T10:00:30.000ZeventTimeZoneOffset=+01:00epcList"
        "epc=https://id.gs1.org/00/040123450000001112epc=https://id.gs1.org/00/040123450000002225"
        "epc=https://id.gs1.org/00/040123450000003338action=OBSERVE"
        "bizStep=https://ref.gs1.org/cbv/BizStep-departing"
        "readPointid=https://id.gs1.org/414/4012345000115/254/987"
    )


@pytest.mark.parametrize(
    ("urn", "link"),
    [
        ("urn:epc:id:sgtin:9521141.012345.6789", "01/09521141123454/21/6789"),
        ("urn:epc:id:sscc:9521141.0123456789", "00/095211411234567892"),
        ("urn:epc:id:grai:9521141.12345.AB%2FC", "8003/09521141123454AB%2FC"),
        ("urn:epc:id:giai:9521141.400", "8004/9521141400"),
    ],
)
def test_every_kind_of_epc_has_a_digital_link_and_back(urn: str, link: str) -> None:
    identity = gs1.identity(urn)
    assert identity is not None
    assert digital_link(identity) == f"https://id.gs1.org/{link}"
    assert gs1.identity(digital_link(identity)) == identity
    assert gs1_epcs.pure_identity(urn) == urn


def test_an_undone_scan_is_declared_as_an_error_of_the_same_event(box: Box, site: Site) -> None:
    site.see(0, 0, 1)
    [before] = events(box)
    scans.undo(site.ann, site.scans[-1], GAP)
    [after] = events(box)
    assert after.pop("errorDeclaration")["reason"] == "did_not_occur"
    assert after == before
    assert len(events(box, EXISTS_errorDeclaration="true")) == 1
    assert len(events(box, EXISTS_errorDeclaration="false")) == 1, "no filter, by the standard"


def test_passages_and_their_corrections(box: Box, site: Site) -> None:
    site.passage(1, 1)
    site.passage(2, 2, revision=1)  # was inward before
    site.passage(3, 4, revision=1)  # withdrawn
    shown = [(one["bizStep"], "errorDeclaration" in one) for one in events(box)]
    assert shown == [
        *(("arriving", False), ("arriving", True), ("departing", False)),
        *(("arriving", True), ("departing", True)),
    ]
    door = events(box)[0]["readPoint"]["id"]
    assert len(events(box, EQ_readPoint=door)) == 5
    assert len(events(box, EQ_bizStep="departing|shipping")) == 2
    assert len(events(box, EQ_bizStep="https://ref.gs1.org/cbv/BizStep-departing")) == 2


def test_carriers_are_association_events(box: Box, site: Site) -> None:
    with writing():
        execute(
            "INSERT INTO carrier_load (asset_id, loaded_at, carrier_id, unloaded_at) VALUES (?, ?, ?, ?)",
            (site.assets[0], EPOCH, site.assets[1], EPOCH + HOUR),
        )
    on, off = events(box, eventType="AssociationEvent")
    assert [on["action"], off["action"]] == ["ADD", "DELETE"]
    assert on["childEPCs"] == [PALLET]
    assert on["parentID"].endswith(f"/assets/{site.assets[1]}")
    assert len(events(box, MATCH_parentID=on["parentID"])) == 2
    assert len(events(box, MATCH_anyEPC=on["parentID"])) == 2
    assert list(map(len, pages(box, perPage="1")))[:2] == [1, 1]


def test_filters(box: Box, site: Site) -> None:
    for hour in range(6):
        site.see(hour % 2, hour % 3, hour)
    everything = events(box)
    assert len(everything) == 6
    assert len(events(box, GE_eventTime="2023-11-14T23:13:20Z", LT_eventTime="2023-11-15T00:13:20+00:00")) == 1
    assert len(events(box, EQ_bizLocation=DOCK)) == 2
    assert len(events(box, EQ_bizLocation=DOCK + "|https://id.gs1.org/414/9521141123454")) == 2
    assert len(events(box, MATCH_epc=PALLET)) == 3
    assert len(events(box, MATCH_epc="urn:epc:id:sscc:9521141.0123456789")) == 3
    assert len(events(box, MATCH_epc=everything[-1]["epcList"][0])) == 3
    assert events(box, MATCH_epc="urn:epc:id:sscc:9521141.0999999999") == []
    assert events(box, EQ_bizLocation="https://id.gs1.org/414/9521141123454") == []
    assert events(box, eventType="TransactionEvent") == []
    assert events(box, EQ_action="ADD") == []
    assert events(box, EQ_eventID=everything[2]["eventID"]) == [everything[2]]
    assert len(events(box, GE_recordTime="2023-11-19T02:13:20Z")) == 6
    assert events(box, LT_recordTime="2023-11-19T02:13:20Z") == []


@pytest.mark.parametrize("examined", [1, 3, 2_000])
@pytest.mark.parametrize("per_page", ["1", "4", "1000"])
def test_pages_have_each_event_once(
    box: Box, site: Site, monkeypatch: pytest.MonkeyPatch, per_page: str, examined: int
) -> None:
    for hour in range(8):
        site.see(hour % 3, hour % 2, hour)
    scans.undo(site.ann, site.scans[0], GAP)
    scans.undo(site.ann, site.scans[4], GAP)
    for hour in range(3):
        site.passage(hour, 1 + hour % 2, hour)
    carriers_of = [(site.assets[0], EPOCH), (site.assets[0], EPOCH + HOUR), (site.assets[2], EPOCH)]
    with writing():
        for asset, at in carriers_of:
            execute("INSERT INTO carrier_load VALUES (?, ?, ?, NULL, NULL, ?)", (asset, at, site.assets[1], at + 9))
    expected = events(box, perPage="1000")
    assert len(expected) == 6 + 2 + 5 + 6
    monkeypatch.setattr(sources, "MOST_EXAMINED", examined)
    found = list(pages(box, perPage=per_page))
    assert [event for page in found for event in page] == expected
    assert max(map(len, found)) <= int(per_page)


def test_a_short_period_with_few_stays_is_looked_up_by_time(
    box: Box, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With PostgreSQL. The events and their order are those of the tracks."""
    for hour in range(9):
        site.see(hour % 3, hour % 2, hour)
    period = {"GE_eventTime": "2023-11-14T23:13:20Z", "LT_eventTime": "2023-11-15T05:13:20Z"}
    monkeypatch.setattr(sources, "MOST_OF_PERIOD", 5)
    by_track = events(box, **period)
    assert len(by_track) == 6
    monkeypatch.setattr(sources, "MOST_OF_PERIOD", 6)
    for examined in (1, 2, 6, 7):
        monkeypatch.setattr(sources, "MOST_EXAMINED", examined)
        found = list(pages(box, **period, perPage="2"))
        assert [event for page in found for event in page] == by_track
    monkeypatch.setattr(sources, "LONGEST_PERIOD", 1 << 63)
    monkeypatch.setattr(sources, "MOST_OF_PERIOD", 99)
    assert len(events(box)) == 9


@pytest.mark.parametrize("order", [{}, {"orderBy": "eventTime"}])
def test_urns_on_request(box: Box, site: Site, order: dict[str, str]) -> None:
    assets.attach_tag(site.actor, site.assets[1], NewTag("rfid", "3074257BF7194E4000001A85"))
    site.see(1, 0, 1)
    [event] = events(box)
    answer = ask(box, {"GS1-EPC-Format": "Always_EPC_URN"}, **order)
    [named] = answer.json["epcisBody"]["queryResults"]["resultsBody"]["eventList"]
    assert named["epcList"] == ["urn:epc:id:sgtin:0614141.812345.6789"]
    assert named["eventID"] == event["eventID"]


def test_people_are_not_in_events_unless_the_setting_allows_it(box: Box, site: Site) -> None:
    site.see(0, 0, 1)
    site.see(2, 0, 1)
    site.passage(2, 1)
    scans.undo(site.ann, site.scans[-1], GAP)
    setting = PeopleSetting(key_prefix="P-")
    tracked_people.save(shell(box.organization_id), setting)
    assert events(box) == []
    tracked_people.save(shell(box.organization_id), setting._replace(is_in_api=True))
    assert len(events(box)) == 3


def test_events_of_another_organization_are_not_visible(box: Box, site: Site, cast: Cast) -> None:
    for hour in range(3):
        site.see(hour, 0, hour)
    site.passage(1, 1)
    scans.undo(site.ann, site.scans[-1], GAP)
    rival = box_of(cast.rival, api_keys.SCOPES)
    assert events(rival) == []
    assert events(rival, MATCH_epc=PALLET) == []
    assert events(rival, EQ_bizLocation=DOCK) == []
    assert events(rival, MATCH_epc=f"http://localhost/assets/{site.assets[0]}") == []


def test_sub_locations(box: Box, site: Site) -> None:
    hall, dock = site.places[1], site.places[0]
    locations.patch(site.actor, dock, {"parent_id": hall})
    execute("UPDATE door SET location_id = ?", (dock,))
    for place in range(3):
        site.see(0, place, place)
    site.passage(4, 1)
    name = f"http://localhost/locations/{hall}"
    assert len(events(box, EQ_bizLocation=name)) == 1
    assert len(events(box, WD_bizLocation=name)) == 3, "with the passage inward"
    assert len(events(box, WD_readPoint=name)) == 3
    assert len(events(box, WD_readPoint=name, EQ_readPoint=DOCK)) == 1
    assert events(box, WD_readPoint=DOCK, EQ_bizLocation=name) == []
    rival = f"http://localhost/locations/{hall + 1}"
    assert events(box, WD_readPoint=rival) == []


def test_errors_by_time_and_reason(box: Box, site: Site) -> None:
    for hour in range(3):
        site.see(0, hour, hour)
    scans.undo(site.ann, site.scans[0], GAP)
    [wrong] = events(box, EXISTS_errorDeclaration="true")
    at = wrong["errorDeclaration"]["declarationTime"]
    assert events(box, GE_errorDeclarationTime=at) == [wrong]
    assert events(box, LT_errorDeclarationTime=at) == []
    for reason in ("did_not_occur", "incorrect_data|https://ref.gs1.org/cbv/ER-did_not_occur"):
        assert events(box, EQ_errorReason=reason) == [wrong]
    assert events(box, EQ_errorReason="incorrect_data") == []


@pytest.mark.parametrize("per_page", ["1", "2", "1000"])
@pytest.mark.parametrize("field", ["eventTime", "recordTime"])
@pytest.mark.parametrize("direction", ["ASC", "DESC"])
def test_order(box: Box, site: Site, field: str, direction: str, per_page: str) -> None:
    for hour in (3, 1, 4, 1, 5, 2):
        site.see(hour % 3, hour % 2, hour)
        site.passage(hour, 1)
    scans.undo(site.ann, site.scans[0], GAP)
    everything = events(box, perPage="1000")
    names = {"orderBy": field, "orderDirection": direction, "perPage": per_page}
    found = events(box, **names)
    times = [event[field] for event in found]
    assert times == sorted(times, reverse=direction == "DESC")
    assert {event["eventID"] for event in found} == {event["eventID"] for event in everything}
    assert len(events(box, **names, eventCountLimit="3")) == 3
    assert events(box, **names, eventCountLimit="3") == found[:3]


def test_more_events_than_the_client_takes(box: Box, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for hour in range(4):
        site.see(0, hour % 2, hour)
    assert len(events(box, maxEventCount="4", perPage="3")) == 4
    answer = ask(box, maxEventCount="3")
    assert (answer.status_code, answer.json["type"]) == (413, "epcisException:QueryTooLargeException")
    monkeypatch.setattr(query, "MOST_IN_ORDER", 2)
    for filters in ({"maxEventCount": "9"}, {"orderBy": "eventTime"}):
        answer = ask(box, **filters)
        assert (answer.status_code, answer.json["type"]) == (413, "epcisException:QueryTooComplexException")


@pytest.mark.parametrize(
    "name",
    [
        *("EQ_transformationID", "MATCH_inputEPC", "EQ_quantity", "GE_startTime", "EQ_bizTransaction_po"),
        *("EQ_source_owning_party", "EQ_persistentDisposition_set", "EQ_correctiveEventID", "EQ_deviceID"),
        *("EQ_http://ns.example.com/epcis#lot", "EXISTS_example:lot", "EQ_INNER_example:lot", "HASATTR_bizLocation"),
    ],
)
def test_filters_of_fields_that_no_event_has(box: Box, site: Site, name: str) -> None:
    site.see(0, 0, 1)
    assert events(box, **{name: "1"}) == []


def test_discovery(box: Box) -> None:
    answer = box.client.options("/epcis/events")
    assert (answer.status_code, answer.headers["Allow"]) == (204, "GET, HEAD, OPTIONS")
    for name in ("GS1-EPCIS-Version", "GS1-EPCIS-Min", "GS1-EPCIS-Max", "GS1-CBV-Version", "GS1-CBV-Max"):
        assert answer.headers[name] == "2.0.0"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Accept": "application/xml"}, 406),
        ({"GS1-EPC-Format": "Hexadecimal"}, 406),
        ({"GS1-EPCIS-Min": "2.1"}, 406),
        ({"GS1-CBV-Max": "1.2.2"}, 406),
        ({"GS1-EPCIS-Min": "1.2", "GS1-EPCIS-Max": "2.0", "GS1-CBV-Min": "2.0.0"}, 200),
        ({"GS1-EPCIS-Max": "two"}, 400),
    ],
)
def test_versions_and_types_that_the_client_takes(box: Box, headers: dict[str, str], status: int) -> None:
    answer = ask(box, headers)
    assert answer.status_code == status
    if status == 406:
        assert answer.json["type"] == "epcisException:NotAcceptableException"


def test_the_address_of_the_next_page_expires_late(box: Box, site: Site) -> None:
    site.see(0, 0, 1)
    site.see(0, 1, 2)
    answer = ask(box, perPage="1")
    expires = times.parse(answer.headers["GS1-Next-Page-Token-Expires"])
    assert expires
    assert expires > clock.now() + 29 * clock.DAY
    assert "GS1-Next-Page-Token-Expires" not in ask(box).headers


@pytest.mark.parametrize(
    "filters",
    [
        {"EQ_action": "LOOK"},
        {"orderBy": "place"},
        {"orderBy": "eventTime", "orderDirection": "UP"},
        {"eventCountLimit": "1"},
        {"orderBy": "eventTime", "eventCountLimit": "1", "maxEventCount": "1"},
        {"maxEventCount": "-1"},
        {"GE_errorDeclarationTime": "now"},
        {"EQ_lot": "1"},
        {"orderBy": "eventTime", "nextPageToken": "WyI2Il0"},
        {"EQ_bizstep": "arriving"},
        {"GE_eventTime": "yesterday"},
        {"perPage": "0"},
        {"perPage": "x"},
        {"nextPageToken": "x"},
        {"nextPageToken": "WyJ4Il0"},
        {"eventType": ""},
        {"MATCH_epc": "|".join(map(str, range(101)))},
        {"EXISTS_errorDeclaration": "yes"},
    ],
)
def test_wrong_parameters_have_the_problem_of_the_standard(box: Box, filters: dict[str, str]) -> None:
    answer = ask(box, **filters)
    assert (answer.status_code, answer.content_type) == (400, "application/problem+json")
    assert answer.json["type"] == "epcisException:QueryParameterException"


def test_a_time_with_an_unescaped_plus_gets_a_hint(box: Box) -> None:
    answer = ask(box, GE_eventTime="2026-03-02T08:15:30 01:00")
    assert answer.status_code == 400
    assert "write the + of its offset as %2B" in answer.json["detail"]


def test_a_token_is_for_its_filters(box: Box, site: Site) -> None:
    site.see(0, 0, 1)
    site.see(0, 1, 2)
    link = ask(box, perPage="1").headers["Link"]
    token = parse_qs(urlsplit(link.partition(">")[0].removeprefix("<")).query)["nextPageToken"][0]
    assert ask(box, nextPageToken=token, EQ_action="ADD").status_code == 400


def test_without_scope_or_token(cast: Cast) -> None:
    feed = box_of(cast.acme)
    answer = ask(feed)
    assert (answer.status_code, answer.json["type"]) == (403, "epcisException:SecurityException")
    assert feed.client.get("/epcis/events").status_code == 401


def test_content_types(box: Box) -> None:
    assert ask(box, {"Accept": "application/ld+json"}).content_type == "application/ld+json"
    assert ask(box).content_type == "application/json"
    assert quote(CONTEXT)


def test_words_of_places(box: Box, site: Site) -> None:
    places.save(site.actor, "location", site.places[0], Place("storing", "in_progress"))
    places.save(site.actor, "door", site.door, Place("shipping"))
    site.see(0, 0, 1)
    site.see(0, 1, 2)
    site.passage(3, 2)
    words = [(one.get("bizStep"), one.get("disposition")) for one in events(box)]
    assert words == [("storing", "in_progress"), (None, None), ("shipping", None)]
    assert len(events(box, EQ_disposition="in_progress")) == 1
    assert len(events(box, EQ_disposition="https://ref.gs1.org/cbv/Disp-in_progress")) == 1
    assert events(box)[0]["eventID"] == event_id(events(box)[0])
    places.save(site.actor, "door", site.door, Place())
    assert events(box)[-1]["bizStep"] == "departing"
    with pytest.raises(Invalid):
        places.save(site.actor, "door", site.door, Place("shiping"))


def test_words_of_places_of_others_cannot_be_changed(site: Site, cast: Cast) -> None:
    with pytest.raises(NotFound):
        places.save(shell(cast.rival), "location", site.places[0], Place("storing"))


def test_events_of_one_asset_need_one_page(box: Box, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many scans, passages and loads of other assets there are."""
    for hour in range(12):
        site.see(1, hour % 2, hour)
    for number in range(12):
        scans.undo(site.ann, site.scans[number], GAP)
    site.see(0, 0, 1)
    with writing():
        execute(
            "INSERT INTO passage (organization_id, door_id, asset_id, at, direction, confidence, inner_reads, "
            "outer_reads, since, until, decided_at) SELECT ?, ?, ?, key, 1, 900, 1, 1, key, key, key "
            "FROM json_each('[1,1,1,1,1,1,1,1,1,1,1,1]')",
            (site.organization_id, site.door, site.assets[1]),
        )
    monkeypatch.setattr(sources, "MOST_EXAMINED", 8)
    assert list(map(len, pages(box, MATCH_epc=PALLET))) == [1]
    assert len(list(pages(box))) == 3


def test_names_of_assets_with_very_many_tags_take_little_memory(box: Box, site: Site) -> None:
    """A page can name 2,000 assets, and each may have hundreds of tags and any number of former ones."""
    asset_id = site.assets[0]
    former = [(number + 2**51, box.organization_id, asset_id, f"{number:0200}") for number in range(20_000)]
    with writing():
        execute_many(
            "INSERT INTO tag (id, organization_id, asset_id, tag_type, value, match_key, gs1_key, created_at, "
            "deleted_at) VALUES (?, ?, ?, 'barcode', ?4, ?4, '(00)006141411234567890', 0, 1)",
            former,
        )
    names = Names(box.organization_id, "http://box")
    tracemalloc.start()
    names.load([asset_id], [])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 500_000
    assert names.asset(asset_id) == PALLET, "that of the live tag"
