"""Blueprint of all pages, with their templates, static files and error pages."""

from __future__ import annotations

import logging
import pkgutil
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple

from flask import Flask, Response, g, jsonify, render_template, request
from jinja2 import FileSystemLoader
from werkzeug.exceptions import HTTPException
from werkzeug.routing import IntegerConverter

import edge.pages
from edge import clock
from edge.api.middleware import request_context
from edge.errors import EdgeError, Forbidden, Invalid, NotFound, OverQuota, TooLarge, Unavailable
from edge.logs import without_secret
from edge.pages import formatting, navigation, translation
from edge.pages.forms import MOST_DIGITS, message_of, sentence
from edge.pages.guard import has_role, identify, pages, public
from edge.pages.help import help_address
from edge.pages.muster import musters
from edge.pages.notices import NOTICES
from edge.pages.rules import alerts
from edge.pages.security_headers import CONTENT_SECURITY_POLICY
from edge.pages.static_files import load_static_files, static_files, web_folder
from edge.pages.tracking import history_notes
from edge.pages.translation import gettext, translated
from edge.pages.walls import screen
from edge.people.people import Role
from edge.people.secrets import new_token
from edge.services import services
from edge.texts import N_
from edge.tracking.stays import Quality

log = logging.getLogger(__name__)


class _Whole(IntegerConverter):
    """Path converter for integers that fit into the database. Longer ones are unknown paths."""

    regex = rf"\d{{1,{MOST_DIGITS}}}"


def register(app: Flask) -> None:
    """Register the views of all modules of `edge.pages`, and what its templates use."""
    for module in pkgutil.walk_packages(edge.pages.__path__, "edge.pages."):
        import_module(module.name)
    files = load_static_files(app)
    pages.jinja_loader = FileSystemLoader(web_folder() / "templates")
    app.jinja_env.filters.update(
        ago=formatting.when,
        unseen=formatting.unseen,
        at=formatting.at,
        moment=formatting.moment,
        day=formatting.day,
        rfc3339=clock.rfc3339,
        lasting=formatting.lasting,
        duration=formatting.duration,
        count=formatting.count,
        localized=translation.localized,
        rate=formatting.rate,
        check_name=formatting.check_name,
        size=formatting.size,
        offset=formatting.clock_offset,
    )
    app.jinja_env.globals.update(
        static=files.url,
        has_role=has_role,
        Role=Role,
        CARRIED=int(Quality.CARRIED),
        plural=formatting.plural,
        ROLES=formatting.ROLES,
        services=services,
        help_address=help_address,
        new_token=new_token,
        history_unavailable=history_notes.UNAVAILABLE,
        open_alerts=alerts.open_alerts,
        open_musters=musters.open_musters,
        navigation=navigation,
        title_of_muster=musters.title_of,
    )
    translation.register(app)
    app.url_map.converters["int"] = _Whole
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.register_blueprint(pages)


@public.get("/static/<version>/<path:name>")
def static_file(version: str, name: str) -> Response:
    return static_files().answer(version, name)


@pages.context_processor
def _on_every_page() -> dict[str, Any]:
    return {
        "session": g.get("session"),
        "csrf": g.get("csrf", ""),
        "notice": gettext(NOTICES.get(request.args.get("done", ""), "")),
        "now": clock.now(),
    }


@pages.after_request
def secure(response: Response) -> Response:
    """Set security headers: pages are private, run only their own scripts, and may not be framed."""
    headers = response.headers
    if not request.path.startswith("/static/"):  # only documents need them, and a handheld loads thirty files
        headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        headers.setdefault("Referrer-Policy", "same-origin")
    headers.setdefault("Cache-Control", "no-store")
    if request.is_secure:  # browsers warn about it on plain HTTP
        headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
    return response


class Problem(NamedTuple):
    status: int
    title: str
    text: str
    request_id: str = ""  # of a failure that the log describes


_TITLES = {
    403: (N_("You do not have permission"), N_("Ask an administrator if you need access.")),
    404: (N_("Page not found"), N_("The record may have been retired, or the address is wrong.")),
    405: (N_("Request not supported"), N_("Go back and use the form on the page.")),
    413: (N_("Too much data"), N_("Send less data at once.")),
}


def error_page(error: Exception) -> Response:
    """Return the page for an error outside of the API."""
    if isinstance(error, HTTPException):  # raised before the session was looked up
        with suppress(Unavailable):
            identify()
    g.setdefault("session", None)
    problem = _problem(error)
    problem = problem._replace(title=gettext(problem.title), text=translated(problem.text))
    if request.is_json or request.headers.get("Accept", "").startswith("application/json"):
        response = jsonify(error=problem.text)
    else:
        response = Response(_error_html(problem), mimetype="text/html")
    response.status_code = problem.status
    if isinstance(error, HTTPException):
        for name, value in error.get_headers():
            if name in ("Allow", "Retry-After"):
                response.headers[name] = value
    if isinstance(error, Unavailable | OverQuota):
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    if request.path.startswith("/w/"):  # nobody is there to load it again
        response.headers.setdefault("Refresh", str(screen.RETRY_SECONDS))
        response.headers["Referrer-Policy"] = "no-referrer"
    return secure(response)


def _error_html(problem: Problem) -> str:
    """Return the page, without the sidebar if the database is unavailable: the sidebar reads it."""
    try:
        return render_template("error.html", problem=problem, **_on_every_page())
    except Unavailable:
        g.session = None
        return render_template("error.html", problem=problem, **_on_every_page())


def _problem(error: Exception) -> Problem:
    if isinstance(error, NotFound):
        return Problem(404, *_TITLES[404])
    if isinstance(error, Forbidden):
        return Problem(403, _TITLES[403][0], message_of(error))
    if isinstance(error, TooLarge):
        return Problem(413, _TITLES[413][0], message_of(error))
    if isinstance(error, OverQuota):
        return Problem(429, N_("Request rejected"), N_("Too many additions in a short time. Try again later"))
    if isinstance(error, Unavailable):
        return Problem(503, N_("Temporarily unavailable"), message_of(error))
    if isinstance(error, Invalid):
        return Problem(400, N_("Request rejected"), message_of(error))
    if isinstance(error, EdgeError):
        return Problem(409, N_("Request rejected"), sentence(message_of(error)))
    if isinstance(error, HTTPException) and error.code:
        title, text = _TITLES.get(error.code, (error.name, ""))
        own_text = error.description if error.description != type(error).description else ""
        return Problem(error.code, title, own_text or text)
    request_id = request_context().request_id
    log.error("Page failed: %s %s (%s)", request.method, without_secret(request.path), request_id, exc_info=error)
    return Problem(
        500,
        N_("Internal error"),
        N_("Try again. If it fails again, ask an administrator to check the log."),
        request_id,
    )
