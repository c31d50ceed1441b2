"""`GET /epcis/events`: stays, passages and carriers as GS1 EPCIS 2.0 events, with the filters of the standard.

It is not part of the public v1 API or its document; the manual describes it.
"""

from __future__ import annotations

import base64
import hashlib
import re
from urllib.parse import urlencode

from flask import Blueprint, Flask, Response, request

from edge import clock
from edge.api import bearer, epcis_filters, epcis_problems
from edge.api.epcis_filters import PAGING, Wish
from edge.api.epcis_problems import Problem
from edge.epcis import query
from edge.epcis.documents import VERSIONS, Event, query_document
from edge.epcis.names import Names
from edge.epcis.query import Place
from edge.memory_budget import MB, WORK
from edge.people.tokens import Principal
from edge.services import services
from edge.validation import json_text

blueprint = Blueprint("epcis", __name__)
blueprint.errorhandler(Exception)(epcis_problems.answer)

SCOPE = "tracking:read"
PER_PAGE = 30
MOST_PER_PAGE = 1_000
TOKENS_STAY = 30 * clock.DAY  # at least: they are places in the history
_MEMORY = 12 * MB
_FORMATS = ("No_Preference", "Always_GS1_Digital_Link", "Always_EPC_URN", "Never_Translates")
_VERSION = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4}){0,3}")
_ALLOW = "GET, HEAD, OPTIONS"


def register(app: Flask) -> None:
    app.register_blueprint(blueprint)


@blueprint.route("/epcis/events", methods=["GET", "OPTIONS"], provide_automatic_options=False)
def events() -> Response:
    """Return the next events that match the filters, or to OPTIONS what is supported."""
    if request.method == "OPTIONS":
        return _discovery()
    return bearer.answer(SCOPE, _events)


def _discovery() -> Response:
    response = Response(status=204)
    limits = {f"{name.removesuffix('Version')}{end}": VERSIONS[name] for name in VERSIONS for end in ("Min", "Max")}
    response.headers.update({"Allow": _ALLOW, "GS1-EPC-Format": "No_Preference", **VERSIONS, **limits})
    return response


def _events(principal: Principal) -> Response:
    for name in request.args:
        if len(request.args.getlist(name)) > 1:
            raise Problem.parameter(f"Send {name[:100]} once; divide values by |")
    _check_versions()
    with WORK.holding(_MEMORY, principal.subject):
        names = Names(principal.organization_id, _base(), as_urn=_format() == "Always_EPC_URN")
        wish, filters = epcis_filters.parse(request.args.to_dict(), names), _filters()
        made, token = _page(principal, wish, filters, names)
        response = Response(json_text.encode(query_document(made, clock.now())), content_type=_content_type())
    response.headers.update({"Cache-Control": "no-store", "GS1-EPC-Format": _format(), **VERSIONS})
    response.vary.update(("Accept", "GS1-EPC-Format"))
    if token is not None:
        more = urlencode({**filters, "perPage": _per_page(), "nextPageToken": token})
        response.headers["Link"] = f'<{_base()}/epcis/events?{more}>; rel="next"'
        response.headers["GS1-Next-Page-Token-Expires"] = clock.rfc3339(clock.now() + TOKENS_STAY)
    return response


def _page(principal: Principal, wish: Wish, filters: dict[str, str], names: Names) -> tuple[list[Event], str | None]:
    """Return the events of the page, and the token of the next one."""
    zone, place = services().zone, _place(filters, is_in_order=wish.order is not None)
    of = principal.organization_id, wish.query
    if wish.most is not None:
        query.check_count(*of, names, zone, wish.most)
    if wish.order is None:
        made, place = query.page(*of, names, zone, place, _per_page())
    else:
        made, place = query.page_in_order(*of, wish.order, names, zone, place, _per_page())
    return made, place and _token(filters, [place[0], *place[1]])


def _base() -> str:
    return (services().config.http_public_url or services().own_address or request.url_root).rstrip("/")


def _check_versions() -> None:
    """Raise Problem if the client cannot take the version of the standard that this box has."""
    for header, version in VERSIONS.items():
        start = header.removesuffix("Version")
        lowest, highest = (_numbers_of(request.headers.get(start + end, version)) for end in ("Min", "Max"))
        if not lowest <= _numbers_of(version) <= highest:
            raise Problem.not_acceptable(f"{header} is {version}")


def _numbers_of(version: str) -> tuple[int, ...]:
    if not _VERSION.fullmatch(version.strip()):
        raise Problem.parameter("A version is numbers with dots, such as 2.0.0")
    numbers = [int(part) for part in version.strip().split(".")]
    return (*numbers, 0, 0, 0)[:4]


def _content_type() -> str:
    """Return the best type for the client. Raises Problem."""
    best = request.accept_mimetypes.best_match(("application/json", "application/ld+json"))
    if best is None and request.accept_mimetypes:
        raise Problem.not_acceptable("Accept application/json or application/ld+json")
    return best or "application/json"


def _format() -> str:
    chosen = request.headers.get("GS1-EPC-Format", "No_Preference")
    if chosen not in _FORMATS:
        raise Problem.not_acceptable(f"GS1-EPC-Format is one of {', '.join(_FORMATS)}")
    return chosen


def _per_page() -> int:
    return min(epcis_filters.number(request.args, "perPage") or PER_PAGE, MOST_PER_PAGE)


def _filters() -> dict[str, str]:
    return {name: value for name, value in sorted(request.args.items()) if name not in PAGING}


def _token(filters: dict[str, str], numbers: list[int]) -> str:
    text = json_text.encode([_fingerprint(filters), *numbers])
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _place(filters: dict[str, str], *, is_in_order: bool) -> Place | None:
    """Return the place of the token. Raises Problem if it is not one for these filters."""
    token = request.args.get("nextPageToken")
    if token is None:
        return None
    numbers: list[int]
    try:
        text, *numbers = json_text.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (ValueError, TypeError) as error:
        raise _wrong_token() from error
    is_whole = text == _fingerprint(filters) and all(isinstance(one, int) and abs(one) < 1 << 62 for one in numbers)
    source, *key = numbers or [-1]
    if not is_whole or not query.is_place((source, tuple(key)), is_in_order=is_in_order):
        raise _wrong_token()
    return source, tuple(key)


def _wrong_token() -> Problem:
    return Problem.parameter("nextPageToken is not one of this query; take the address in the Link header")


def _fingerprint(filters: dict[str, str]) -> str:
    return hashlib.sha256(json_text.encode(filters)).hexdigest()[:16]
