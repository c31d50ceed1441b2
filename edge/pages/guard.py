"""Access to the web app: who is asking, whether their role suffices, whether the form was made for them.

Every view declares the least role it needs, or that it is open; one that declares nothing is refused to everybody.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from functools import partial
from typing import TypeVar
from urllib.parse import quote

from flask import Blueprint, Response, abort, current_app, g, jsonify, redirect, render_template, request
from flask_babel import gettext
from werkzeug.exceptions import Forbidden, TooManyRequests
from werkzeug.wrappers import Response as AnyResponse

from edge.api.middleware import request_context
from edge.audit.actors import Actor
from edge.errors import Unavailable
from edge.limits import client_network
from edge.pages import cookies, kept_forms
from edge.people import enrollment, sign_in
from edge.people.devices import DeviceRow
from edge.people.people import RANK, Role
from edge.people.secrets import new_token
from edge.people.sessions import SessionRow, actor_of
from edge.services import services

MAX_BODY = 1024 * 1024  # of a form or of scans, also from those who are not signed in
MAX_UPLOAD = 7 * 1024 * 1024  # of a table or a drawing, from somebody signed in; app.js checks it before sending
FILES_RETRY_SECONDS = 30

pages = Blueprint("pages", __name__)

View = TypeVar("View", bound=Callable[..., object])


def require_role(role: Role) -> Callable[[View], View]:
    """The view is for people of this role and of those above it."""

    def mark(view: View) -> View:
        view.required_role = role  # type: ignore[attr-defined]
        return view

    return mark


def open_to_all(view: View) -> View:
    """The view is for everybody, signed in or not."""
    view.required_role = None  # type: ignore[attr-defined]
    return view


def current_session() -> SessionRow:
    """Who is signed in. Only for views that need a role."""
    session: SessionRow = g.session
    return session


def current_or_none() -> SessionRow | None:
    session: SessionRow | None = g.session
    return session


def actor() -> Actor:
    """Who is signed in, for the functions that write. Only for views that need a role."""
    return actor_of(current_session())


def has_role(role: Role) -> bool:
    return g.session is not None and RANK[Role(g.session.role)] >= RANK[role]


def address() -> str:
    return request.remote_addr or "unknown"


@pages.before_request
def _check() -> AnyResponse | None:
    view = current_app.view_functions[request.endpoint or ""]
    request.max_content_length = MAX_BODY
    identify()
    if g.session is not None:  # a larger body is accepted only from somebody signed in
        request.max_content_length = getattr(view, "max_body", MAX_BODY)
    _limit_concurrency()
    if not hasattr(view, "required_role"):
        abort(403)
    role: Role | None = view.required_role
    if role is not None and g.session is None:
        return _ask_to_sign_in()
    if role is not None and not has_role(role):
        abort(403)
    if request.method not in ("GET", "HEAD", "OPTIONS") and not _form_is_ours():
        return _stale_form()
    return None


def identify() -> None:
    """Find the session of this request, and what its forms are bound to."""
    cookie = cookies.session_token()
    g.session = sign_in.find(cookie) if cookie else None
    if g.session:
        request_context().actor = f"person:{g.session.person_id}"
    if g.session is None:
        cookie = cookies.read(cookies.FORM)
        g.new_form_cookie = cookie = cookie or new_token()
    g.csrf = sign_in.csrf_token(cookie)


def _limit_concurrency() -> None:
    """The application releases the slot. Whoever is not signed in is known by their network."""
    concurrency = services().concurrency
    caller = f"person:{g.session.person_id}" if g.session else f"address:{client_network(address())}"
    if not concurrency.acquire(caller):
        raise TooManyRequests(
            "Too many of your requests are still being answered. Try again when they are done.", retry_after=1
        )
    g.holds_slot = caller


def until_received(response: Response) -> Response:
    """The slot is released when the client has received everything, or has left: until then it holds a thread.

    Raises Unavailable while as many files are sent as threads may be held.
    """
    limit = services().concurrency
    caller = g.holds_slot
    if not limit.acquire_file(caller):
        raise Unavailable(
            gettext("Other files are being downloaded. Try again when they are done."), FILES_RETRY_SECONDS
        )
    del g.holds_slot
    response.call_on_close(partial(limit.release_file, caller))
    response.call_on_close(partial(limit.release, caller))
    return response


def device() -> DeviceRow | None:
    """The enrolled device that sent the request, if it is one."""
    cookie = cookies.read(cookies.DEVICE)
    return enrollment.find(cookie) if cookie else None


def next_path(fallback: str = "/") -> str:
    """Where to go afterwards: a path of this site, never another site's address."""
    path = request.values.get("next", "")
    return path if is_own_path(path) and not path.startswith("/sign-") else fallback


def is_own_path(path: str) -> bool:
    return path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()


def wants_json() -> bool:
    return request.is_json or request.headers.get("Accept", "").startswith("application/json")


def _form_is_ours() -> bool:
    given = request.headers.get("X-CSRF-Token") or request.form.get("csrf", "")
    return hmac.compare_digest(given.encode(), g.csrf.encode())


def _ask_to_sign_in() -> AnyResponse:
    if wants_json():
        return _json_error(401, gettext("Sign in again"))
    if request.method not in ("GET", "HEAD"):
        return Response(render_template("people/sign-in-again.html", kept=kept_forms.keep()), 401)
    path = request.full_path.rstrip("?")
    return redirect(f"/sign-in?next={quote(path, safe='/')}", 303)


def _stale_form() -> AnyResponse:
    if wants_json():
        return _json_error(403, gettext("This page is out of date; load it again"))
    if current_or_none() is not None and (form := kept_forms.kept(kept_forms.keep())):
        return Response(render_template("kept-form.html", form=form), 403)
    raise Forbidden(
        gettext("This form is out of date, perhaps because you signed in again. Go back and load the page again.")
    )


def _json_error(status: int, message: str) -> Response:
    answer = jsonify(error=message)
    answer.status_code = status
    return answer


@pages.after_request
def _keep_form_cookie(response: Response) -> Response:
    """Only with a page that was really made for it, so that cached files carry no cookie."""
    fresh = g.get("new_form_cookie")
    if fresh and response.mimetype == "text/html" and not cookies.read(cookies.FORM):
        cookies.write(response, cookies.FORM, fresh)
    return response
