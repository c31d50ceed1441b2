"""Access control of the pages: session, role and CSRF token.

Every view is registered for a minimum role, or for everybody. One that is not answers 403.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar
from urllib.parse import quote

from flask import Blueprint, Response, abort, current_app, g, jsonify, redirect, render_template, request
from werkzeug.exceptions import Forbidden
from werkzeug.wrappers import Response as AnyResponse

from edge.api.middleware import admit
from edge.audit.actors import Actor
from edge.errors import Conflict, EdgeError, Unavailable
from edge.pages import cookies, kept_forms
from edge.pages.forms import errors_of
from edge.pages.help import SECTIONS
from edge.pages.translation import gettext
from edge.people import devices, sessions, sign_in
from edge.people.devices import DeviceRow
from edge.people.people import RANK, Role
from edge.people.secrets import hash_secret, new_token
from edge.people.sessions import SessionRow, actor_of
from edge.rate_limits import PERSON, client_network
from edge.services import services

MAX_BODY = 1024 * 1024  # of forms and scans, also without a session
MAX_UPLOAD = 7 * 1024 * 1024  # of tables and drawings, with a session; app.js checks it before sending
FILES_RETRY_SECONDS = 30
POLLED = "X-Edge-Polled"  # header of requests that a page sends by itself, which are no use of the session

pages = Blueprint("pages", __name__)

View = TypeVar("View", bound=Callable[..., object])


# What a view may return: a response, a page, or a page with a status.
Answer = AnyResponse | str | tuple[str | AnyResponse, int]
Again = Callable[..., str]


class Views:
    """Registers views for this role and higher ones, such as `@editors.post("/plans")`; `role` None: for everybody.

    `check` gets the ids in the path before each view, and raises to refuse the request.
    """

    def __init__(self, role: Role | None, check: Callable[..., object] | None = None) -> None:
        self._role = role
        self._check = check

    def get(self, path: str, manual: str = "") -> Callable[[View], View]:
        """`manual`: the section about the page, such as `office#board`; by default that of the path above."""
        if manual:
            SECTIONS[path] = manual
        return self._marking(pages.get(path))

    def post(self, path: str, max_body: int = 0, again: Again | None = None) -> Callable[[View], View]:
        """`max_body`: the largest body in bytes, with a session, if it is not `MAX_BODY`.

        `again` gets errors by field and the ids in the path, and returns the form if the view refuses what was entered.
        """
        return self._marking(pages.post(path), max_body, again)

    def form(self, path: str, page: Again, manual: str = "", max_body: int = 0) -> Callable[[View], View]:
        """Add a form: GET shows `page`, without errors, and POST calls the view, with `page` again if it refuses.

        `manual` as in `get`, the others as in `post`.
        """

        def show(**ids: Any) -> str:
            return page({}, **ids)

        show.__name__ = f"form {path}"  # names the endpoint
        self.get(path, manual)(show)
        return self.post(path, max_body, page)

    def _marking(
        self, register: Callable[[Any], Any], max_body: int = 0, again: Again | None = None
    ) -> Callable[[View], View]:
        def add(view: View) -> View:
            registered: Any = view if again is None else _refusing(view, again)
            registered = registered if self._check is None else _checked(self._check, registered)
            registered.required_role = self._role
            if max_body:
                registered.max_body = max_body
            register(registered)
            return view

        return add


def _checked(check: Callable[..., object], view: Callable[..., object]) -> Callable[..., object]:
    @wraps(view)
    def answer(**ids: Any) -> object:
        check(**ids)
        return view(**ids)

    return answer


def _refusing(view: Callable[..., object], again: Again) -> Callable[..., object]:
    @wraps(view)
    def answer(**ids: Any) -> object:
        try:
            return view(**ids)
        except EdgeError as error:
            return again(errors_of(error), **ids), 409 if isinstance(error, Conflict) else 400

    return answer


public, viewers, operators = Views(None), Views(Role.VIEWER), Views(Role.OPERATOR)
editors, administrators = Views(Role.EDITOR), Views(Role.ADMINISTRATOR)


def current_session() -> SessionRow:
    """Return the session. Only in views that require a role."""
    session: SessionRow = g.session
    return session


def current_or_none() -> SessionRow | None:
    session: SessionRow | None = g.session
    return session


def organization_id() -> int:
    """Return the organization of the session. Only in views that require a role."""
    return current_session().organization_id


def actor() -> Actor:
    """Return the signed-in person as an actor. Only in views that require a role."""
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
    if g.session is not None:  # larger bodies require a session
        request.max_content_length = getattr(view, "max_body", MAX_BODY)
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
    """Look up the session of the request and derive the CSRF token of its forms."""
    cookie = cookies.session_token()
    token_hash = hash_secret(cookie)
    g.session = sessions.find_session(token_hash) if cookie else None
    if g.session:
        if POLLED not in request.headers:
            sessions.note_use(g.session, token_hash)
        caller = f"{PERSON}{g.session.person_id}"
        admit(cookie, caller, g.session.organization_id, hides_people=g.session.hides_people)
    if g.session is None:
        cookie = cookies.read(cookies.FORM)
        g.new_form_cookie = cookie = cookie or new_token()
    g.csrf = sign_in.csrf_token(cookie)


def download(make: Callable[[], Response]) -> Response:
    """Make a file and count it while it occupies a thread: a streamed one until the client has received it.

    Raises Unavailable while there are too many of them.
    """
    limit, session = services().files, current_or_none()
    caller = f"person:{session.person_id}" if session else f"address:{client_network(address())}"
    organization_id = session.organization_id if session else None
    if not limit.acquire(caller, organization_id):
        raise Unavailable(
            gettext("Too many downloads are running. Try again when they have finished."), FILES_RETRY_SECONDS
        )
    release = partial(limit.release, caller, organization_id)
    response = None
    try:
        response = make()
    finally:
        if response is None or response.direct_passthrough:  # the server sends a finished file without a thread
            release()
        else:
            response.call_on_close(release)
    return response


def device() -> DeviceRow | None:
    """Return the enrolled device that sent the request."""
    cookie = cookies.read(cookies.DEVICE)
    return devices.find(cookie) if cookie else None


def next_path(fallback: str = "/") -> str:
    """Return the path to open afterwards. Only paths of this site are accepted."""
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
        return _json_error(403, gettext("This page is out of date. Reload it"))
    if current_or_none() is not None and (form := kept_forms.kept(kept_forms.keep())):
        return Response(render_template("kept-form.html", form=form), 403)
    raise Forbidden(
        gettext("This form is out of date, perhaps because you signed in again. Go back and reload the page.")
    )


def _json_error(status: int, message: str) -> Response:
    answer = jsonify(error=message)
    answer.status_code = status
    return answer


@pages.after_request
def _keep_form_cookie(response: Response) -> Response:
    """Set the cookie for forms. Only with pages, because cached files must not carry cookies."""
    fresh = g.get("new_form_cookie")
    if fresh and response.mimetype == "text/html" and not cookies.read(cookies.FORM):
        cookies.write(response, cookies.FORM, fresh)
    return response
