"""`GET /events`: live events for pages (session cookie) and other programs (bearer token).

The endpoint is not part of the public v1 API or its OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from flask import Blueprint, Flask, Response, current_app, request

from edge.api import bearer
from edge.api.bearer import Refused
from edge.audit.actors import Actor
from edge.errors import EdgeError, Invalid
from edge.events import destinations, detection, log
from edge.events.log import KINDS, Filter
from edge.events.stream import ATTACH, MOST_EVENTS, SCOPE_OF_KIND, Listener, frame, head
from edge.events.validation import event_kinds
from edge.people import tokens
from edge.people.people import Role
from edge.people.sessions import actor_of
from edge.people.sign_in import find as find_session
from edge.people.tokens import SCOPES_OF_ROLE
from edge.rate_limits import Buckets
from edge.records import locations
from edge.records.record import RecordFilter
from edge.services import services

MAX_KEY = 255
_PARAMETERS = {"kind", "location_external_key", "last_event_id"}

blueprint = Blueprint("events", __name__)

_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="api"'}
_open_budget = Buckets(burst=20, per_second=1)


class _Caller(NamedTuple):
    subject: str
    actor: Actor
    scopes: tuple[str, ...]
    may_listen: Callable[[], bool]
    role: Role | None


def register(app: Flask, session_token: Callable[[], str]) -> None:
    """Add the endpoint. `session_token` returns the token of the signed-in person's session, or ""."""
    app.extensions["events"] = session_token
    app.register_blueprint(blueprint)


@blueprint.get("/events")
def stream() -> Response:
    """Stream the events of the caller's organization.

    Query parameters: `kind` (repeatable), `location_external_key` (includes its sub-locations), `last_event_id`.
    """
    caller = _authenticate()
    budget = _open_budget.take(caller.subject)
    if not budget.allowed:
        raise Refused(429, "Too many streams were opened", {"Retry-After": str(budget.retry_after)})
    filter_ = _event_filter(caller)
    destinations.open_stream(caller.actor)
    config = services().config
    detection.start(detection.silence_of(config.events_unseen_hours, config.events_reader_offline_minutes))
    organization_id = caller.actor.organization_id
    last = request.headers.get("Last-Event-ID") or request.args.get("last_event_id", "")
    position = log.position_of(organization_id, last) if last else None
    newest = log.newest_of(organization_id)
    first_frame = head(None if position else newest, is_lost=bool(last) and position is None)
    listener = Listener(
        organization_id,
        caller.subject,
        filter_,
        position or (newest.seq if newest else log.newest()),
        caller.may_listen,
        caller.role,
    )
    return _stream_response(listener, first_frame)


def _stream_response(listener: Listener, first_frame: bytes) -> Response:
    streams = services().streams
    attach_listener: Callable[[Any], None] | None = request.environ.get(ATTACH)
    if request.method == "HEAD":
        content: Iterator[bytes] = iter(())
    elif streams is None or attach_listener is None:
        content = iter((first_frame, _pending_frames(listener)))
    else:
        streams.add(listener)
        attach_listener(listener)
        content = iter((first_frame,))
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Response(content, headers=headers, content_type="text/event-stream; charset=utf-8")


def _pending_frames(listener: Listener) -> bytes:
    batch = log.after(listener.organization_id, listener.seq, MOST_EVENTS)
    visible = log.visible_to(listener.role, listener.organization_id, batch)
    return b"".join(frame(event, kind) for event in visible if (kind := listener.event_filter.kind_of(event)))


def _authenticate() -> _Caller:
    environment, session_token = services().config.environment, current_app.extensions["events"]
    if request.headers.get("Authorization"):
        token = bearer.sent("bearer")
        principal = tokens.principal(environment, token) if token else None
        if principal is None:
            raise Refused(401, "The token is invalid or has expired", _CHALLENGE)
        may_listen = _validity(lambda: tokens.principal(environment, token))
        return _Caller(principal.subject, principal.actor, principal.scopes, may_listen, principal.role)
    cookie = session_token()
    session = find_session(cookie) if cookie else None
    if session is None:
        raise Refused(401, "Sign in, or send Authorization: Bearer <token>", _CHALLENGE)
    role, may_listen = Role(session.role), _validity(lambda: find_session(cookie))
    return _Caller(f"person:{session.person_id}", actor_of(session), SCOPES_OF_ROLE[role], may_listen, role)


def _validity(find: Callable[[], object]) -> Callable[[], bool]:
    return lambda: find() is not None


def _event_filter(caller: _Caller) -> Filter:
    unknown = sorted(set(request.args) - _PARAMETERS)
    if unknown:
        raise Invalid.one(unknown[0], "unknown_field", f"{unknown[0]} is none of {', '.join(sorted(_PARAMETERS))}")
    allowed = [kind for kind in KINDS if SCOPE_OF_KIND[kind] in caller.scopes]
    chosen = event_kinds(request.args.getlist("kind") or allowed, KINDS) if allowed else frozenset()
    if not chosen or not chosen <= set(allowed):
        raise Refused(
            403, "This stream requires the scope tracking:read, and assets:read for created, changed and deleted assets"
        )
    return Filter(chosen, _location(caller.actor.organization_id))


def _location(organization_id: int) -> int | None:
    key = request.args.get("location_external_key")
    if key is None:
        return None
    filters = RecordFilter(external_keys=[key[: MAX_KEY + 1]])
    matches = locations.list_page(organization_id, filters, limit=1).rows
    if not matches:
        raise Invalid.one("location_external_key", "fk_not_found", "Unknown location key")
    return matches[0].id


@blueprint.errorhandler(EdgeError)
def _refusal_response(error: EdgeError) -> Response:
    return bearer.refusal(error, str(error), {Invalid: 400}, 409)
