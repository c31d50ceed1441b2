"""Sleds: who carries one, and undoing its scans."""

from __future__ import annotations

from flask import request

from edge import clock
from edge.errors import Invalid
from edge.pages.forms import text, whole
from edge.pages.guard import Answer, actor, administrators, editors, organization_id
from edge.pages.notices import done
from edge.pages.translation import gettext
from edge.people import devices, people
from edge.people.people import RANK, Role
from edge.readers import sled_scans, sleds
from edge.services import services
from edge.texts import N_

UNDO_MINUTES = {15: N_("Last 15 minutes"), 60: N_("Last hour"), 480: N_("Last 8 hours"), 1440: N_("Last 24 hours")}


@administrators.post("/readers/<int:reader_id>/sled")
def assign_sled(reader_id: int) -> Answer:
    """Give a sled to a person or a handheld from now on. Empty: to nobody."""
    kind, _, number = text(request.form, "operator").partition("-")
    if number and (kind not in ("person", "device") or not number.isascii() or not number.isdigit()):
        raise Invalid.one("operator", "invalid_value", N_("Choose a person or a handheld"))
    operator_id = whole(number) if number else None
    is_device = kind == "device"
    sleds.assign(
        actor(),
        reader_id,
        person_id=None if is_device else operator_id,
        device_id=operator_id if is_device else None,
    )
    return done(f"/readers/{reader_id}", "changed")


@editors.post("/readers/<int:reader_id>/sled/undo")
def undo_sled(reader_id: int) -> Answer:
    """Undo the scans of a sled in the last minutes."""
    minutes = request.form.get("minutes", 0, type=whole)
    if minutes not in UNDO_MINUTES:
        raise Invalid.one("minutes", "invalid_value", N_("Choose how far back to undo"))
    gap = services().config.sighting_gap
    count = sled_scans.undo(actor(), reader_id, clock.now() - minutes * sleds.MINUTE, gap)
    return done(f"/readers/{reader_id}", "sled-undone" if count < sled_scans.MOST_UNDONE else "sled-undone-partly")


def operators() -> list[tuple[str, str]]:
    """Return who may have a sled: people who may scan, then handhelds, as (value, name)."""
    may_scan = [
        (f"person-{row.id}", row.name)
        for row in people.list_people(organization_id())
        if row.disabled_at is None and RANK[Role(row.role)] >= RANK[Role.OPERATOR]
    ]
    handhelds = [
        (f"device-{row.id}", gettext("%(name)s (handheld)") % {"name": row.name})
        for row in devices.list_devices(organization_id())
        if row.is_enrolled
    ]
    return may_scan + handhelds
