"""People: their roles, passwords, badges and PINs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import abort, render_template, request

from edge.errors import Invalid
from edge.pages import cookies
from edge.pages.actions import add_action
from edge.pages.double_submit import once
from edge.pages.formatting import ROLES
from edge.pages.forms import Errors, Overtaken, opened_with, save_merged, text
from edge.pages.guard import Answer, actor, administrators, organization_id
from edge.pages.notices import done
from edge.people import passwords, people, second_factors
from edge.people.people import PersonRow, Role
from edge.people.secrets import hash_secret
from edge.texts import N_


@administrators.get("/people", manual="office#people-and-roles")
def show_people() -> str:
    return render_template(
        "people/people.html",
        people=people.list_people(organization_id()),
        with_second_factor=second_factors.holders(organization_id()),
    )


def _form(
    errors: Errors, person_id: int | None = None, values: Any = None, meanwhile: Mapping[str, str] | None = None
) -> str:
    """Return the form of a person with `values`, or else with what was entered or is saved."""
    person = None if person_id is None else _person(person_id)
    saved = person._asdict() if person else {"role": "operator"}
    return render_template(
        "people/edit-person.html",
        person=person,
        values=values or (request.form if "name" in request.form else saved),
        errors=errors,
        meanwhile=meanwhile,
        opened=opened_with(_editable(person)) if person else None,
    )


@administrators.form("/people/new", _form, "office#people-and-roles")
@once
def new_person() -> Answer:
    values = _entered()
    name, role = values.pop("name"), values.pop("role")
    people.add_person(actor(), name, role, **values)
    return done("/people", "made")


@administrators.form("/people/<int:person_id>/edit", _form, "office#people-and-roles")
def edit_person(person_id: int) -> Answer:
    """Save a person. Empty password, PIN and badge fields keep the current values; new values end open sessions."""
    entered = _entered()
    for name in ("pin", "badge"):
        if f"no_{name}" in request.form:
            entered[f"{name}_hash"] = None
    if "no_badge" in request.form:
        entered["badge_mark"] = None
    keep = hash_secret(cookies.session_token())
    try:
        save_merged(
            lambda: _person(person_id),
            _editable,
            entered,
            lambda values, check: people.update_person(actor(), person_id, keep_session=keep, check=check, **values),
        )
    except Overtaken as error:
        return _form({}, person_id, error.form, error.meanwhile), 409
    return done("/people", "changed")


# The last administrator cannot be disabled.
add_action(administrators, "/people/<int:person_id>/disable", people.disable_person, "/people", "disabled", _form)
add_action(administrators, "/people/<int:person_id>/enable", people.enable_person, "/people", "enabled", _form)


def _person(person_id: int) -> PersonRow:
    return people.find_person(organization_id(), person_id) or abort(404)


def _editable(person: PersonRow) -> dict[str, Any]:
    """Return the saved values of the form's fields."""
    return {"name": person.name, "email": person.email, "role": Role(person.role)}


def _entered() -> dict[str, Any]:
    form = request.form
    if form.get("role") not in ROLES:
        raise Invalid.one("role", "invalid_value", N_("Choose one from the list"))
    values: dict[str, Any] = {
        "name": text(form, "name"),
        "email": text(form, "email") or None,
        "role": Role(form["role"]),
    }
    if form.get("password"):
        values["password_hash"] = passwords.hash_password(form["password"])
    if form.get("pin"):
        values["pin_hash"] = passwords.hash_pin(form["pin"], values["role"])
    if text(form, "badge"):
        values["badge_hash"] = passwords.hash_badge(text(form, "badge"))
        values["badge_mark"] = passwords.badge_mark(text(form, "badge"))
    return values
