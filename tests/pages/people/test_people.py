"""People: roles, passwords, and the last administrator."""

from __future__ import annotations

from flask import Flask

from edge import clock
from edge.audit import actors, trail
from edge.audit.actors import shell
from edge.people import people, sessions
from edge.people.people import Role
from edge.people.secrets import hash_secret
from tests.conftest import Cast
from tests.pages.conftest import Browser, SignIn, opened_with


def test_the_last_administrator_stays(admin: Browser, cast: Cast) -> None:
    last = people.list_people(cast.acme)[0]
    assert admin.post(f"/people/{last.id}/disable").status_code == 409
    answer = admin.edit(f"/people/{last.id}/edit", {"name": last.name, "role": "viewer"})
    assert "last administrator" in answer.text
    assert people.list_people(cast.acme)[0].role == Role.ADMINISTRATOR


def test_a_new_password_ends_the_sessions_of_the_person(admin: Browser, sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.EDITOR)
    person = browser.get("/scan/state").json["person"]  # type: ignore[index]
    assert admin.edit(f"/people/{person}/edit", {"name": "Ed", "role": "editor", "pin": "12"}).status_code == 400
    entered = {"name": "Ed", "role": "editor", "password": "a whole new password"}
    assert admin.edit(f"/people/{person}/edit", entered).status_code == 303
    assert browser.get("/").status_code == 303


def test_changing_the_own_password_ends_the_other_sessions(app: Flask, admin: Browser, cast: Cast) -> None:
    person = admin.get("/scan/state").json["person"]  # type: ignore[index]
    sessions.add_session(actors.person(cast.acme, person, "Ada"), hash_secret("elsewhere"), clock.now() + clock.HOUR)
    entered = {"name": "Ada", "role": "administrator", "password": "a whole new password"}
    assert admin.edit(f"/people/{person}/edit", entered).status_code == 303
    assert Browser(app, "elsewhere").get("/").status_code == 303
    assert admin.get("/").status_code == 200


def test_a_changed_role_takes_effect_immediately(admin: Browser, sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.EDITOR)
    person = browser.get("/scan/state").json["person"]  # type: ignore[index]
    admin.edit(f"/people/{person}/edit", {"name": "Ed", "role": "viewer"})
    assert browser.get("/assets/new").status_code == 403


def test_changes_by_administrators_are_in_the_audit(admin: Browser, cast: Cast) -> None:
    admin.post("/people/new", {"name": "Olga", "role": "operator", "badge": "B-1"})
    admin.post("/keys/new", {"name": "WMS", "assets": "write", "tracking": "read"})
    acts = trail.recent(cast.acme, 2)
    assert [act.action for act in acts] == ["key.created", "person.created"]
    assert acts[0].detail["scopes"] == ["assets:read", "assets:write", "tracking:read"]
    assert "edge_" not in str(acts)


def test_two_editors_of_a_person_see_both_values(admin: Browser, cast: Cast) -> None:
    person = people.add_person(shell(cast.acme), "Olga", Role.OPERATOR)
    path = f"/people/{person.id}/edit"
    entered = {"name": "Olga C", "role": "operator", "opened": opened_with(admin.get(path).text)}
    people.update_person(shell(cast.acme), person.id, name="Olga B")
    answer = admin.post(path, entered)
    assert answer.status_code == 409
    assert "saved: <b>Olga B</b>" in answer.text
    assert people.list_people(cast.acme)[-1].name != "Olga C"
