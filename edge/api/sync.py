"""The endpoints of a hub for its sites: /sync/v1/, which is not part of the public API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from flask import Blueprint, Flask, Response, current_app, g, request

from edge.budget import MB, WORK
from edge.errors import Conflict, EdgeError, NotFound, TooLarge, Unavailable, Unreadable
from edge.limits import RESERVED, Buckets, ConcurrencyLimit, client_network
from edge.people import organizations, tokens
from edge.people.api_keys import SYNC_SCOPE
from edge.people.secrets import hash_secret, new_client_secret
from edge.sync import batch_format, hub
from edge.sync.store import sites
from edge.sync.store.sites import SecondBox, Site

blueprint = Blueprint("sync", __name__, url_prefix="/sync/v1")

_ANSWER = 24 * MB  # of memory, for records with their metadata
MAX_JOIN = 1024  # bytes of a code and an environment
MOST_OF_SITE = 2  # requests at once: a site sends one after another
_LONGEST_MESSAGE = 1_000  # characters; it is stored and shown, and may contain what the site sent
_under_way = ConcurrencyLimit(RESERVED + MOST_OF_SITE)
_wrong_codes = Buckets(burst=10, per_second=1 / 60)


class _Refused(EdgeError):
    """A request that is refused: the status and the message."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


def register(app: Flask, environment: str) -> None:
    app.extensions["sync_environment"] = environment
    app.register_blueprint(blueprint)


@blueprint.post("/join")
def join() -> Response:
    """A code for the credentials of a site. Wrong codes are throttled by address."""
    address = client_network(request.remote_addr or "unknown")
    wait = _wrong_codes.look(address).retry_after
    if wait:
        raise _Refused(429, f"Too many wrong codes; try again in {wait} s", {"Retry-After": str(wait)})
    if not sites.is_hub():
        raise NotFound("this box is not a hub")
    try:
        content = orjson.loads(_body(MAX_JOIN))
        code, environment = str(content["code"]), str(content["environment"])
    except TooLarge:
        _wrong_codes.take(address)
        raise
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        _wrong_codes.take(address)
        raise Unreadable("send the code and the environment") from error
    if environment != _environment():
        raise Conflict(f"this hub is a {_environment()} installation and that site is {environment}")
    secret = new_client_secret()
    site = sites.join(hash_secret(code), hash_secret(secret))
    if site is None:
        _wrong_codes.take(address)
        raise NotFound("this code was used, has expired, or was never made. Make a new one on the hub's page Sync")
    name = organizations.get_organization(site.organization_id).name
    return _answer({"client_id": site.api_key_id, "client_secret": secret, "code": site.code, "hub_name": name})


@blueprint.post("/hello")
def hello() -> Response:
    return _handled(
        lambda site, body: hub.hello(site, batch_format.unpack(body), len(body)), batch_format.MOST_OF_QUESTION
    )


@blueprint.post("/changes")
def changes() -> Response:
    return _handled(hub.changes, batch_format.MOST_OF_BATCH)


@blueprint.post("/masters")
def masters() -> Response:
    return _handled(
        lambda site, body: hub.masters(site, batch_format.unpack(body)), batch_format.MOST_OF_QUESTION, _ANSWER
    )


@blueprint.post("/digests")
def digests() -> Response:
    return _handled(lambda site, body: hub.digests(site, batch_format.unpack(body)), batch_format.MOST_OF_QUESTION)


@blueprint.post("/recover")
def recover() -> Response:
    return _handled(
        lambda site, body: hub.recover(site, batch_format.unpack(body)), batch_format.MOST_OF_QUESTION, _ANSWER
    )


def _handled(handle: Callable[[Site, bytes], dict[str, Any]], most: int, of_answer: int = 0) -> Response:
    """The response to a site; the budget has room for what its body unpacks to, and for a long answer.

    Bounded by site, not by token: a key has as many tokens as it asks for.
    """
    site, body = _site(), _body()
    caller = str(site.no)
    if not _under_way.acquire(caller):
        raise Unavailable("Earlier requests of this site are still being answered", 1)
    try:
        with WORK.holding(batch_format.cost(body, most) + of_answer):
            return _answer(handle(site, body))
    finally:
        _under_way.release(caller)


@blueprint.errorhandler(EdgeError)
def _on_refusal(error: EdgeError) -> Response:
    message = str(error)[:_LONGEST_MESSAGE]
    if "site_no" in g and not isinstance(error, Unavailable):
        sites.note_refusal(g.site_no, message)
    if isinstance(error, _Refused):
        return _problem(error.status, message, error.headers)
    if isinstance(error, SecondBox):
        headers = {"Retry-After": str(error.retry_after_seconds), batch_format.REASON: batch_format.SECOND_BOX}
        return _problem(503, message, headers)
    if isinstance(error, Unavailable):
        return _problem(503, message, {"Retry-After": str(error.retry_after_seconds)})
    statuses = ((Conflict, 409), (NotFound, 404), (hub.OtherVersion, 426))
    return _problem(next((status for kind, status in statuses if isinstance(error, kind)), 400), message)


@blueprint.errorhandler(TooLarge)
def _on_too_large(_: TooLarge) -> Response:
    if "site_no" in g:
        sites.note_refusal(g.site_no, "it sent a batch that would be too large; it sends half of it now")
    return _problem(413, "the request is too large")


def _site() -> Site:
    """The site that the key belongs to. A key is bound to one site, and no person's session has its scope."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    principal = tokens.principal(_environment(), token.strip()) if scheme.lower() == "bearer" else None
    if principal is None or principal.api_key_id is None:
        raise _Refused(401, "the token is not, or no longer, good", {"WWW-Authenticate": 'Bearer realm="sync"'})
    site = sites.find_by_key(principal.api_key_id) if SYNC_SCOPE in principal.scopes else None
    if site is None:
        raise _Refused(403, "this key is not that of a site")
    g.site_no = site.no
    return site


def _body(most: int = batch_format.MAX_BODY) -> bytes:
    if (request.content_length or 0) > most:
        raise TooLarge("the request is too large")
    return request.get_data(cache=False)


def _environment() -> str:
    environment: str = current_app.extensions["sync_environment"]
    return environment


def _answer(content: dict[str, Any]) -> Response:
    return Response(orjson.dumps(content), headers={"Cache-Control": "no-store"}, content_type="application/json")


def _problem(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    response = _answer({"error": message})
    response.status_code = status
    response.headers.update(headers or {})
    return response
