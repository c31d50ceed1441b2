"""Where people are is shown only to the role of the setting: every page is the same as if they were never seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask

from edge import clock
from edge.audit import actors
from edge.audit.actors import shell
from edge.database.connection import execute, hide_people
from edge.doors import doors
from edge.events import log
from edge.events.log import EventKind, Filter, NewEvent
from edge.expected_lists import expected_lists
from edge.handhelds import scans
from edge.people import people
from edge.people.people import Role
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.rules import rules
from edge.rules.conditions import Condition
from edge.rules.rules import RuleFields
from edge.tracking import asset_values, floor_plans, lost_assets, positions, tracked_people
from edge.tracking.asset_values import NewValues
from edge.tracking.stays import Quality, Scan
from edge.tracking.tracked_people import PeopleSetting
from tests.api.conftest import Api, data, sign_up
from tests.api.test_authentication import session_token_of
from tests.conftest import Cast
from tests.pages.conftest import Browser

SignIn = Callable[..., Browser]
NOW = 1_767_268_800 * clock.SECOND  # noon
SETTING = PeopleSetting(key_prefix="PERSON-", seen_by=Role.ADMINISTRATOR)
# Who reads them, and what other rows they change, have tests of their own.
OTHER_ROUTES = (
    "/static",
    "/manual",
    "/api",
    "/events",
    "/readyz",
    "/metrics",
    "/scan/left",
    "/sw.js",
    "/openapi",
    "/account",
    "/labels.pdf",
    "/status",
)


class Scene:
    """A pallet and a person, both read in the vault an hour ago, then at the gate, which they passed."""

    def __init__(self, organization_id: int) -> None:
        by = shell(organization_id)
        self.organization_id = organization_id
        warden = people.add_person(by, "Wanda", Role.OPERATOR)
        self.warden = actors.person(organization_id, warden.id, warden.name)
        self.vault = locations.create(by, name="Vault", external_key="VAULT").id
        self.gate = locations.create(by, name="Gate area", external_key="GATE").id
        floor_plans.set_image(by, self.vault, b"<svg/>", "image/svg+xml", (100, 100))
        self.pallet = assets.create(by, name="Pallet", external_key="PALLET-1").id
        self.mara = assets.create(
            by, name="Mara", external_key="PERSON-1", tags=[NewTag("rfid", "30AA0001")], metadata='{"kind": "person"}'
        ).id
        self.door = doors.add_door(by, "Front door", self.gate)
        self.list_id = expected_lists.create(by, "Truck", ["PALLET-1"], door_id=self.door, direction=doors_out())
        expected_lists.start(by, self.list_id)
        self.rule = rules.add_rule(by, RuleFields("Vault", Condition.ENTERS, location_id=self.vault))
        self.passage = self.alert = 0
        for asset_id in (self.pallet, self.mara):
            self.follow(asset_id)

    def follow(self, asset_id: int) -> None:
        for place, ago in ((self.vault, 60), (self.gate, 10)):
            at = NOW - ago * 60 * clock.SECOND
            positions.record([_seen(self.organization_id, asset_id, place, at)], 0)
        values = NewValues(self.organization_id, asset_id, NOW - 15 * 60 * clock.SECOND, 9, None, 2150, is_pressed=True)
        asset_values.record([values])
        lost_assets.mark_lost(self.warden, asset_id, NOW - 30 * 60 * clock.SECOND, is_lost=True)
        at = NOW - 20 * 60 * clock.SECOND
        self.passage = execute(
            "INSERT INTO passage (organization_id, door_id, asset_id, at, direction, confidence, inner_reads, "
            "outer_reads, since, until, decided_at) VALUES (?, ?, ?, ?, 2, 990, 9, 9, ?, ?, ?) RETURNING no",
            (self.organization_id, self.door, asset_id, at, at, at, at),
        ).fetchone()[0]
        self.alert = execute(
            "INSERT INTO alert (organization_id, rule_no, cause, subject_id, subject_name, subject_key, place_name, "
            "amount, occurred_at, made_at) VALUES (?, ?, ?, ?, 'Mara', 'PERSON-1', 'Vault', 0, ?, ?) RETURNING no",
            (self.organization_id, self.rule, str(asset_id), asset_id, at, at),
        ).fetchone()[0]

    def forget(self, asset_id: int) -> None:
        """Remove all evidence of where an asset was."""
        execute("DELETE FROM history WHERE position_no IN (SELECT no FROM track WHERE asset_id = ?)", (asset_id,))
        for table in ("track", "passage", "handheld_scan", "asset_value"):
            execute(f"DELETE FROM {table} WHERE asset_id = ?", (asset_id,))
        execute("DELETE FROM alert WHERE subject_id = ?", (asset_id,))

    def addresses(self, app: Flask) -> Iterator[str]:
        """Yield the addresses of all pages, for the person and the places."""
        query = f"?asset={self.mara}&location={self.vault}&q=Mara&at=2026-01-01T11:30&from=2026-01-01&to=2026-01-01"
        values: dict[str, Any] = {
            "asset_id": self.mara,
            "external_key": "PERSON-1",
            "door_id": self.door,
            "list_id": self.list_id,
        }
        for rule in app.url_map.iter_rules():
            if "GET" not in (rule.methods or ()) or rule.rule.startswith(OTHER_ROUTES):
                continue
            number = {"/passages": self.passage, "/alerts": self.alert, "/rules": self.rule}
            values["no"] = next((no for path, no in number.items() if rule.rule.startswith(path)), 1)
            places = (self.vault, self.gate) if "location_id" in rule.arguments else (self.vault,)
            if not rule.arguments <= values.keys() | {"location_id"}:
                continue
            for place in places:
                built = rule.build({k: {**values, "location_id": place}[k] for k in rule.arguments})
                assert built
                yield from (built[1], built[1] + query)


def doors_out() -> Any:
    from edge.doors.passage_rule import Direction

    return Direction.OUT


def _seen(organization_id: int, asset_id: int, place: int, at: int) -> Scan:
    return Scan(organization_id, asset_id, place, None, None, at, at, Quality.READER)


def shown(browser: Browser, scene: Scene, app: Flask) -> dict[str, str]:
    """Return the texts of all pages, without what differs each time."""
    texts = {}
    for address in scene.addresses(app):
        answer = browser.get(address)
        assert answer.status_code < 500, (address, answer.data[-500:])
        text = re.sub(r'(name="(?:once|csrf|note_id)" value=")[^"]*', r"\1", answer.data.decode("latin-1"))
        text = re.sub(r'"request_id":"\w+"', "", text)  # of the feed, which is no page and refuses a session
        texts[address] = f"{answer.status_code} {re.sub('<code>[0-9a-zA-Z-]{20,}</code>', '', text)}"
    return texts


@pytest.fixture
def scene(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> Scene:
    hide_people(False)  # requests of the test before had the same thread
    monkeypatch.setattr(clock, "now", lambda: NOW)
    monkeypatch.setattr(clock, "midnight", lambda _zone: NOW - 12 * clock.HOUR)
    tracked_people.save(shell(cast.acme), SETTING)
    return Scene(cast.acme)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.EDITOR])
def test_every_page_is_as_if_people_were_never_seen(app: Flask, scene: Scene, sign_in_as: SignIn, role: Role) -> None:
    browser = sign_in_as(role)
    pages = shown(browser, scene, app)
    assert len(pages) > 60
    scene.forget(scene.mara)
    after = shown(browser, scene, app)
    assert [address for address in pages if pages[address] != after[address]] == []


def test_those_who_may_see_them_do(app: Flask, scene: Scene, sign_in_as: SignIn) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    pages = shown(browser, scene, app)
    scene.forget(scene.mara)
    after = shown(browser, scene, app)
    changed = {address.split("?")[0] for address in pages if pages[address] != after[address]}
    mara, vault, gate = scene.mara, scene.vault, scene.gate
    assert changed >= {
        *(
            "/",
            "/board/rows",
            "/past",
            "/not-seen",
            "/battery-low",
            "/alerts",
            "/alerts/open",
            "/locations",
            "/scan/find",
        ),
        *(f"/assets/{mara}{view}" for view in ("", "/now", "/history", "/trail", "/why")),
        *(f"/locations/{gate}", f"/locations/{gate}/now", f"/locations/{vault}/history"),
        *("/export/board.csv", "/export/past.csv", "/export/history.csv", "/export/passages.csv"),
        *("/doors", "/doors/now", f"/doors/{scene.door}", f"/doors/{scene.door}/now", f"/passages/{scene.passage}"),
    }


def test_handhelds_get_no_positions_of_people(scene: Scene, sign_in_as: SignIn) -> None:
    def rows(role: Role) -> list[Any]:
        answer = sign_in_as(role).send("/scan/assets", {"digests": ""})
        content = answer.json
        assert content is not None
        return next(row for _, _, bucket in content for row in bucket if row[0] == scene.mara)

    assert rows(Role.ADMINISTRATOR)[3] == scene.gate
    assert rows(Role.OPERATOR)[3:6] == [None, None, None]


def test_a_rule_of_the_metadata_or_key_follows_every_change(cast: Cast) -> None:
    by = shell(cast.acme)
    tracked_people.save(by, PeopleSetting(key_prefix="PERSON-", metadata_name="kind", metadata_value="person"))
    one = assets.create(by, name="Mara", metadata='{"kind": "person"}')
    other = assets.create(by, name="Pallet", external_key="PALLET-1")
    rival = assets.create(shell(cast.rival), name="Rival", external_key="PERSON-1")
    ids = {one.id, other.id, rival.id}
    assert tracked_people.among(ids) == {one.id}
    place = locations.create(by, name="Vault").id
    positions.record([_seen(cast.acme, other.id, place, clock.now())], 0)
    assets.rename(by, other.id, "PERSON-2")
    assert tracked_people.among(ids) == {one.id, other.id}
    assert execute("SELECT is_person FROM track").fetchall() == [(1,)]
    tracked_people.save(by, PeopleSetting(key_prefix="HUMAN-"))
    assert tracked_people.among(ids) == set()
    assert execute("SELECT is_person FROM track").fetchall() == [(0,)]


def test_the_api_treats_people_as_never_scanned_until_it_may_show_them(app: Flask, scene: Scene, cast: Cast) -> None:
    acme: Api = sign_up(app.test_client(), cast.acme)
    report, history = "/reports/asset-locations", f"/assets/{scene.mara}/history"
    assert [row["asset_external_key"] for row in data(acme.get(report))] == ["PALLET-1"]
    assert data(acme.get(report, asset_id=scene.mara)) == []
    answer = acme.get(history)
    assert (data(answer), answer.json and answer.json["total_count"]) == ([], 0)
    assert len(data(acme.get(f"/assets/{scene.pallet}/history"))) == 2
    assert data(acme.get(f"/assets/{scene.mara}"))["name"] == "Mara"
    tracked_people.save(shell(cast.acme), SETTING._replace(is_in_api=True))
    assert len(data(acme.get(report))) == 2
    assert len(data(acme.get(history))) == 2


def test_events_about_people_are_not_sent_unless_the_setting_says_so(cast: Cast, scene: Scene) -> None:
    every = Filter(frozenset(EventKind))
    log.add(
        NewEvent(cast.acme, kind, asset_id, NOW, (), (), {})
        for asset_id in (scene.pallet, scene.mara)
        for kind in (EventKind.ASSET_MOVED, EventKind.ASSET_CHANGED)
    )

    def sent() -> list[tuple[int, str | None]]:
        return [(event.subject_id, every.kind_of(event)) for event in log.after(cast.acme, 0, 9)]

    hidden = [(scene.pallet, "asset.moved"), (scene.pallet, "asset.changed"), (scene.mara, None)]
    assert sent() == [*hidden, (scene.mara, "asset.changed")]
    tracked_people.save(shell(cast.acme), SETTING._replace(is_in_api=True))
    assert sent()[2] == (scene.mara, "asset.moved")


@pytest.mark.parametrize("kind", [kind for kind in EventKind if kind.startswith("asset.")])
def test_no_event_says_where_a_person_is(cast: Cast, scene: Scene, kind: EventKind) -> None:
    data = {"asset": {"id": scene.mara}, "location": {"id": scene.vault, "name": "Vault"}}
    log.add([NewEvent(cast.acme, kind, scene.mara, NOW, {scene.vault}, (), data)])
    every = Filter(frozenset(EventKind))
    in_vault = every._replace(location_id=scene.vault)

    def sent(chosen: Filter) -> list[bytes]:
        return [log.body(event, kind) for event in log.after(cast.acme, 0, 9) if chosen.kind_of(event)]

    assert not any(b"Vault" in body for body in sent(every))
    assert sent(in_vault) == []
    tracked_people.save(shell(cast.acme), SETTING._replace(is_in_api=True))
    assert all(b"Vault" in body for body in sent(every))
    assert len(sent(every)) == len(sent(in_vault)) == 1


@pytest.mark.parametrize(("role", "is_seen"), [(Role.VIEWER, False), (Role.EDITOR, False), (Role.ADMINISTRATOR, True)])
def test_tokens_and_streams_of_people_show_no_more_than_pages(
    app: Flask, cast: Cast, scene: Scene, sign_in_as: SignIn, role: Role, *, is_seen: bool
) -> None:
    tracked_people.save(shell(cast.acme), SETTING._replace(is_in_api=True))
    api: Api = sign_up(app.test_client(), cast.acme)
    api.token = session_token_of(people.add_person(shell(cast.acme), "Sam", role))
    shown = {row["asset_external_key"] for row in data(api.get("/reports/asset-locations"))}
    assert shown == ({"PALLET-1", "PERSON-1"} if is_seen else {"PALLET-1"})
    assert bool(data(api.get(f"/assets/{scene.mara}/history"))) is is_seen
    at_vault = {"location": {"name": "Vault"}}
    log.add(
        NewEvent(cast.acme, kind, asset_id, NOW, {scene.vault}, (), at_vault)
        for asset_id, kind in (
            (scene.pallet, EventKind.ASSET_CREATED),
            (scene.mara, EventKind.ASSET_MOVED),
            (scene.mara, EventKind.ASSET_CHANGED),
        )
    )
    first = log.after(cast.acme, 0, 1)[0]
    streamed = sign_in_as(role).get(f"/events?last_event_id={first.id}").text
    assert ("event: asset.moved" in streamed, "Vault" in streamed) == (is_seen, is_seen)
    assert "event: asset.changed" in streamed


def test_threads_without_a_request_see_everything_and_requests_begin_hidden(app: Flask, scene: Scene) -> None:
    from edge.tracking import board

    where = board.whereabouts(scene.organization_id, scene.mara)
    assert where
    assert where.location_id == scene.gate
    app.test_client().get("/sign-in", headers={"User-Agent": "Mozilla/5.0"})
    where = board.whereabouts(scene.organization_id, scene.mara)
    hide_people(False)
    assert where
    assert where.location_id is None


def test_only_administrators_change_the_setting(scene: Scene, sign_in_as: SignIn) -> None:
    form: dict[str, object] = {
        **SETTING._replace(seen_by=Role.OPERATOR, history_days=7)._asdict(),
        "is_in_api": "on",
    }
    del form["is_on_walls"]  # an unticked box is not sent
    assert sign_in_as(Role.EDITOR).get("/people/positions").status_code == 403
    ada = sign_in_as(Role.ADMINISTRATOR)
    assert "1 asset is a person now" in ada.get("/people/positions").text
    assert ada.post("/people/positions", form).status_code == 303
    saved = tracked_people.setting(scene.organization_id)
    assert saved == SETTING._replace(seen_by=Role.OPERATOR, history_days=7, is_in_api=True)
    assert ada.post("/people/positions", {**form, "history_days": "0"}).status_code == 400
    assert ada.post("/people/positions", {**form, "history_days": "x"}).status_code == 400
    assert ada.post("/people/positions", {**form, "metadata_name": "kind"}).status_code == 400


def test_scans_of_people_are_recorded_whatever_the_role_sees(scene: Scene) -> None:
    olga = people.add_person(shell(scene.organization_id), "Olga", Role.OPERATOR)
    from edge.handhelds.scans import Submitted

    by = actors.person(scene.organization_id, olga.id, olga.name)
    hide_people(True)
    answer = scans.submit(by, [Submitted("scan-1", "PERSON-1", scene.vault, NOW)], NOW)[0]
    hide_people(False)
    assert answer.result == "recorded"
    assert answer.was
    assert answer.was.location_id is None
    assert execute("SELECT location_id FROM position WHERE asset_id = ?", (scene.mara,)).fetchone() == (scene.vault,)
