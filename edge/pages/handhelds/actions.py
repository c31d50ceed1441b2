"""Actions that a handheld sends other than scans: start or end of a stock-take, lost assets, emptied carriers.

They are queued with the scans, so they arrive in order, possibly hours later.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from flask import request

from edge import clock
from edge.audit.actors import Actor
from edge.errors import Conflict, Invalid, NotFound
from edge.expected_lists import expected_lists
from edge.handhelds import device_reports, stock_takes
from edge.handhelds.scans import Answer, Result
from edge.pages.forms import is_id, json_object, multiline, typable
from edge.pages.guard import current_session
from edge.readers import sleds
from edge.records import asset_notes
from edge.texts import N_
from edge.tracking import carriers, lost_assets
from edge.validation.values import MAX_NAME, MAX_TEXT


def handle(sender: Actor, item_id: str, item: dict[str, Any], at: int, received_at: int) -> Answer | None:
    """Perform an action. None if the item is a scan. `at` is the corrected time of the device."""
    try:
        match item.get("act"):
            case "begin":
                done = _begin(sender, item_id, item, at)
            case "note":
                done = _add_note(sender, item_id, item, at)
            case "location":
                done = _choose_location(sender, item, at, received_at)
            case "start_list":
                done = _start_list(sender, item.get("list"), at)
            case "finish":
                done = stock_takes.finish(sender, str(item.get("stock_take")), received_at, _signed(item.get("lines")))
            case "cancel":
                done = stock_takes.cancel(sender, str(item.get("stock_take")), received_at)
            case "set_aside":
                done = True  # the report in the same request contains the rest
            case "lost" | "found":
                asset_id = item.get("asset")
                done = is_id(asset_id) and lost_assets.mark_lost(sender, asset_id, at, is_lost=item["act"] == "lost")
            case "unload_all":
                carrier_id = item.get("asset")
                done = is_id(carrier_id) and carriers.unload_all(sender.organization_id, carrier_id, at)
            case _:
                return None
    except (Conflict, Invalid) as error:
        return Answer(item_id, Result.REFUSED, str(error))
    return Answer(item_id, Result.DONE) if done else Answer(item_id, Result.REFUSED, N_("This is no longer possible"))


def _add_note(sender: Actor, item_id: str, item: dict[str, Any], at: int) -> bool:
    asset_id, text = item.get("asset"), item.get("text")
    if not is_id(asset_id) or not isinstance(text, str):
        return False
    try:
        asset_notes.add(sender, item_id, asset_id, multiline(text), at)
    except NotFound as error:
        raise Conflict(N_("This asset is retired")) from error
    return True


def _choose_location(sender: Actor, item: dict[str, Any], at: int, received_at: int) -> bool:
    """Store a choice of a location, for the sled of the sender. No location ends the choice before."""
    choice, location = item.get("choice"), item.get("location")
    if not is_device_id(choice) or not (location is None or is_id(location)):
        return False
    sleds.choose_location(sender, choice, location, at, received_at)
    return True


def _start_list(sender: Actor, list_id: Any, at: int) -> bool:
    """Start an expected list. A repeated act, or one of another handheld, finds it started."""
    if not is_id(list_id):
        return False
    try:
        if expected_lists.find_list(sender.organization_id, list_id).started_at is None:
            expected_lists.start(sender, list_id, at)
    except NotFound:
        return False
    except Conflict as error:
        raise Conflict(N_("Another list is open at this place. Sign it off first")) from error
    return True


def _signed(lines: Any) -> stock_takes.SignedResult | None:
    """Parse the lines of a sign-off, without invalid ones. None if the device sent none."""
    if not isinstance(lines, dict):
        return None
    groups = {name: group for name, group in lines.items() if isinstance(group, list)}
    assets = {
        name: [
            (one[0], one[1])
            for one in groups.get(name, [])[: stock_takes.MAX_SCANS]
            if isinstance(one, list) and len(one) == 2 and is_id(one[0]) and one[1] in _HOW
        ]
        for name in ("missing", "elsewhere", "here")
    }
    codes = [code for code in groups.get("unknown", []) if isinstance(code, str)][: stock_takes.MAX_SCANS]
    devices = [_other_device(one) for one in groups.get("devices", [])[: device_reports.MAX_DEVICES]]
    return stock_takes.SignedResult(
        assets, [typable(code)[:MAX_TEXT] for code in codes], [one for one in devices if one is not None]
    )


def _other_device(one: Any) -> stock_takes.OtherDevice | None:
    """Parse the report on another device in a sign-off, with times in milliseconds. None if it is invalid."""
    if not isinstance(one, list) or len(one) != 4 or not isinstance(one[0], str):
        return None
    name, unsent, since, reported_at = one
    at = _moment(reported_at)
    if at is None or not _is_count(unsent):
        return None
    return stock_takes.OtherDevice(typable(name)[:MAX_NAME], unsent, _moment(since), at)


def report(organization_id: int, name: str, body: dict[str, Any], answers: Sequence[Answer], at: int) -> None:
    """Store the report on unsent scans and undos of a device, minus those received in the same request."""
    device, holds = body.get("device"), body.get("holds")
    if not is_device_id(device) or not isinstance(holds, list):
        return
    received = [
        item
        for item, answer in zip(body["items"] if answers else [], answers, strict=True)
        if isinstance(item, dict) and ("code" in item or "undo" in item) and answer.result not in _STILL_HELD
    ]
    for kind in device_reports.KINDS:
        counts = Counter(item[kind] for item in received if _IS_ID[kind](item.get(kind)))
        reports = filter(None, (_holding(kind, one, counts) for one in holds[:_MOST_HOLDINGS]))
        device_reports.record(organization_id, kind, device, name, list(reports), at)


def _holding(kind: str, one: Any, received: Mapping[Any, int]) -> device_reports.Report | None:
    """Parse the report on one stock-take or list. None if it is invalid, or of the other kind."""
    if not isinstance(one, dict) or not _is_count(one.get("unsent")) or not _IS_ID[kind](one.get(kind)):
        return None
    unsent = max(0, one["unsent"] - received.get(one[kind], 0))
    since = _moment(one.get("since")) if unsent else None
    return device_reports.Report(one[kind], one.get("is_open") is True, unsent, since)


def exchange(kind: str, signed_id: str | int, *, is_open: bool) -> dict[str, Any]:
    """Return what a device may know of the others that work on the same stock-take or list.

    A device that `asks` wants to sign off. The others learn that they are asked to stop, and then report that it is not
    open there.
    """
    body, now = json_object() if request.method == "POST" else {}, clock.now()
    for one in [one for one, (_, at) in list(_asking.items()) if at < now - _ASKS_FOR]:
        _asking.pop(one, None)
    device = body.get("device")
    if body.get("asks") is True and is_open and is_device_id(device) and len(_asking) < _MOST_ASKING:
        _asking[kind, signed_id] = (device, now)
    asking = _asking.get((kind, signed_id))
    devices = [_device_json(one) for one in device_reports.devices_of(kind, signed_id)]
    return {"is_asked": asking is not None and asking[0] != device, "devices": devices}


def _device_json(one: device_reports.Device) -> list[Any]:
    since = one.unsent_since and one.unsent_since // 1000
    return [one.id, one.name, bool(one.is_open), one.unsent, since, one.reported_at // 1000]


def report_alone() -> None:
    """Store the report in a POST that contains no scans."""
    session = current_session()
    body = json_object() if request.method == "POST" else {}
    report(session.organization_id, session.device_name or session.name, body, [], clock.now())


def is_device_id(value: Any) -> TypeGuard[str]:
    """True for an id that a device gave to itself, to a stock-take or to a choice."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= stock_takes.MAX_SCANS


def _moment(value: Any) -> int | None:
    return int(value * 1000) if type(value) in (int, float) and 0 < value < 1e14 else None


_IS_ID: dict[str, Callable[[Any], bool]] = {"stock_take": is_device_id, "list": is_id}
_MOST_ASKING = 1_000
_ASKS_FOR = 15 * clock.SECOND
# By what is signed off: the device that does it, and when it last asked others to stop.
_asking: dict[tuple[str, str | int], tuple[str, int]] = {}
_ID = re.compile(r"[A-Za-z0-9-]{8,64}")
_MOST_HOLDINGS = 20
_STILL_HELD = (Result.UNCLEAR, Result.RETIRED, Result.WHOSE)  # the device keeps them until a person decides


_HOW = ("", "scan", "reader", "person")


def _begin(sender: Actor, item_id: str, item: dict[str, Any], at: int) -> bool:
    location, expected = item.get("location"), item.get("expected")
    if not is_id(location) or not isinstance(expected, list):
        return False
    return stock_takes.begin(
        sender,
        item_id,
        location,
        with_sublocations=item.get("with_sublocations") is True,
        expected=[asset for asset in expected if is_id(asset)],
        started_at=at,
    )
