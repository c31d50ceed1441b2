"""Records of the demo site, and the credentials for it."""

from __future__ import annotations

import secrets
from typing import NamedTuple

from edge.audit import actors
from edge.audit.actors import Actor
from edge.database.connection import writing
from edge.demo.plan import Item, Plan, Reader
from edge.people import api_keys, organizations, people
from edge.people.api_keys import SCOPES
from edge.people.passwords import hash_password
from edge.people.people import Role
from edge.people.secrets import hash_secret, new_client_secret
from edge.readers import readers
from edge.readers.readers import Placement
from edge.records import assets, locations
from edge.records.tags import NewTag
from edge.validation import json_text

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


def open_or_create(plan: Plan, valid_from: int) -> Access:
    """Create or open the site with a new password and API key, and revoke earlier ones. `valid_from` is for assets."""
    password = "-".join(secrets.token_hex(2) for _ in range(4))
    with writing():
        existing = [row.id for row in organizations.list_organizations() if row.name == ORGANIZATION]
        organization_id = existing[0] if existing else _make(plan, valid_from)
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
    for location in plan.locations:
        ids[location.key] = locations.create(
            actor,
            name=location.name,
            external_key=location.key,
            description=location.description,
            parent_id=ids[location.parent] if location.parent else None,
            valid_from=valid_from,
        ).id
    for reader in plan.readers:
        _add_reader(actor, reader, ids)
    for item in plan.items:
        if item.key:
            assets.create(
                actor,
                name=item.name,
                external_key=item.key,
                metadata=json_text.text(item.metadata),
                valid_from=valid_from,
                tags=tags(item),
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


def tags(item: Item) -> list[NewTag]:
    """Return the tags of an item. A beacon is identified by its triple only, because its address may change."""
    ble = item.beacon.triple if item.beacon else item.mac
    values = (("rfid", item.epc), ("ble", ble), ("barcode", item.barcode))
    return [NewTag(tag_type, value) for tag_type, value in values if value]
