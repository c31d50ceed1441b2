"""Finds records by what a person types."""

from __future__ import annotations

from edge.errors import NotFound
from edge.store import assets, locations, people, readers
from edge.store.assets import AssetFilter, AssetRow
from edge.store.locations import LocationFilter, LocationRow
from edge.store.people import PersonRow
from edge.store.readers import ReaderRow


def asset_of(organization_id: int, key: str) -> AssetRow:
    """The asset with this external key. Raises NotFound."""
    found = assets.list_page(organization_id, AssetFilter(external_keys=[key]), limit=1).rows
    if not found:
        raise NotFound(f"There is no asset {key}. `edge asset list` shows them.")
    return found[0]


def location_of(organization_id: int, key: str) -> LocationRow:
    """The location with this external key. Raises NotFound."""
    found = locations.list_page(organization_id, LocationFilter(external_keys=[key]), limit=1).rows
    if not found:
        raise NotFound(f"There is no location {key}. `edge location list` shows them.")
    return found[0]


def reader_of(organization_id: int, name: str) -> ReaderRow:
    """The reader with this name. Raises NotFound."""
    for row in readers.list_readers(organization_id):
        if row.name == name:
            return row
    raise NotFound(f"There is no reader {name}. `edge reader list` shows them.")


def person_of(organization_id: int, email: str) -> PersonRow:
    """The person with this email. Raises NotFound."""
    for row in people.list_people(organization_id):
        if (row.email or "").lower() == email.strip().lower():
            return row
    raise NotFound(f"There is no person with the email {email}. `edge user list` shows them.")


def location_id_of(organization_id: int, key: str | None) -> int | None:
    """None for no key. Raises NotFound."""
    return location_of(organization_id, key).id if key else None


def key_of(organization_id: int, location_id: int | None) -> str:
    return locations.get(organization_id, location_id).external_key if location_id else ""
