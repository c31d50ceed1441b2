"""Positions of people stay hidden when their record is renamed, changed or loses its tag, and their location goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from edge import clock
from edge.audit import actors
from edge.audit.actors import Actor, shell
from edge.database.connection import execute, hide_people
from edge.errors import Forbidden
from edge.people import people
from edge.people.people import Role
from edge.readers import unknown_tags
from edge.readers.unknown_tags import Sighting
from edge.records import assets, csv_import, csv_import_tags, locations
from edge.records.csv_import import NewRecord
from edge.records.tags import NewTag
from edge.tracking import positions, report, tracked_people
from edge.tracking.report import AssetLocationFilter
from edge.tracking.stays import Quality, Scan
from edge.tracking.tracked_people import PeopleSetting
from tests.api.conftest import Api, data, sign_up
from tests.api.test_authentication import session_token_of
from tests.conftest import Cast
from tests.pages.conftest import Browser

SignIn = Callable[..., Browser]
BY_KEY = PeopleSetting(key_prefix="PERSON-")
BY_METADATA = PeopleSetting(metadata_name="kind", metadata_value="person")
BADGE = NewTag("rfid", "30AA0001")


class Site:
    """A person who was read in the vault, and a pallet that was never read."""

    def __init__(self, organization_id: int) -> None:
        self.id, by = organization_id, shell(organization_id)
        self.vault = locations.create(by, name="Vault", external_key="VAULT").id
        person = assets.create(by, name="Mara", external_key="PERSON-1", metadata='{"kind": "person"}', tags=[BADGE])
        self.mara, self.badge = person.id, person.tags[0].id
        self.pallet = assets.create(by, name="Pallet", external_key="PALLET-1").id
        now = clock.now()
        positions.record([Scan(self.id, self.mara, self.vault, None, None, now, now, Quality.READER)], 0)

    def reported(self) -> list[int]:
        """Return the assets with a position that a request without the role sees."""
        hide_people(True)
        try:
            return [row.asset_id for row in report.list_asset_locations(self.id, AssetLocationFilter(), limit=9).rows]
        finally:
            hide_people(False)


@pytest.fixture
def site(cast: Cast) -> Iterator[Site]:
    hide_people(False)
    tracked_people.save(shell(cast.acme), BY_KEY)
    yield Site(cast.acme)
    hide_people(False)


def problem(answer: TestResponse, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.json is not None
    error: dict[str, Any] = answer.json["error"]
    return error


def person_of(site: Site, role: Role) -> Actor:
    one = people.add_person(shell(site.id), f"Sam {role}", role)
    return actors.person(site.id, one.id, one.name)


@pytest.mark.parametrize("setting", [BY_KEY, BY_METADATA])
def test_what_was_recorded_of_a_person_stays_hidden_whatever_it_is_called_later(
    site: Site, setting: PeopleSetting
) -> None:
    by = shell(site.id)
    tracked_people.save(by, setting)
    assets.rename(by, site.mara, "X-1")
    assets.patch(by, site.mara, {"metadata": "{}"})
    assert site.reported() == []
    tracked_people.save(by, setting._replace(history_days=7))
    assert site.reported() == []
    tracked_people.save(by, PeopleSetting(key_prefix="HUMAN-"))
    assert site.reported() == [site.mara]


def test_a_rename_by_sync_or_a_merge_uncovers_nothing(site: Site) -> None:
    execute("UPDATE asset SET external_key = 'X-1' WHERE id = ?", (site.mara,))
    assert site.reported() == []
    execute("UPDATE track SET asset_id = ? WHERE asset_id = ?", (site.pallet, site.mara))
    assert site.reported() == []
    assert tracked_people.among({site.pallet}) == {site.pallet}


def test_the_api_refuses_changes_that_would_uncover_a_person(app: Flask, site: Site) -> None:
    api: Api = sign_up(app.test_client(), site.id)
    refused = problem(api.post(f"/assets/{site.mara}/rename", {"external_key": "X-1"}), 403)
    assert refused["type"] == "forbidden"
    assert api.post(f"/assets/{site.mara}/rename", {"external_key": "PERSON-2"}).status_code == 200
    assert api.patch(f"/assets/{site.mara}", {"name": "Mara S"}).status_code == 200
    assert api.delete(f"/assets/{site.mara}/tags/{site.badge}").status_code == 204
    tag = {"tag_type": "rfid", "value": "30aa0001"}
    assert problem(api.post(f"/assets/{site.pallet}/tags", tag), 403)["type"] == "forbidden"
    problem(api.post("/assets", {"name": "Other", "tags": [tag]}), 403)
    assert data(api.post("/assets", {"name": "Bo", "external_key": "PERSON-3", "tags": [tag]}))
    tracked_people.save(shell(site.id), BY_METADATA)
    problem(api.patch(f"/assets/{site.mara}", {"metadata": {}}), 403)
    tracked_people.save(shell(site.id), BY_METADATA._replace(is_in_api=True))
    assert api.patch(f"/assets/{site.mara}", {"metadata": {}}).status_code == 200


@pytest.mark.parametrize(("role", "is_refused"), [(Role.EDITOR, True), (Role.ADMINISTRATOR, False)])
def test_pages_and_tokens_refuse_it_below_the_role(
    app: Flask, site: Site, sign_in_as: SignIn, role: Role, *, is_refused: bool
) -> None:
    form = {"name": "Mara", "external_key": "X-1", "is_active": "on"}
    answer = sign_in_as(role).edit(f"/assets/{site.mara}/edit", form)
    assert ("This asset is a person" in answer.text) is is_refused
    assert (assets.get(site.id, site.mara).external_key == "PERSON-1") is is_refused
    api: Api = sign_up(app.test_client(), site.id)
    api.token = session_token_of(people.add_person(shell(site.id), "Sam", role))
    assert api.post(f"/assets/{site.mara}/rename", {"external_key": "PERSON-1"}).status_code == 200
    renamed = api.post(f"/assets/{site.mara}/rename", {"external_key": "X-2"})
    assert renamed.status_code == (403 if is_refused else 200)


def test_imports_uncover_nobody(site: Site) -> None:
    editor, administrator = person_of(site, Role.EDITOR), person_of(site, Role.ADMINISTRATOR)
    tracked_people.save(shell(site.id), BY_METADATA)
    no_kind = [NewRecord(2, "PERSON-1", {}, properties={"kind": None})]
    with pytest.raises(Forbidden):
        csv_import.write_records(editor, "asset", no_kind)
    assets.detach_tag(shell(site.id), site.mara, site.badge)
    with_badge = NewRecord(2, "PALLET-1", {}, [BADGE])
    with pytest.raises(Forbidden):
        csv_import.write_records(editor, "asset", [with_badge])
    with pytest.raises(Forbidden):
        csv_import_tags.write_tags(editor, [with_badge._replace(values={"kind": "asset"})])
    assert csv_import.write_records(administrator, "asset", [*no_kind, with_badge._replace(line=3)])
    assert site.reported() == []


def test_a_restored_asset_does_not_get_a_persons_tag(site: Site) -> None:
    editor = person_of(site, Role.EDITOR)
    assets.delete(shell(site.id), site.mara)
    former = assets.create(shell(site.id), name="Former", tags=[NewTag("rfid", "30AA0009")])
    assets.delete(editor, former.id)
    execute("UPDATE tag SET value = ?, match_key = ? WHERE asset_id = ?", (BADGE.value, BADGE.value, former.id))
    with pytest.raises(Forbidden):
        assets.restore(editor, former.id)
    with pytest.raises(Forbidden):
        assets.attach_tag(editor, site.pallet, BADGE)
    assert assets.attach_tag(person_of(site, Role.ADMINISTRATOR), site.pallet, BADGE).value == BADGE.value


def test_a_persons_free_tag_is_not_listed_with_its_location(site: Site) -> None:
    assets.detach_tag(shell(site.id), site.mara, site.badge)
    unknown_tags.record([Sighting(site.id, "rfid", BADGE.value, 0, BADGE.value, "", clock.now(), site.vault)])
    assert (len(unknown_tags.list_tags(site.id)), unknown_tags.count_tags(site.id)) == (1, 1)
    hide_people(True)
    assert (unknown_tags.list_tags(site.id), unknown_tags.count_tags(site.id)) == ([], 0)


def test_the_deletion_of_a_location_does_not_say_that_a_person_is_there(app: Flask, site: Site) -> None:
    api: Api = sign_up(app.test_client(), site.id)
    empty = locations.create(shell(site.id), name="Empty").id
    answers = [api.delete(f"/locations/{place}") for place in (empty, site.vault)]
    assert [answer.status_code for answer in answers] == [204, 204]


def test_who_may_see_people_learns_that_the_location_is_in_use(app: Flask, site: Site) -> None:
    tracked_people.save(shell(site.id), BY_KEY._replace(is_in_api=True))
    api: Api = sign_up(app.test_client(), site.id)
    assert "1 live asset(s)" in problem(api.delete(f"/locations/{site.vault}"), 409)["detail"]
