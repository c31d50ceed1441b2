"""The EPCIS words of a location and of a door, in their forms."""

from __future__ import annotations

from flask import request

from edge.epcis import places
from edge.epcis.places import Place
from edge.pages.guard import Answer, actor, administrators
from edge.pages.notices import done


@administrators.post("/locations/<int:location_id>/epcis")
def save_epcis_location(location_id: int) -> Answer:
    places.save(actor(), "location", location_id, _entered())
    return done(f"/locations/{location_id}/edit", "changed")


@administrators.post("/doors/<int:door_id>/epcis")
def save_epcis_door(door_id: int) -> Answer:
    places.save(actor(), "door", door_id, _entered())
    return done(f"/doors/{door_id}/edit", "changed")


def _entered() -> Place:
    return Place(request.form.get("biz_step") or None, request.form.get("disposition") or None)
