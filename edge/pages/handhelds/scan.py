"""The scan page and the endpoints of its scripts. Handhelds keep everything until the server has acknowledged it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from flask import Response, abort, g, jsonify, render_template, request

from edge import clock
from edge.audit.actors import Actor, on_behalf_of
from edge.database.sliced_writing import write_in_slices
from edge.errors import EdgeError, HistoryUnavailable
from edge.handhelds import device_copy, scans, stock_takes
from edge.handhelds.scans import Answer, Result, Submitted
from edge.memory_budget import WORK
from edge.pages import cookies, record_links
from edge.pages.forms import is_id, json_object, search_text, typable
from edge.pages.guard import actor, current_session, device, editors, has_role, operators, organization_id, public
from edge.pages.handhelds import actions, scanned_badges
from edge.pages.polling import version_of
from edge.pages.rules import alerts
from edge.pages.security_headers import policy
from edge.pages.static_files import compressed, static_files
from edge.pages.translation import gettext
from edge.people import devices, people
from edge.people.people import Role
from edge.people.sessions import person_at
from edge.readers import sled_scans, sleds
from edge.records import gs1, lookup
from edge.services import services
from edge.texts import N_
from edge.tracking import board, carriers, location_board, report, shown_positions
from edge.validation import json_text
from edge.validation.values import MAX_NAME

MAX_BATCH = 100
MAX_UNDONE = 500  # scans that one item undoes
LONGEST_DELAY = 60 * clock.SECOND  # usual delay of a request, at most
SERVICE_WORKER = "handhelds/sw.js"
# Contains characters that other keyboard layouts and scanner settings change.
TEST_CODE = "EDGE-TEST:azqwymAZQWYM/0123456789?_=&%+#(;)"
SCAN_ID = re.compile(r"[A-Za-z0-9-]{8,64}")


@operators.get("/scan", manual="scanning#first-scan")
def scan_page() -> Response:
    """Return the page, which differs by language only: devices cache it for offline use."""
    page = render_template("handhelds/scan.html", test_code=TEST_CODE)
    response = compressed(page.encode(), "text/html")
    files = static_files()
    response.headers["Content-Security-Policy"] = policy(
        script_src="'self' 'wasm-unsafe-eval'"
    )  # needed by the code reader
    response.headers["Edge-Version"] = files.version  # the service worker caches the page with files of this version
    return _with_who_cookie(response)


def _with_who_cookie(response: Response) -> Response:
    session = current_session()
    cookies.write_who(response, session.ref, session.person_id, session.organization_id)
    return response


@public.get("/scan/left", manual="scanning#work-without-a-connection")
def left_scans() -> str:
    """Show the page that takes over the scans in the storage of the page without HTTPS; see its script."""
    return render_template("handhelds/left.html")


@operators.get("/scan/test-code", manual="scanning#hardware-scanners")
def scan_test_code() -> str:
    """Show a code to scan, from which the device learns the prefix, suffix and keyboard layout of its scanner."""
    return render_template("handhelds/test-code.html", code=record_links.qr(TEST_CODE), text=TEST_CODE)


@public.get("/sw.js")
def service_worker() -> Response:
    files = static_files()
    cached = ("handhelds/", "app.css", "times.js", "icon")
    urls = [files.url(name) for name in files.names() if name.startswith(cached) and name != SERVICE_WORKER]
    constants = f"const VERSION = {files.version!r};\nconst FILES = {urls!r};\n"
    response = Response(constants + files.text(SERVICE_WORKER), mimetype="text/javascript")
    response.headers["Cache-Control"] = "no-cache"
    return response


@operators.get("/scan/state")
def scan_state() -> Response:
    """Return the session, the person's permissions, the CSRF token, the time and the version of the scripts."""
    here = device()
    if here is not None:
        devices.record_seen(here.id)
    response = jsonify(
        csrf=g.csrf,
        person=current_session().person_id,
        name=current_session().name,
        organization=organization_id(),
        may_edit=has_role(Role.EDITOR),
        device=here.name if here else None,
        now=clock.now() // 1000,
        badges=scanned_badges.marks(),
        sled=bool(_own_sleds()),
        version=static_files().version,
    )
    return _with_who_cookie(response)


@operators.get("/scan/locations")
def scan_locations() -> Response:
    """Return all locations with the codes of their labels, for offline use."""
    rows = location_board.with_codes(organization_id())
    content = json_text.encode([[*row[:5], *row.codes] for row in rows])
    version = version_of(content)
    is_known = request.if_none_match.contains(version)
    response = Response(status=304) if is_known else Response(content, mimetype="application/json")
    response.set_etag(version)
    response.headers["Cache-Control"] = "private, no-cache"
    return response


@operators.get("/scan/alerts")
def scan_alerts() -> Response:
    """Return the newest open alerts of rules with their time (ms), and the number of all."""
    shown = alerts.open_alerts()
    newest = [[sentence, alert.occurred_at // 1000] for alert, sentence in shown.newest]
    return jsonify(total=shown.total, newest=newest)


@operators.post("/scan/assets")
def scan_assets() -> Response:
    """Return the outdated buckets of the device's copy of all assets. The device sends the digests of its buckets."""
    digests = json_object().get("digests")
    if not isinstance(digests, str):
        abort(400, "digests: the device's own, one after the other")
    with WORK.holding(device_copy.MEMORY):
        buckets = device_copy.changed_buckets(organization_id(), digests)
        content = json_text.encode([[no, bucket.digest, bucket.rows] for no, bucket in buckets])
        return compressed(content, "application/json")


@operators.post("/scan/batch")
def scan_batch() -> Response:
    """Process scans and undos in order. Repeated items get their first answer.

    `choice` identifies the selection of a location on the device. If one of the scans turns out to be the label of
    another location, later scans with the same choice are not recorded, and the device asks for their location. Tags
    of a sweep never end a choice.
    """
    body = json_object()
    items = body.get("items")
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_BATCH:
        abort(400, f"1 to {MAX_BATCH} items")
    if sum(len(item["undone"]) for item in items if _is_undo_of_sweep(item)) > MAX_UNDONE:  # before they are built
        abort(400, f"at most {MAX_UNDONE} scans of sweeps to undo")
    items = [one for item in items for one in _undos(item)]
    received_at = clock.now()
    correction = _correction(body.get("sent_at"), received_at)
    ended: set[str] = set()  # choices ended by the label of another location
    answers: list[Answer] = []

    def handle_each() -> Iterator[None]:
        for item in items:
            answers.append(_handle(item, correction, received_at, ended))
            yield

    write_in_slices(handle_each())  # others can write in between
    session = current_session()
    sent = body | {"items": items}
    actions.report(session.organization_id, session.device_name or session.name, sent, answers, received_at)
    return jsonify(results=[_answer_json(answer) for answer in answers], csrf=g.csrf, now=received_at // 1000)


@operators.get("/scan/find")
def scan_find() -> Response:
    """Return the record with this code, else the matches of a search."""
    text = search_text(request.args.get("q", ""))
    if not text:
        return jsonify(assets=[])
    exact = lookup.by_code(organization_id(), text)
    if exact and exact.kind == "asset":
        row = board.whereabouts(organization_id(), exact.id)
        return jsonify(assets=[_asset(row, with_moves=True)] if row else [])
    if exact:
        return jsonify(location={"id": exact.id, "name": exact.name}, assets=[])
    page = board.board(organization_id(), board.BoardFilter(q=text), limit=20)
    return jsonify(assets=[_asset(row, with_moves=len(page.rows) == 1) for row in page.rows], total=page.total_count)


@operators.get("/scan/near/<int:asset_id>")
def scan_near(asset_id: int) -> Response:
    """Return the signal of an asset at the person's own sled (dBm, null if unknown) with its time (ms), or {}."""
    if lookup.asset_by_id(organization_id(), asset_id) is None:
        abort(404)
    near = None if shown_positions.is_hidden(asset_id) else sled_scans.nearness(_own_sleds(), asset_id)
    return jsonify({"rssi": near.rssi, "at": near.observed_at // 1000} if near else {})


def _own_sleds() -> list[int]:
    session = current_session()
    return sleds.sleds_of(session.organization_id, session.person_id, session.device_id)


@editors.post("/scan/attach")
def scan_attach() -> tuple[Response, int] | Response:
    """Attach an unknown code to an existing or new asset, and record the waiting scan."""
    body = json_object()
    scan_id, asset_id, name = str(body.get("id")), body.get("asset"), body.get("name")
    try:
        if SCAN_ID.fullmatch(scan_id) and isinstance(name, str):
            answer = scans.attach_to_new_asset(actor(), scan_id, _asset_name(name.strip()))
        elif SCAN_ID.fullmatch(scan_id) and is_id(asset_id):
            answer = scans.attach(actor(), scan_id, asset_id)
        else:
            abort(400, "id, and asset or name")
    except EdgeError as error:
        return jsonify(error=gettext(str(error) or N_("Not possible"))), 409
    return jsonify(result=_answer_json(answer))


def _asset_name(name: str) -> str:
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        abort(400, gettext("A name must have 1 to 255 characters"))
    return name


def _is_undo_of_sweep(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("undone"), list)


def _undos(item: Any) -> list[Any]:
    """Return an undo for each scan of a sweep that the item undoes; any other item unchanged.

    `undone`: numbers of the scans. The ids of scans and undos follow from the id of the sweep.
    """
    if not _is_undo_of_sweep(item) or not SCAN_ID.fullmatch(str(item.get("sweep"))):
        return [item]
    sweep, numbers = item["sweep"], item["undone"]
    rest = {name: item[name] for name in ("at", "session", "stock_take") if name in item}
    return [rest | {"id": f"{sweep}-u{no}", "undo": f"{sweep}-s{no}"} for no in numbers if type(no) is int and no >= 0]


def _handle(item: Any, correction: int, received_at: int, ended: set[str]) -> Answer:
    """Process one item. An invalid item is refused without affecting the next ones."""
    if not isinstance(item, dict) or not SCAN_ID.fullmatch(str(item.get("id"))):
        return Answer(str(item.get("id")) if isinstance(item, dict) else "", Result.REFUSED, N_("This scan has no id"))
    at, scan_id = item.get("at"), str(item["id"])
    moment = observed(at, correction, received_at) if isinstance(at, int | float) else received_at
    sender = sender_of(item.get("session"), moment)
    if sender is None:
        return Answer(scan_id, Result.WHOSE)
    act = actions.handle(sender, scan_id, item, moment, received_at)
    if act is not None:
        return act
    if SCAN_ID.fullmatch(str(item.get("undo"))):
        stock_takes.undo_scan(sender, str(item["undo"]))
        gap = services().config.sighting_gap
        return scans.undo(sender, str(item["undo"]), gap)._replace(id=scan_id)
    choice = str(item.get("choice", ""))
    if choice in ended:
        return Answer(scan_id, Result.UNCLEAR, N_("Scanned after the label of another location"))
    scan = _submitted(scan_id, item, moment)
    if scan is None:
        return Answer(scan_id, Result.REFUSED, N_("This scan is incomplete"))
    if scanned_badges.owner_of(sender.organization_id, scan.code) is not None:
        return Answer(scan_id, Result.BADGE if scanned_badges.may_answer() else Result.UNKNOWN)
    if SCAN_ID.fullmatch(str(item.get("stock_take"))):
        answer = stock_takes.scan(sender, str(item["stock_take"]), scan, received_at)
    else:
        answer = scans.submit(sender, [scan], received_at)[0]
    if answer.result is Result.LOCATION and "sweep" not in item:  # a sweep also reads the tags of racks
        ended.add(choice)
    return answer


def _submitted(scan_id: str, item: dict[str, Any], moment: int) -> Submitted | None:
    """Parse a scan. None if a field is missing."""
    code, location = item.get("code"), item.get("location")
    if not isinstance(code, str) or not is_id(location) or not isinstance(item.get("at"), int | float):
        return None
    asset, onto = item.get("asset"), item.get("onto")
    return Submitted(
        scan_id,
        typable(gs1.printable(code)),
        location,
        moment,
        sent_by=current_session().person_id,
        asset_id=asset if is_id(asset) else None,
        onto=onto if is_id(onto) else None,
        is_off=item.get("off") is True,
    )


def sender_of(ref: Any, at: int) -> Actor | None:
    """Return the person who did something, or None if that is not proven.

    A shared device also sends scans from earlier sessions. An item without a session belongs to the current one.
    """
    session = current_session()
    if ref is None or ref == session.ref:
        return actor()
    if session.device_id is None or not isinstance(ref, str):
        return None
    person_id = person_at(session.device_id, ref, at)
    earlier = people.find_person(session.organization_id, person_id) if person_id is not None else None
    return on_behalf_of(actor(), earlier.id, earlier.name) if earlier else None


def _correction(sent_at: Any, received_at: int) -> int:
    """Return the clock correction for a client that does not synchronize its clock, unlike the scan page.

    Offsets within the usual delay of requests are ignored.
    """
    if not isinstance(sent_at, int | float) or not 0 < sent_at < 1e14:
        return 0
    offset = received_at - int(sent_at * 1000)
    return offset if abs(offset) > LONGEST_DELAY else 0


def observed(at: float, correction: int, received_at: int) -> int:
    moment = int(at * 1000) + correction if 0 < at < 1e14 else received_at
    return min(moment, received_at) if moment >= clock.EARLIEST else received_at


def _answer_json(answer: Answer) -> dict[str, Any]:
    result: dict[str, Any] = {"id": answer.id, "result": answer.result.value}
    if answer.reason:
        result["reason"] = gettext(answer.reason)
    if answer.record:
        result[answer.record.kind] = {
            "id": answer.record.id,
            "key": answer.record.external_key,
            "name": answer.record.name,
        }
    if answer.was:
        seen_at = answer.was.location_id and answer.was.last_seen_at
        result["was"] = {"name": answer.was.location_name, "seen_at": seen_at // 1000} if seen_at else None
    return result


def _asset(row: board.BoardRow, *, with_moves: bool) -> dict[str, Any]:
    moves = []
    if with_moves:
        with suppress(HistoryUnavailable):  # the position is shown without it
            moves = report.moves(organization_id(), row.asset_id, limit=5)
    return {
        "id": row.asset_id,
        "key": row.external_key,
        "name": row.name,
        "location": row.location_name,
        "area": row.area_name,
        "since": row.dwell_started_at and row.dwell_started_at // 1000,
        "seen_at": row.last_seen_at and row.last_seen_at // 1000,
        "carrier": _named(_carrier_of(row.asset_id)),
        "load": [_named(one) for one in _load_of(row.asset_id)],
        "moves": [{"location": move.location_name, "at": move.observed_at // 1000} for move in moves],
    }


def _carrier_of(asset_id: int) -> tuple[int, str] | None:
    is_hidden = shown_positions.is_hidden(asset_id)
    return None if is_hidden else carriers.carrier_of(organization_id(), asset_id)


def _load_of(carrier_id: int) -> list[tuple[int, str]]:
    """Return the load of a carrier, without people at hidden positions."""
    rows = carriers.on(organization_id(), carrier_id)
    return [row for row in rows if not shown_positions.is_hidden(row[0])]


def _named(asset: tuple[int, str] | None) -> dict[str, Any] | None:
    return {"id": asset[0], "name": asset[1]} if asset else None
