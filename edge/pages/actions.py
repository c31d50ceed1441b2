"""Views that differ in their functions only: buttons to remove, enable or test a record, its forms, and fragments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flask import request
from werkzeug.wrappers import Response

from edge.pages.double_submit import once
from edge.pages.forms import Errors
from edge.pages.guard import Again, Views, actor, administrators, current_session
from edge.pages.notices import done
from edge.pages.polling import fragment


def add_action(
    views: Views, path: str, act: Callable[..., object], then: str, notice: str, again: Again | None = None
) -> None:
    """Add the route of a button: it calls `act` with the actor and the ids in `path`, and leads to the page `then`, in
    which `{no}` stands for an id of that name. `again` as in `Views.post`.
    """

    def view(**ids: Any) -> Response:
        act(actor(), *ids.values())
        return done(then.format(**ids), notice)

    view.__name__ = path  # names the endpoint
    views.post(path, again=again)(view)


def add_fragment(
    views: Views, path: str, template: str, values: Callable[..., Mapping[str, Any]], *watched: str
) -> None:
    """Add the route of a fragment that a page polls. `values` gets the ids in `path` and returns those of the template.

    While the `watched` ones are unchanged, it answers 304.
    """

    def view(**ids: Any) -> Response:
        shown = values(**ids)
        return fragment(template, tuple(shown[name] for name in watched), **shown)

    view.__name__ = path  # names the endpoint
    views.get(path)(view)


def add_actions(path: str, name: str, store: Any) -> None:
    """Add the buttons that event destinations, channels and outputs have in common. `name` begins their notices.

    `store`: the module of the rows.
    """
    one = f"{path}/<int:no>"
    for act, done_by in (("test", store.request_test), ("enable", store.enable), ("disable", store.disable)):
        add_action(administrators, f"{one}/{act}", done_by, f"{path}/{{no}}", f"{name}-{act.removesuffix('e')}ed")
    add_action(administrators, f"{one}/remove", store.remove, path, f"{name}-removed")


def add_forms(
    path: str, name: str, manual: str, store: Any, form: Callable[..., str], entered: Callable[..., Any]
) -> None:
    """Add the forms to add and to change a record. `name` begins their notices, `store` is the module of the rows.

    `form` shows the form of a row, or of a new one for None, with errors and values; without values those of the row.
    `entered` returns the arguments of `store.add` and `store.change` from a form and the row.
    """

    def find(no: int) -> Any:
        return store.get(current_session().organization_id, no)

    def again(errors: Errors, no: int = 0) -> str:
        return form(find(no) if no else None, errors, request.form)

    def add() -> Response:
        row = store.add(actor(), *entered(request.form, None))
        return done(f"{path}/{row.no}", f"{name}-added")

    def change(no: int) -> Response:
        store.change(actor(), no, *entered(request.form, find(no)))
        return done(f"{path}/{no}", "changed")

    for register, at, view in (
        (administrators.get(f"{path}/new", manual=manual), "new", lambda: form(None)),
        (administrators.post(f"{path}/new", again=again), "add", once(add)),
        (administrators.get(f"{path}/<int:no>/edit", manual=manual), "edit", lambda no: form(find(no))),
        (administrators.post(f"{path}/<int:no>/edit", again=again), "change", change),
    ):
        view.__name__ = f"{path} {at}"  # names the endpoint
        register(view)
