"""A reader and the location it stands at, set up in one go."""

from __future__ import annotations

from typing import Any

from edge.errors import Invalid
from edge.store import locations, readers
from edge.store.actors import Actor
from edge.store.audit import acting
from edge.store.readers import ReaderRow


def add_reader_with_location(actor: Actor, location_name: str, **values: Any) -> ReaderRow:
    """Both or neither; `values` are those of `readers.add_reader`. Without a location name, only the reader is added.

    Raises what that raises, and Invalid where a location was chosen as well.
    """
    if not location_name:
        return readers.add_reader(actor, **values)
    if values.get("location_id"):
        raise Invalid.one("location_name", "invalid_value", "Choose a location, or name a new one, not both")
    with acting(actor):
        location = locations.create(actor, name=location_name)
        return readers.add_reader(actor, **{**values, "location_id": location.id})
