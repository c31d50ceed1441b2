"""Cookies of the pages.

With HTTPS their names begin with `__Host-`: browsers then accept them from this host over HTTPS only, so that neither a
neighboring host nor a page over plain HTTP can plant one (RFC 6265bis, 4.1.3.2).
"""

from __future__ import annotations

from flask import request
from werkzeug.wrappers import Response

SESSION = "edge_session"
FORM = "edge_form"  # binds the forms of visitors who are not signed in
DEVICE = "edge_device"
LANGUAGE = "edge_language"
WHO = "edge_who"  # who is signed in, for the scripts of the scan page: it names the session and opens nothing
KNOWN = "edge_known"  # proof of an earlier sign-in, see `people.known_browsers`
LONGEST_SECONDS = 400 * 86400  # browsers keep no cookie for longer


def read(name: str) -> str:
    """Return the value of a cookie, "" without one.

    A device that was enrolled before names had a prefix stays enrolled; signing in there replaces its cookie.
    """
    fallback = request.cookies.get(name, "") if name in (DEVICE, LANGUAGE) else ""
    return request.cookies.get(_full_name(name), fallback)


def write(response: Response, name: str, value: str, seconds: int | None = None) -> None:
    """Set a cookie; without `seconds` it ends with the browser. Scripts can read WHO only."""
    response.set_cookie(
        _full_name(name), value, max_age=seconds, httponly=name != WHO, samesite="Lax", secure=request.is_secure
    )


def delete(response: Response, name: str) -> None:
    response.delete_cookie(_full_name(name), httponly=True, samesite="Lax", secure=request.is_secure)


def write_who(response: Response, ref: str, person_id: int, organization_id: int) -> None:
    """Say to scripts whose session it is. It outlasts the session: work may go on without a connection."""
    value = f"{ref}.{person_id}.{organization_id}"
    if request.cookies.get(_full_name(WHO)) != value:
        write(response, WHO, value, LONGEST_SECONDS)


def session_token() -> str:
    """Return the token of the session that the request belongs to, "" without one."""
    return read(SESSION)


def _full_name(name: str) -> str:
    return f"__Host-{name}" if request.is_secure else name
