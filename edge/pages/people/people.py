"""People: their roles, passwords, badges and PINs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import abort, render_template, request

from edge.errors import EdgeError, Invalid
from edge.pages import cookies
from edge.pages.double_submit import once
from edge.pages.formatting import ROLES
from edge.pages.forms import Errors, Overtaken, errors_of, opened_with, save_merged, text
from edge.pages.guard import Answer, actor, administrators, current_session
from edge.pages.notices import done
from edge.people import passwords, people, second_factors
from edge.people.people import PersonRow, Role
from edge.people.secrets import hash_secret
from edge.texts import N_


@administrators.get("/people", manual="office#people-and-roles")
def show_people() -> str:
    organization_id = current_session().organization_id
    return render_template(
        "people/people.html",
        people=people.list_people(organization_id),
        with_second_factor=second_factors.holders(organization_id),
    )


@administrators.get("/people/new", manual="office#people-and-roles")
def new_person_form() -> str:
    return _form(None, {"role": "operator"}, {})


@administrators.post("/people/new")
@once
def new_person() -> Answer:
    try:
        values = _entered()
        name, role = values.pop("name"), values.pop("role")
        people.add_person(actor(), name, role, **values)
    except EdgeError as error:
        return _form(None, request.form, errors_of(error)), 400
    return done("/people", "made")


@administrators.get("/people/<int:person_id>/edit", manual="office#people-and-roles")
def edit_person_form(person_id: int) -> str:
    person = _person(person_id)
    return _form(person, person._asdict(), {})


@administrators.post("/people/<int:person_id>/edit")
def edit_person(person_id: int) -> Answer:
    """Save a person. Empty password, PIN and badge fields keep the current values; new values end open sessions."""
    try:
        entered = _entered()
        for name in ("pin", "badge"):
            if f"no_{name}" in request.form:
                entered[f"{name}_hash"] = None
        if "no_badge" in request.form:
            entered["badge_mark"] = None
        keep = hash_secret(cookies.session_token())
        save_merged(
            lambda: _person(person_id),
            _editable,
            entered,
            lambda values, check: people.update_person(actor(), person_id, keep_session=keep, check=check, **values),
        )
    except Overtaken as error:
        return _form(error.row, error.form, {}, error.meanwhile), 409
    except EdgeError as error:
        return _form(_person(person_id), request.form, errors_of(error)), 400
    return done("/people", "changed")


@administrators.post("/people/<int:person_id>/disable")
def disable_person(person_id: int) -> Answer:
    """Disable a person and end their sessions. The last administrator cannot be disabled."""
    person = _person(person_id)
    try:
        people.disable_person(actor(), person_id)
    except EdgeError as error:
        return _form(person, person._asdict(), errors_of(error)), 409
    return done("/people", "disabled")


@administrators.post("/people/<int:person_id>/enable")
def enable_person(person_id: int) -> Answer:
    person = _person(person_id)
    try:
        people.enable_person(actor(), person_id)
    except EdgeError as error:
        return _form(person, person._asdict(), errors_of(error)), 409
    return done("/people", "enabled")


def _person(person_id: int) -> PersonRow:
    return people.find_person(current_session().organization_id, person_id) or abort(404)


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


def _form(person: PersonRow | None, values: Any, errors: Errors, meanwhile: Mapping[str, str] | None = None) -> str:
    return render_template(
        "people/edit-person.html",
        person=person,
        values=values,
        errors=errors,
        meanwhile=meanwhile,
        opened=opened_with(_editable(person)) if person else None,
    )
