"""Doors: passages of today, and settings."""

from __future__ import annotations

from functools import partial
from itertools import zip_longest
from typing import Any

from flask import render_template, request

from edge import clock
from edge.database.connection import all_or_none
from edge.doors import doors, passage_report
from edge.doors.doors import Door, DoorAntenna
from edge.doors.passage_report import Totals
from edge.doors.passage_rule import Direction, Side
from edge.epcis import places
from edge.errors import EdgeError, Invalid
from edge.expected_lists import expected_lists
from edge.pages.actions import add_action, add_fragment
from edge.pages.double_submit import once
from edge.pages.forms import Errors, text, whole
from edge.pages.guard import Answer, actor, administrators, organization_id, viewers
from edge.pages.notices import done
from edge.readers import readers
from edge.services import services
from edge.texts import N_
from edge.tracking import location_board
from edge.tracking.antenna_names import port_from

SHOWN = 50
MORE_ROWS = 2  # empty rows for further antennas
NOTHING = Totals(0, 0, 0, 0)
DIRECTIONS = {
    Direction.IN: N_("In"),
    Direction.OUT: N_("Out"),
    Direction.TURNED_BACK: N_("Turned back"),
    Direction.UNKNOWN: N_("Unknown"),
    Direction.WITHDRAWN: N_("Withdrawn"),
}


def _list(errors: Errors) -> str:
    return render_template("doors/doors.html", **_doors_now(), values=request.form, errors=errors, **_choices())


@viewers.get("/doors", manual="doors#set-up-a-door")
def show_doors() -> str:
    return _list({})


@administrators.post("/doors", again=_list)
@once
def new_door() -> Answer:
    door_id = doors.add_door(actor(), text(request.form, "name"), _location())
    return done(f"/doors/{door_id}/edit", "made")


@viewers.get("/doors/<int:door_id>", manual="doors#passages")
def show_door(door_id: int) -> str:
    shown = _door_now(door_id)
    return render_template(
        "doors/door.html", antennas=doors.antennas_of(organization_id(), door_id), sides=Side, **shown
    )


def _form(errors: Errors, door_id: int) -> str:
    """Return the form of a door with what was entered, or else with the saved values."""
    door = doors.find_door(organization_id(), door_id)
    is_entered = "name" in request.form
    return render_template(
        "doors/edit-door.html",
        door=door,
        values=request.form if is_entered else {"name": door.name, "location_id": door.location_id or ""},
        errors=errors,
        rows=_entered_rows() if is_entered else _saved_rows(door),
        sides=Side,
        epcis=places.find(door.organization_id, "door", door.id),
        steps=places.STEPS,
        dispositions=places.DISPOSITIONS,
        **_choices(),
    )


@administrators.form("/doors/<int:door_id>/edit", _form, "doors#set-up-a-door")
def edit_door(door_id: int) -> Answer:
    antennas = _entered_antennas()
    steps = (
        partial(doors.change_door, actor(), door_id, text(request.form, "name"), _location()),
        partial(doors.set_antennas, actor(), door_id, antennas),
    )
    all_or_none(steps)
    return done(f"/doors/{door_id}", "changed")


add_action(administrators, "/doors/<int:door_id>/remove", doors.remove_door, "/doors", "door-removed")


@viewers.get("/passages/<int:no>", manual="doors#passages")
def show_passage(no: int) -> str:
    """Show why a passage was detected: the reads behind it."""
    passage, reads = passage_report.find_passage(organization_id(), no)
    return render_template("doors/passage.html", passage=passage, reads=reads, sides=Side, directions=DIRECTIONS)


def _doors_now() -> dict[str, Any]:
    return {
        "doors": doors.list_doors(organization_id()),
        "totals": passage_report.totals(organization_id(), clock.midnight(services().zone)),
        "nothing": NOTHING,
    }


add_fragment(viewers, "/doors/now", "doors/_doors.html", _doors_now, "doors", "totals")


def _door_now(door_id: int) -> dict[str, Any]:
    door = doors.find_door(organization_id(), door_id)
    before = request.args.get("before", type=whole)
    rows = passage_report.passages_of_door(door.organization_id, door.id, SHOWN + 1, before=before)
    today = passage_report.totals(door.organization_id, clock.midnight(services().zone)).get(door.id, NOTHING)
    return {
        "door": door,
        "today": today,
        "passages": rows[:SHOWN],
        "more": rows[SHOWN - 1].no if len(rows) > SHOWN else None,
        "before": before,
        "directions": DIRECTIONS,
        "Direction": Direction,
        "expected": expected_lists.states_at_door(door.organization_id, door.id),
    }


add_fragment(viewers, "/doors/<int:door_id>/now", "doors/_door.html", _door_now, "today", "passages", "expected")


def _choices() -> dict[str, Any]:
    return {
        "locations": location_board.choices(organization_id()),
        "readers": [(row.id, row.name) for row in readers.list_readers(organization_id())],
    }


def _saved_rows(door: Door) -> dict[Side, list[tuple[str, str]]]:
    """Return (reader, port) of each side as entered, with some empty rows."""
    rows: dict[Side, list[tuple[str, str]]] = {side: [] for side in Side}
    for one in doors.antennas_of(door.organization_id, door.id):
        rows[one.side].append((str(one.reader_id), one.antenna))
    return {side: entered + [("", "")] * MORE_ROWS for side, entered in rows.items()}


def _entered_rows() -> dict[Side, list[tuple[str, str]]]:
    form = request.form
    return {
        side: list(
            zip_longest(
                form.getlist(f"{side.name.lower()}_reader"), form.getlist(f"{side.name.lower()}_port"), fillvalue=""
            )
        )
        for side in Side
    }


def _entered_antennas() -> list[DoorAntenna]:
    antennas = []
    for side, rows in _entered_rows().items():
        for reader, port in rows:
            if not reader.strip():
                continue
            try:
                reader_id = readers.get_reader(organization_id(), whole(reader)).id
            except (ValueError, EdgeError) as error:
                raise Invalid.one("antennas", "fk_not_found", N_("A reader does not exist")) from error
            antennas.append(DoorAntenna(side, reader_id, port_from(reader_id, port.strip()) if port.strip() else None))
    return antennas


def _location() -> int | None:
    return request.form.get("location_id", 0, type=whole) or None
