"""Antennas: location, behavior (assets stay or pass), and recent reads."""

from __future__ import annotations

from functools import partial

from flask import render_template, request

from edge.database.connection import all_or_none
from edge.errors import Invalid
from edge.pages import charts
from edge.pages.forms import text, whole
from edge.pages.guard import Answer, actor, administrators, editors, organization_id
from edge.pages.notices import done
from edge.pages.readers.location_corrections import saved_location
from edge.pages.translation import gettext, translated
from edge.readers import antenna_reads, correction_offers, offset_proposals, readers
from edge.readers.antenna_kinds import set_location_kind, set_reader_kind
from edge.readers.readers import Placement
from edge.records import locations
from edge.texts import N_, fill
from edge.tracking import antenna_names, rssi_offsets
from edge.tracking.signal_strength import AntennaKind
from edge.validation import values

KIND_NAMES = {
    AntennaKind.ZONE: N_("Zone: assets stay where it reads them"),
    AntennaKind.PORTAL: N_("Portal: assets pass it"),
    AntennaKind.DIRECT: N_("Direct: every read counts"),
}


@administrators.post("/readers/<int:reader_id>/antennas")
def set_antenna(reader_id: int) -> Answer:
    """Save the settings of an antenna, or make it inherit those of its reader."""
    reader = readers.get_reader(organization_id(), reader_id)
    kind, placement = _kind(), Placement(entered_location(), entered_rssi(), "is_enabled" in request.form)
    port = antenna_names.port_from(reader_id, text(request.form, "port"))
    was_id = correction_offers.location_of(reader.organization_id, reader_id, port)
    if "follow" in request.form:
        placed, kind = partial(readers.remove_antenna, actor(), reader_id, port), None
    else:
        placed = partial(readers.set_antenna, actor(), reader_id, port, placement)
    all_or_none((placed, partial(set_reader_kind, actor(), reader_id, reader.name, kind, port)))
    return saved_location(reader_id, port, was_id)


@administrators.post("/readers/<int:reader_id>/antenna-kind")
def set_kind_of_reader(reader_id: int) -> Answer:
    """Save the kind that antennas of a reader inherit."""
    reader = readers.get_reader(organization_id(), reader_id)
    set_reader_kind(actor(), reader_id, reader.name, _kind())
    return done(f"/readers/{reader_id}", "changed")


@administrators.post("/locations/<int:location_id>/antenna-kind")
def set_kind_of_location(location_id: int) -> Answer:
    """Save the kind that antennas at a location and below it inherit."""
    location = locations.get(organization_id(), location_id)
    set_location_kind(actor(), location_id, location.name, _kind())
    return done(f"/locations/{location_id}/edit", "changed")


@editors.get("/readers/<int:reader_id>/antennas", manual="readers#antennas")
def show_antenna_work(reader_id: int) -> str:
    """Show the reads of a reader's antennas in the last minutes, to align the antennas."""
    work = antenna_reads.antenna_activity(organization_id(), reader_id)
    drawn = [
        charts.strengths(_title(one), one.strengths, antenna_reads.WEAKEST, antenna_reads.STEP)
        for one in work.antennas
        if any(one.strengths)
    ]
    reader = readers.get_reader(organization_id(), reader_id)
    return render_template(
        "readers/antenna-work.html",
        reader=reader,
        work=work,
        drawn=drawn,
        offset=rssi_offsets.offsets_of(organization_id()).readers.get(reader_id),
        offsets=_own_offsets(organization_id(), reader_id),
        proposals=offset_proposals.proposals(organization_id(), reader_id),
    )


def _title(antenna: antenna_reads.Antenna) -> str:
    return gettext("%(antenna)s: strength") % {"antenna": translated(antenna.label)}


def _own_offsets(organization_id: int, reader_id: int) -> list[tuple[str, float]]:
    """Return pairs (antenna, dB) of antennas with their own offset."""
    names, own = antenna_names.names_of(reader_id), rssi_offsets.offsets_of(organization_id).antennas
    return [(names.get(port, str(port)), decibels) for (one, port), decibels in sorted(own.items()) if one == reader_id]


@administrators.post("/readers/<int:reader_id>/rssi-offset")
def set_rssi_offset(reader_id: int) -> Answer:
    """Save the offset for signal strengths of a reader or antenna. Empty: inherit it, or none."""
    reader = readers.get_reader(organization_id(), reader_id)
    entered = text(request.form, "port")
    port = antenna_names.port_from(reader_id, entered) if entered else None
    rssi_offsets.set_offset(
        actor(), reader_id, reader.name, values.decibels("rssi_offset", text(request.form, "rssi_offset")), port
    )
    return done(f"/readers/{reader_id}/antennas", "changed")


def _kind() -> AntennaKind | None:
    entered = text(request.form, "kind")
    try:
        return AntennaKind(entered) if entered else None
    except ValueError as error:
        known = ", ".join(AntennaKind)
        raise Invalid.one("kind", "invalid_value", fill(N_("An antenna is one of %(kinds)s"), kinds=known)) from error


def entered_location() -> int | None:
    return request.form.get("location_id", 0, type=whole) or None


def entered_rssi() -> float | None:
    return values.signal_strength("min_rssi", text(request.form, "min_rssi"))
