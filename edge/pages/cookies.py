"""Cookies of the pages.

With HTTPS their names begin with `__Host-`. Browsers accept such cookies from this host over HTTPS only, so a
neighboring host or a plain HTTP page cannot set them (RFC 6265bis, 4.1.3.2).
"""

from __future__ import annotations

from flask import request
from werkzeug.wrappers import Response

SESSION = "edge_session"
FORM = "edge_form"  # binds forms of visitors without a session
DEVICE = "edge_device"
LANGUAGE = "edge_language"
WHO = "edge_who"  # readable by the scripts of the scan page; identifies the session but gives no access
COLUMNS = "edge_columns"  # of the board
KNOWN = "edge_known"  # proof of an earlier sign-in, see `people.known_browsers`
LONGEST_SECONDS = 400 * 86400  # maximum in browsers


def read(name: str) -> str:
    """Return the value of a cookie, "" without one.

    Also accepts cookies without the prefix for enrolled devices and languages, which may be older than the prefix.
    """
    fallback = request.cookies.get(name, "") if name in (DEVICE, LANGUAGE) else ""
    return request.cookies.get(_full_name(name), fallback)


def write(response: Response, name: str, value: str, seconds: int | None = None) -> None:
    """Set a cookie. Without `seconds` it expires when the browser closes. Scripts can read WHO only."""
    response.set_cookie(
        _full_name(name), value, max_age=seconds, httponly=name != WHO, samesite="Lax", secure=request.is_secure
    )


def delete(response: Response, name: str) -> None:
    response.delete_cookie(_full_name(name), httponly=True, samesite="Lax", secure=request.is_secure)


def write_who(response: Response, ref: str, person_id: int, organization_id: int) -> None:
    """Set the cookie that identifies the session to scripts. It outlives the session for offline work."""
    value = f"{ref}.{person_id}.{organization_id}"
    if request.is_secure and WHO in request.cookies:  # from before HTTPS; it may name another person
        response.delete_cookie(WHO, samesite="Lax")
    if request.cookies.get(_full_name(WHO)) != value:
        write(response, WHO, value, LONGEST_SECONDS)


def session_token() -> str:
    """Return the token of the request's session, "" without one."""
    return read(SESSION)


def _full_name(name: str) -> str:
    return f"__Host-{name}" if request.is_secure else name
