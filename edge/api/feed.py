"""`GET /feed/changes`: the open feed, one page of lines at a time.

It is not part of the public v1 API or its document; the manual describes it.
Decision record: web/manual/decisions/open-feed.md
"""

from __future__ import annotations

from flask import Blueprint, Flask, Response, request

from edge.api import bearer
from edge.api.envelope import ApiError
from edge.api.middleware import FEED_TYPE
from edge.errors import NotFound
from edge.feed import cursors, pages
from edge.feed.cursors import Gone
from edge.feed.pages import Page
from edge.memory_budget import MB, WORK
from edge.people.api_keys import FEED_SCOPE
from edge.people.tokens import Principal
from edge.sync.store import sites
from edge.validation import json_text

blueprint = Blueprint("feed", __name__)
bearer.add_errors(blueprint)

_PARAMETERS = {"cursor", "site"}
_PAGE_MEMORY = 24 * MB  # rows with 4 MB of metadata, and their lines
START_AGAIN = "Omit the cursor to start again with a copy"


def register(app: Flask) -> None:
    app.register_blueprint(blueprint)


@blueprint.get("/feed/changes")
def changes() -> Response:
    """Return the next page after a cursor, or the first page of a copy."""
    return bearer.answer(FEED_SCOPE, _changes)


def _changes(principal: Principal) -> Response:
    bearer.check_names(_PARAMETERS)
    if request.method == "HEAD":
        return Response(content_type=FEED_TYPE)
    with WORK.holding(_PAGE_MEMORY, principal.subject):
        try:
            return _response(_page(principal))
        except Gone as error:
            raise ApiError("gone", f"{error}. {START_AGAIN}") from error


def _page(principal: Principal) -> Page:
    text, code = request.args.get("cursor"), request.args.get("site")
    if text:
        if code:
            raise ApiError("bad_request", "Send site only without a cursor; a reader keeps its site")
        return pages.next_page(principal.organization_id, cursors.parse(text))
    if principal.api_key_id is None:
        raise ApiError("forbidden", "Use an API key")
    site_no = _site(principal.organization_id, code) if code else None
    return pages.first_page(principal.organization_id, principal.api_key_id, site_no)


def _site(organization_id: int, code: str) -> int:
    number = sites.number_of_code(organization_id, code)
    if number is None:
        raise NotFound("This box is not the hub of a site with this code")
    return number


def _response(page: Page) -> Response:
    end = {"op": "cursor", "cursor": page.cursor.text, "more": page.has_more}
    content = b"".join(json_text.encode(line) + b"\n" for line in (*page.lines, end))
    return Response(content, content_type=FEED_TYPE, headers={"Cache-Control": "no-store"})
