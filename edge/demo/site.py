"""Records of the demo site, and the credentials for it."""

from __future__ import annotations

import secrets
from typing import NamedTuple

import orjson

from edge.audit import actors
from edge.audit.actors import Actor
from edge.database.connection import writing
from edge.demo.plan import Plan, Reader, Thing
from edge.people import api_keys, organizations, people
from edge.people.api_keys import SCOPES
from edge.people.passwords import hash_password
from edge.people.people import Role
from edge.people.secrets import hash_secret, new_client_secret
from edge.readers import readers
from edge.readers.readers import Placement
from edge.records import assets, locations
from edge.records.location_tree import NO_PARENT, Parent
from edge.records.tags import NewTag

ORGANIZATION = "Demo"
EMAIL = "demo@example.com"
KEY_NAME = "Commands of the demo"


class Access(NamedTuple):
    """Credentials for the site, new for each run: only their hashes are stored."""

    organization_id: int
    email: str
    password: str
    client_id: str
    client_secret: str


def make_or_continue(plan: Plan, valid_from: int) -> Access:
    """Create or open the site with a new password and API key, and revoke earlier ones. `valid_from` is for assets."""
    password = "-".join(secrets.token_hex(2) for _ in range(4))
    with writing():
        found = [row.id for row in organizations.list_organizations() if row.name == ORGANIZATION]
        organization_id = found[0] if found else _make(plan, valid_from)
        actor = actors.service(organization_id)
        known = people.find_by_email(EMAIL)
        person = known[0] if known else people.add_person(actor, "Demo", Role.ADMINISTRATOR, email=EMAIL)
        people.update_person(actor, person.id, password_hash=hash_password(password))
        for key in api_keys.list_keys(organization_id):
            if key.name == KEY_NAME:
                api_keys.revoke_key(actor, key.id)
        secret = new_client_secret()
        key = api_keys.add_key(actor, KEY_NAME, SCOPES, hash_secret(secret))
    return Access(organization_id, EMAIL, password, key.id, secret)


def _make(plan: Plan, valid_from: int) -> int:
    organization_id = organizations.add_organization(actors.service(), ORGANIZATION).id
    actor = actors.service(organization_id)
    ids: dict[str, int] = {}
    for spot in plan.spots:
        parent = Parent(ids[spot.parent], spot.parent) if spot.parent else NO_PARENT
        ids[spot.key] = locations.create(
            actor,
            name=spot.name,
            external_key=spot.key,
            description=spot.description,
            parent=parent,
            valid_from=valid_from,
        ).id
    for reader in plan.readers:
        _add_reader(actor, reader, ids)
    for thing in plan.things:
        if thing.key:
            assets.create(
                actor,
                name=thing.name,
                external_key=thing.key,
                metadata=orjson.dumps(thing.metadata).decode(),
                valid_from=valid_from,
                tags=tags(thing),
            )
    return organization_id


def _add_reader(actor: Actor, reader: Reader, ids: dict[str, int]) -> None:
    row = readers.add_reader(
        actor,
        name=reader.name,
        topic=reader.topic,
        format=reader.format,
        location_id=ids[reader.location] if reader.location else None,
        min_rssi=reader.min_rssi,
    )
    for port, key in reader.antennas.items():
        readers.set_antenna(actor, row.id, port, Placement(ids[key], None, True))


def tags(thing: Thing) -> list[NewTag]:
    """Return the tags of an item. A beacon is identified by its triple only, because its address may change."""
    ble = thing.beacon.triple if thing.beacon else thing.mac
    values = (("rfid", thing.epc), ("ble", ble), ("barcode", thing.barcode))
    return [NewTag(tag_type, value) for tag_type, value in values if value]
