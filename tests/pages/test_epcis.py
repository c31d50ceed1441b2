"""The EPCIS words in the forms of a location and a door, and the key for the open feed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge.audit.actors import shell
from edge.doors import doors
from edge.epcis import places
from edge.epcis.places import Kind, Place
from edge.people import api_keys
from edge.people.people import Role
from edge.records import locations
from tests.conftest import Cast
from tests.pages.conftest import Browser


@pytest.mark.parametrize("kind", ["location", "door"])
def test_an_administrator_chooses_the_words_of_a_place(
    sign_in_as: Callable[..., Browser], cast: Cast, kind: Kind
) -> None:
    actor = shell(cast.acme)
    place_id = locations.create(actor, name="Dock").id if kind == "location" else doors.add_door(actor, "Gate", None)
    path, entered = f"/{kind}s/{place_id}", {"biz_step": "shipping", "disposition": "in_transit"}
    admin = sign_in_as(Role.ADMINISTRATOR)
    assert admin.post(f"{path}/epcis", entered).status_code == 303
    assert places.find(cast.acme, kind, place_id) == Place("shipping", "in_transit")
    assert 'value="shipping" translate="no" selected' in admin.get(f"{path}/edit").text
    assert admin.post(f"{path}/epcis", {"biz_step": "sipping"}).status_code == 400
    assert sign_in_as(Role.EDITOR).post(f"{path}/epcis", entered).status_code == 403
    assert places.find(cast.rival, kind, place_id) == Place()


def test_a_key_for_the_open_feed(sign_in_as: Callable[..., Browser], cast: Cast) -> None:
    admin = sign_in_as(Role.ADMINISTRATOR)
    assert "Open feed" in admin.get("/keys/new").text
    assert admin.post("/keys/new", {"name": "Analysts", "feed": "read", "once": "a"}).status_code == 200
    (key,) = api_keys.list_keys(cast.acme)
    assert key.scopes == (api_keys.FEED_SCOPE,)
    assert admin.post("/keys/new", {"name": "Writers", "feed": "write", "once": "b"}).status_code == 400
