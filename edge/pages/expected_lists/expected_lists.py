"""Expected lists: prepare, follow live, sign off, print and download."""

from __future__ import annotations

from typing import Any

from flask import Response, render_template, request

from edge.doors import doors
from edge.doors.passage_rule import Direction
from edge.errors import Invalid, Unavailable
from edge.expected_lists import expected_lists
from edge.expected_lists.expected_lists import MOST_ITEMS, State
from edge.fair_turns import FairTurns
from edge.handhelds import device_reports
from edge.memory_budget import RETRY_SECONDS, WORK
from edge.pages.actions import add_action, add_fragment
from edge.pages.csv_download import table_file, times
from edge.pages.double_submit import once
from edge.pages.forms import Errors, text, whole
from edge.pages.guard import Answer, actor, editors, operators, organization_id, viewers
from edge.pages.notices import done
from edge.pages.records.csv_import import SEPARATORS, entered_layout
from edge.pages.translation import colon, gettext, named
from edge.texts import N_, fill
from edge.tracking import location_board
from edge.validation import xlsx
from edge.validation.encodings import ENCODINGS
from edge.validation.packed_texts import unpack
from edge.validation.table_files import memory_of, read
from edge.validation.tables import names_of

SHOWN = 100  # signed lists on a page
MOST_LINES = 500  # of one result on the live page; the report and the CSV file have all
MAX_FILE = 1024 * 1024
WAIT_SECONDS = 5.0  # for the files of others
_turns = FairTurns(2)  # to read a file, since an Excel file can take some seconds
COLUMNS = ("external_key", "tag")
TITLES = {"missing": N_("Missing"), "wrong": N_("Wrong"), "surplus": N_("Surplus"), "ticked": N_("Ticked off")}
HOW = {"door": N_("at the door"), "scan": N_("scanned"), "carrier": N_("on its carrier"), "": ""}


@viewers.get("/expected-lists", manual="expected-lists#prepare")
def show_expected_lists() -> str:
    before = request.args.get("before", type=whole)
    signed = expected_lists.signed_lists(organization_id(), SHOWN + 1, before)
    return render_template(
        "expected_lists/expected-lists.html",
        open_lists=[] if before else expected_lists.open_lists(organization_id()),
        signed=signed[:SHOWN],
        more=signed[SHOWN - 1].signed_at if len(signed) > SHOWN else None,
        before=before,
        Direction=Direction,
    )


def _form(errors: Errors) -> str:
    return render_template(
        "expected_lists/new-expected-list.html",
        values=request.form,
        errors=errors,
        doors=[door for door in doors.list_doors(organization_id()) if door.site is None],
        locations=location_board.choices(organization_id()),
        Direction=Direction,
        most=MOST_ITEMS,
        has_xlsx=xlsx.is_available(),
        encodings=[("", gettext("Recognize it")), *named(ENCODINGS)],
        separators=[("", gettext("Recognize it")), *named(SEPARATORS)],
    )


@editors.form("/expected-lists/new", _form, "expected-lists#prepare", max_body=MAX_FILE)
@once
def new_expected_list() -> Answer:
    place, with_contents = _place(request.form.get("place", "")), "with_contents" in request.form
    codes, file_lines = request.form.get("codes", "").splitlines(), _codes_of_file()
    list_id = expected_lists.create(
        actor(),
        text(request.form, "name"),
        [*codes, *file_lines],
        **place,
        with_contents=with_contents,
        file_lines=file_lines,
    )
    return done(f"/expected-lists/{list_id}", "made")


def _page(errors: Errors, list_id: int) -> str:
    return render_template("expected_lists/expected-list.html", **_labels(list_id), errors=errors)


@viewers.get("/expected-lists/<int:list_id>", manual="expected-lists#tick-off")
def show_expected_list(list_id: int) -> str:
    return _page({}, list_id)


@viewers.get("/expected-lists/<int:list_id>.csv")
def expected_list_csv(list_id: int) -> Response:
    rows = (
        (line.result, line.asset_key, line.name, line.how, *times(line.seen_at), line.other)
        for line in _state(list_id).lines
    )
    heading = ("result", "external_key", "name", "how", "time", "expected_on")
    return table_file(f"expected-list-{list_id}.csv", heading, rows)


_START = "/expected-lists/<int:list_id>/start"
add_action(operators, _START, expected_lists.start, "/expected-lists/{list_id}", "list-started", _page)


def _sign_off_page(errors: Errors, list_id: int) -> str:
    labels = _labels(list_id, is_whole=True)
    return render_template("expected_lists/sign-off.html", **labels, errors=errors)


@operators.form("/expected-lists/<int:list_id>/sign-off", _sign_off_page, "expected-lists#sign-off")
def sign_off_expected_list(list_id: int) -> Answer:
    """Sign off the result on the screen, or show the new one if it has changed."""
    expected_lists.sign_off(actor(), list_id, request.form.get("version", ""))
    return done(f"/expected-lists/{list_id}", "list-signed")


add_action(editors, "/expected-lists/<int:list_id>/remove", expected_lists.remove, "/expected-lists", "list-removed")


def _state(list_id: int) -> State:
    return expected_lists.find_state(organization_id(), list_id)


def _labels(list_id: int, *, is_whole: bool = False) -> dict[str, Any]:
    state = _state(list_id)
    is_whole = is_whole or state.one.signed_at is not None  # a signed list is the printed report
    shown = len(state.lines) if is_whole else MOST_LINES
    devices = [
        one._replace(unsent_since=one.unsent_since or one.reported_at) if one.is_open else one
        for one in (device_reports.devices_of("list", state.one.id) if is_whole else [])
    ]
    labels = {"one": state.one, "titles": TITLES, "how": HOW, "most": shown, "Direction": Direction}
    return {"state": state, "devices": devices, **labels}


_NOW = "/expected-lists/<int:list_id>/now"
add_fragment(viewers, _NOW, "expected_lists/_expected-list.html", _labels, "state")


def _place(chosen: str) -> dict[str, Any]:
    """Parse the choice of a place, such as `door-7-2` (out through door 7) or `location-7`."""
    kind, _, rest = chosen.partition("-")
    number, _, direction = rest.partition("-")
    try:
        if kind == "door":
            return {"door_id": whole(number), "direction": Direction(whole(direction))}
        if kind == "location":
            return {"location_id": whole(number)}
    except ValueError:
        pass
    raise Invalid.one("place", "invalid_value", N_("Choose a door or a location"))


def _codes_of_file() -> dict[str, int]:
    """Return the codes of the uploaded file, if there is one, with their lines."""
    file = request.files.get("file")
    if not file or not file.filename:
        return {}
    data, codes = file.read(), dict[str, int]()
    with _turns.turn(organization_id(), WAIT_SECONDS) as has_turn:
        if not has_turn:
            raise Unavailable(N_("The server is busy; try again in a few seconds"), RETRY_SECONDS)
        with WORK.holding(memory_of(data), f"organization {organization_id()}"):
            table = read(data, entered_layout(), COLUMNS, MOST_ITEMS)
    if not table.is_certain:
        words = "; ".join(gettext(ENCODINGS[name]) + colon() + sample for name, sample in table.samples.items())
        message = fill(N_("Choose the encoding by its letters, and the file again. %(words)s"), words=words)
        raise Invalid.one("encoding", "required", message)
    known = [name if name.lower() in COLUMNS else "" for name in table.heading]  # a delivery note has more columns
    names = names_of(known, COLUMNS, () if any(known) else COLUMNS[:1])
    for line in (row.line(names) for row in table.rows):
        if line.fault:
            raise Invalid.one("file", "invalid_value", unpack(line.fault))
        codes.setdefault((line.cells.get("external_key") or line.cells.get("tag", "")).strip(), line.number)
    return codes
