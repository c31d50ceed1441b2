"""`GET /epcis/events`: stays, passages and carriers as GS1 EPCIS 2.0 events, with the filters of the standard.

It is not part of the public v1 API or its document; the manual describes it.
"""

from __future__ import annotations

import base64
import hashlib
from urllib.parse import urlencode

from flask import Blueprint, Flask, Response, request

from edge import clock
from edge.api import bearer, envelope
from edge.api.envelope import ApiError
from edge.database.connection import domain_error
from edge.epcis import query
from edge.epcis.documents import VERSIONS, query_document
from edge.epcis.names import Names
from edge.epcis.query import Place, Query
from edge.memory_budget import MB, WORK
from edge.people.tokens import Principal
from edge.services import services
from edge.validation import json_text, times

blueprint = Blueprint("epcis", __name__)

SCOPE = "tracking:read"
PER_PAGE = 30
MOST_PER_PAGE = 1_000
MOST_VALUES = 100  # of one filter
_MEMORY = 12 * MB
_TIMES = ("GE_eventTime", "LT_eventTime", "GE_recordTime", "LT_recordTime")
_LISTS = (
    *("eventType", "EQ_action", "EQ_bizStep", "EQ_disposition", "EQ_readPoint", "EQ_bizLocation"),
    *("MATCH_epc", "MATCH_anyEPC", "MATCH_parentID", "EQ_eventID"),
)
_PARAMETERS = {*_TIMES, *_LISTS, "EXISTS_errorDeclaration", "perPage", "nextPageToken"}
_FORMATS = ("No_Preference", "Always_GS1_Digital_Link", "Always_EPC_URN", "Never_Translates")
_EXCEPTIONS = {
    400: "QueryParameterException",
    401: "SecurityException",
    403: "SecurityException",
    404: "NoSuchResourceException",
    406: "NotAcceptableException",
    413: "QueryTooLargeException",
    429: "QueryTooComplexException",
}


def register(app: Flask) -> None:
    app.register_blueprint(blueprint)


@blueprint.get("/epcis/events")
def events() -> Response:
    """Return the next events that match the filters."""
    return bearer.answer(SCOPE, _events)


@blueprint.errorhandler(Exception)
def _refuse(error: Exception) -> Response:
    """Answer with a problem document (RFC 9457), as the standard requires."""
    response = envelope.error_response(domain_error(error))
    shown = json_text.decode(response.get_data())["error"]
    name = _EXCEPTIONS.get(response.status_code, "ImplementationException")
    problem = {
        "type": f"epcisException:{name}",
        "title": shown["title"],
        "status": response.status_code,
        "detail": shown["detail"],
    }
    response.set_data(json_text.encode(problem))
    response.headers.update({"Content-Type": "application/problem+json", "Cache-Control": "no-store", **VERSIONS})
    return response


def _events(principal: Principal) -> Response:
    bearer.check_names(_PARAMETERS)
    with WORK.holding(_MEMORY):
        names = Names(principal.organization_id, _base(), as_urn=_format() == "Always_EPC_URN")
        chosen, filters = _query(names), _filters()
        events, place = query.page(
            principal.organization_id, chosen, names, services().zone, _place(filters), _per_page()
        )
        response = Response(json_text.encode(query_document(events, clock.now())), content_type=_content_type())
    response.headers.update({"Cache-Control": "no-store", "GS1-EPC-Format": _format(), **VERSIONS})
    response.vary.update(("Accept", "GS1-EPC-Format"))
    if place is not None:
        more = urlencode({**filters, "perPage": _per_page(), "nextPageToken": _token(filters, place)})
        response.headers["Link"] = f'<{_base()}/epcis/events?{more}>; rel="next"'
    return response


def _base() -> str:
    return (services().config.http_public_url or services().own_address or request.url_root).rstrip("/")


def _content_type() -> str:
    """Return the best type for the client. Raises ApiError."""
    best = request.accept_mimetypes.best_match(("application/json", "application/ld+json"))
    if best is None and request.accept_mimetypes:
        raise ApiError("bad_request", "Accept application/json or application/ld+json")
    return best or "application/json"


def _format() -> str:
    chosen = request.headers.get("GS1-EPC-Format", "No_Preference")
    if chosen not in _FORMATS:
        raise ApiError("bad_request", f"GS1-EPC-Format is one of {', '.join(_FORMATS)}")
    return chosen


def _per_page() -> int:
    text = request.args.get("perPage", str(PER_PAGE))
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) >= 1):
        raise ApiError("bad_request", "perPage is a number from 1")
    return min(int(text), MOST_PER_PAGE)


def _filters() -> dict[str, str]:
    return {name: value for name, value in sorted(request.args.items()) if name not in ("perPage", "nextPageToken")}


def _query(names: Names) -> Query:
    values = {name: _values(name) for name in _LISTS}
    moments = {name: _moment(name) for name in _TIMES if name in request.args}
    points, places = values["EQ_readPoint"], values["EQ_bizLocation"]
    epcs, parents, either = (values[name] for name in ("MATCH_epc", "MATCH_parentID", "MATCH_anyEPC"))
    ever = Query()
    return Query(
        types=values["eventType"],
        actions=values["EQ_action"],
        since=moments.get("GE_eventTime", ever.since),
        until=moments.get("LT_eventTime", ever.until),
        recorded_since=moments.get("GE_recordTime", ever.recorded_since),
        recorded_until=moments.get("LT_recordTime", ever.recorded_until),
        steps=_words(values["EQ_bizStep"], ("https://ref.gs1.org/cbv/BizStep-", "urn:epcglobal:cbv:bizstep:")),
        dispositions=_words(values["EQ_disposition"], ("https://ref.gs1.org/cbv/Disp-", "urn:epcglobal:cbv:disp:")),
        event_ids=values["EQ_eventID"],
        has_error=_flag("EXISTS_errorDeclaration"),
        places=None if places is None else names.locations_named(places),
        read_points=None if points is None else names.locations_named(points),
        read_doors=None if points is None else names.doors_named(points),
        assets=None if epcs is None else names.assets_named(epcs),
        parents=None if parents is None else names.assets_named(parents),
        any_assets=None if either is None else names.assets_named(either),
    )


def _words(values: set[str] | None, prefixes: tuple[str, ...]) -> set[str] | None:
    """Return words of the vocabulary without the long forms of their names."""
    if values is None:
        return None
    return {next((one.removeprefix(start) for start in prefixes if one.startswith(start)), one) for one in values}


def _values(name: str) -> set[str] | None:
    """Return the values of a filter, which are divided by |. Raises ApiError."""
    text = request.args.get(name)
    if text is None:
        return None
    values = {value for value in text.split("|") if value}
    if not values or len(values) > MOST_VALUES:
        raise ApiError("bad_request", f"{name} takes 1 to {MOST_VALUES} values, divided by |")
    return values


def _moment(name: str) -> int:
    moment = times.parse(request.args[name])
    if moment is None:
        raise ApiError("bad_request", f"{name} is a time such as 2026-03-02T08:15:30.412Z")
    return moment


def _flag(name: str) -> bool | None:
    text = request.args.get(name)
    if text not in (None, "true", "false"):
        raise ApiError("bad_request", f"{name} is true or false")
    return None if text is None else text == "true"


def _token(filters: dict[str, str], place: Place) -> str:
    text = json_text.encode([_fingerprint(filters), place[0], *place[1]])
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _place(filters: dict[str, str]) -> Place | None:
    """Return the place of the token. Raises ApiError if it is not one for these filters."""
    token = request.args.get("nextPageToken")
    if token is None:
        return None
    wrong = ApiError("bad_request", "nextPageToken is not one of this query; take the address in the Link header")
    try:
        text, *numbers = json_text.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (ValueError, TypeError) as error:
        raise wrong from error
    if text != _fingerprint(filters) or not all(isinstance(one, int) and abs(one) < 1 << 62 for one in numbers):
        raise wrong
    source, *key = numbers or [-1]
    if not query.is_place((source, tuple(key))):
        raise wrong
    return source, tuple(key)


def _fingerprint(filters: dict[str, str]) -> str:
    return hashlib.sha256(json_text.encode(filters)).hexdigest()[:16]
