"""Endpoints of a hub for its sites under /sync/v1/. They are not part of the public API."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flask import Blueprint, Flask, Response, g, request

from edge.api import bearer
from edge.api.bearer import Refused
from edge.database.connection import held_seconds
from edge.errors import Conflict, EdgeError, HistoryTaken, NotFound, TooLarge, Unavailable, Unreadable
from edge.memory_budget import MB, WORK
from edge.people import organizations, tokens
from edge.people.api_keys import SYNC_SCOPE
from edge.people.secrets import hash_secret, new_client_secret
from edge.rate_limits import Buckets, Slots, client_network, note_caller
from edge.services import services
from edge.sync import batch_format, hub
from edge.sync.store import sites
from edge.sync.store.site_quotas import HistoryWaits
from edge.sync.store.sites import SecondBox, Site
from edge.validation import json_text

blueprint = Blueprint("sync", __name__, url_prefix="/sync/v1")

_RESPONSE_MEMORY = 24 * MB  # at most, for records with their metadata
MAX_JOIN = 1024  # bytes
MAX_PREVIEW = MB // 2  # bytes of one page of records
PREVIEW_MEMORY = 8 * MB  # for the objects of one page
WRONG_CODE = "this code is invalid, used or expired. Create a new one on the hub's Sync page"
MAX_REQUESTS_OF_SITE = 2  # at the same time; a site sends its requests one after another
_MAX_MESSAGE = 1_000  # characters; the message is stored, shown, and may quote input from the site
_running = Slots(MAX_REQUESTS_OF_SITE)
_wrong_codes = Buckets(burst=10, per_second=1 / 60)
_previews = Buckets(burst=1000, per_second=2)  # pages by site
# Seconds of the processor, or of the write lock if that is more. A site that catches up has a minute, and then half of
# the time; one that sends its usual batches needs a hundredth.
BURST_SECONDS, SHARE = 60.0, 0.5
LEAST_SECONDS = 0.005  # of a request, with its HTTP and its token: 100 small ones a second are a site's share
_time = Buckets(burst=int(BURST_SECONDS), per_second=SHARE)  # by site
# Beyond what a site usually needs, the sites of an organization share, so that several stolen keys do not add up.
USUAL_SHARE, SHARED = 0.02, 0.75
_usual = Buckets(burst=2, per_second=USUAL_SHARE)  # by site
_shared = Buckets(burst=2 * int(BURST_SECONDS), per_second=SHARED)  # by organization


def register(app: Flask) -> None:
    """Add the endpoints to the application. `environment` is production or preview."""
    app.register_blueprint(blueprint)


@blueprint.post("/join")
def join() -> Response:
    """Exchange a join code for the site's credentials. Wrong codes are rate-limited by network."""
    address = client_network(request.remote_addr or "unknown")
    _check_codes(address)
    if not sites.is_hub():
        raise NotFound("this box is not a hub")
    try:
        content = json_text.decode(_body(MAX_JOIN))
        code, environment = str(content["code"]), str(content["environment"])
    except TooLarge:
        _wrong_codes.take(address)
        raise
    except (json_text.NotJson, KeyError, TypeError) as error:
        _wrong_codes.take(address)
        raise Unreadable("send the code and the environment") from error
    own_environment = services().config.environment
    if environment != own_environment:
        raise Conflict(f"this hub is a {own_environment} installation but the site is {environment}")
    secret = new_client_secret()
    site = sites.join(hash_secret(code), hash_secret(secret))
    if site is None:
        _wrong_codes.take(address)
        raise NotFound(WRONG_CODE)
    name = organizations.get_organization(site.organization_id).name
    return _json(
        {
            "client_id": site.api_key_id,
            "client_secret": secret,
            "code": site.code,
            "hub_name": name,
            "hub_id": sites.hub_id(),
            "former_codes": sites.former_codes(site),
            "epoch": site.epoch,
            "acked_seq": site.acked_seq,
        }
    )


@blueprint.post("/preview")
def preview() -> Response:
    """Say which records of a box would clash if it joined. The join code authenticates it and stays valid."""
    address = client_network(request.remote_addr or "unknown")
    _check_codes(address)
    code = bearer.sent("join")
    site = sites.find_by_join_code(hash_secret(code)) if code else None
    if site is None:
        _wrong_codes.take(address)
        raise NotFound(WRONG_CODE)
    budget = _previews.take(str(site.no))
    if not budget.allowed:
        wait = budget.retry_after
        raise Refused(429, f"Too many requests; try again in {wait} s", {"Retry-After": str(wait)})
    name = organizations.get_organization(site.organization_id).name
    return _run(site, _body(MAX_PREVIEW), lambda body: hub.preview(site, name, body), PREVIEW_MEMORY, MB)


def _check_codes(address: str) -> None:
    """Raise Refused after too many wrong codes from a network."""
    wait = _wrong_codes.look(address).retry_after
    if wait:
        raise Refused(429, f"Too many wrong codes; try again in {wait} s", {"Retry-After": str(wait)})


def _call(name: str) -> Response:
    """Authenticate the site and answer one of its requests. Raises Unavailable; see `_run`."""
    handle, max_unpacked, response_memory = _CALLS[name]
    site = _site()
    return _run(site, _body(), lambda body: handle(site, body), max_unpacked, response_memory)


_SMALL, _BATCH = batch_format.MAX_REQUEST_MEMORY, batch_format.MAX_BATCH_MEMORY
# By request: the function, and the memory of the unpacked body and of the response.
_CALLS: dict[str, tuple[Callable[[Site, bytes], dict[str, Any]], int, int]] = {
    "hello": (lambda site, body: hub.hello(site, batch_format.unpack(body), len(body)), _SMALL, 0),
    "changes": (lambda site, body: hub.changes(site, body), _BATCH, 0),
    "masters": (lambda site, body: hub.masters(site, batch_format.unpack(body)), _SMALL, _RESPONSE_MEMORY),
    "digests": (lambda site, body: hub.digests(site, batch_format.unpack(body)), _SMALL, 0),
    "recover": (lambda site, body: hub.recover(site, batch_format.unpack(body)), _SMALL, _RESPONSE_MEMORY),
}
for _name in _CALLS:  # a route for each, as the metrics count them
    blueprint.add_url_rule(f"/{_name}", _name, _call, defaults={"name": _name}, methods=["POST"])


def _run(
    site: Site, body: bytes, handle: Callable[[bytes], dict[str, Any]], max_unpacked: int, response_memory: int
) -> Response:
    """Reserve memory for the unpacked body and the response, and run `handle`.

    The concurrency limit applies to the site and not to the token, because a key can obtain any number of tokens.
    Raises Unavailable.
    """
    caller = str(site.no)
    if pause := _pause(site):
        raise Unavailable("This site has used its share of this hub's time", pause)
    if not _running.acquire(caller):
        raise Unavailable("Earlier requests of this site are still running", 1)
    try:
        with _charging(site), WORK.holding(batch_format.cost(body, max_unpacked) + response_memory, f"site {caller}"):
            answer = handle(body)
        if "wait_ms" in answer:  # so the next request is not refused
            answer["wait_ms"] = 1000 * _pause(site)
        return _json(answer)
    finally:
        _running.release(caller)


def _pause(site: Site) -> int:
    """Return for how many seconds the site has to wait."""
    usual = _usual.look(str(site.no)).retry_after
    of_site = _time.look(str(site.no)).retry_after
    return max(of_site, min(usual, _shared.look(str(site.organization_id)).retry_after))


@contextmanager
def _charging(site: Site) -> Iterator[None]:
    """Charge a site for the time of the block, also if it fails."""
    began, held = time.thread_time(), held_seconds()
    try:
        yield
    finally:
        spent = max(time.thread_time() - began, held_seconds() - held, LEAST_SECONDS)
        _charge(site, spent)


def _charge(site: Site, spent: float) -> None:
    """Charge a site. `Buckets.charge` counts in seconds until the bucket is as full as before."""
    _time.charge(str(site.no), spent / SHARE)
    usual = min(spent, _usual.look(str(site.no)).remaining)
    _usual.charge(str(site.no), usual / USUAL_SHARE)
    _shared.charge(str(site.organization_id), (spent - usual) / SHARED)


@blueprint.errorhandler(EdgeError)
def _refusal_response(error: EdgeError) -> Response:
    message = str(error)[:_MAX_MESSAGE]
    if "site_no" in g and not isinstance(error, Unavailable):
        sites.note_refusal(g.site_no, message)
    response = bearer.refusal(error, message, {Conflict: 409, NotFound: 404, hub.OtherVersion: 426}, 400)
    if reason := _REASONS.get(type(error)):
        response.headers[batch_format.REASON] = reason
    return response


_REASONS: dict[type[EdgeError], str] = {
    SecondBox: batch_format.SECOND_BOX,
    HistoryTaken: batch_format.SECOND_HUB,
    HistoryWaits: batch_format.HISTORY_WAITS,
}


@blueprint.errorhandler(TooLarge)
def _too_large_response(error: TooLarge) -> Response:
    if "site_no" in g:
        sites.note_refusal(g.site_no, "the batch was too large; retrying with half of it")
    return bearer.refusal(error, "the request is too large", {TooLarge: 413}, 413)


def _site() -> Site:
    """Return the site that the key belongs to. A key is bound to one site, and sessions never have the sync scope."""
    token = bearer.sent("bearer")
    principal = tokens.principal(services().config.environment, token) if token else None
    if principal is not None:
        note_caller(request.headers["Authorization"], principal.subject, principal.organization_id)
    if principal is None or principal.api_key_id is None:
        raise Refused(401, "the token is invalid or expired", {"WWW-Authenticate": 'Bearer realm="sync"'})
    site = sites.find_by_key(principal.api_key_id) if SYNC_SCOPE in principal.scopes else None
    if site is None:
        raise Refused(403, "this key does not belong to a site")
    g.site_no = site.no
    return site


def _body(max_size: int = batch_format.MAX_BODY) -> bytes:
    if (request.content_length or 0) > max_size:
        raise TooLarge("the request is too large")
    return request.get_data(cache=False)


def _json(content: dict[str, Any]) -> Response:
    return Response(json_text.encode(content), headers={"Cache-Control": "no-store"}, content_type="application/json")
