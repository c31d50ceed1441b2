"""The columns of the board, as chosen on this device."""

from __future__ import annotations

from collections.abc import Iterable

from flask import redirect, request
from werkzeug.wrappers import Response

from edge.pages import cookies
from edge.pages.guard import is_own_path, viewers
from edge.texts import N_

# The name is always shown.
COLUMNS = {
    "key": N_("Key"),
    "location": N_("Location"),
    "area": N_("Area"),
    "since": N_("There for"),
    "seen": N_("Not seen for"),
    "borrower": N_("Borrower"),
}
USUAL = ("key", "location", "since", "seen")
_SEPARATOR = "."  # needs no quotes in a cookie


@viewers.post("/board/columns")
def choose_columns() -> Response:
    """Save the columns for this device."""
    back = request.form.get("next", "")
    response = redirect(back if is_own_path(back) else "/", 303)
    chosen = _known(request.form.getlist("column"))
    if chosen == USUAL:
        cookies.delete(response, cookies.COLUMNS)
    else:
        cookies.write(response, cookies.COLUMNS, _SEPARATOR.join(("name", *chosen)), cookies.LONGEST_SECONDS)
    return response


def chosen_columns() -> tuple[str, ...]:
    """Return the columns to show on this device."""
    saved = cookies.read(cookies.COLUMNS)
    return _known(saved.split(_SEPARATOR)) if saved else USUAL


def columns_of_file() -> tuple[str, ...] | None:
    """Return the columns that the query asks for, or None without any."""
    asked = request.args.get("columns")
    return None if asked is None else _known(asked.split(_SEPARATOR))


def query_of_file() -> dict[str, str]:
    """Return the query for `columns_of_file` with the columns of this device, nothing with the usual ones."""
    chosen = chosen_columns()
    return {} if chosen == USUAL else {"columns": _SEPARATOR.join(("name", *chosen))}


def _known(names: Iterable[str]) -> tuple[str, ...]:
    given = set(names)
    return tuple(name for name in COLUMNS if name in given)
