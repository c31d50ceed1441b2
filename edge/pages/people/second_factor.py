"""Setup and removal of a person's own second factor."""

from __future__ import annotations

from flask import abort, make_response, render_template, request

from edge.errors import Conflict
from edge.pages import cookies, record_links
from edge.pages.double_submit import once
from edge.pages.guard import Answer, actor, address, current_session, organization_id, viewers
from edge.pages.notices import done
from edge.pages.translation import gettext
from edge.people import people, second_factor, second_factors, sign_in
from edge.people.people import PersonRow
from edge.people.secrets import hash_secret
from edge.texts import N_

WRONG_PASSWORD = N_("Current password is wrong")
WRONG_FIRST_CODE = N_("Wrong code. Wait for the next one and enter it")


@viewers.get("/account/second-factor", manual="office#two-factor-authentication")
def second_factor_page() -> str:
    return _page()


@viewers.post("/account/second-factor")
@once
def begin_second_factor() -> Answer:
    """Show the secret for the authenticator app once. Requires the password, because an open session is not enough."""
    person = _person()
    if not sign_in.is_own_password(person, request.form.get("present", ""), address=address()):
        return _page({"present": gettext(WRONG_PASSWORD)}), 400
    try:
        secret = second_factor.begin(actor())
    except Conflict:
        return done("/account/second-factor", "second-factor-is-on")
    code = record_links.qr(second_factor.link(secret, person.email or person.name))
    return _page(step="confirm", secret=secret, code=code)


@viewers.post("/account/second-factor/confirm")
@once
def confirm_second_factor() -> Answer:
    """Enable the second factor after the first valid code, and show the recovery codes once."""
    try:
        codes = second_factor.confirm(actor(), request.form.get("code", ""), hash_secret(cookies.session_token()))
    except Conflict:
        return done("/account/second-factor", "second-factor-too-late")
    if codes is None:
        return _page({"code": gettext(WRONG_FIRST_CODE)}, step="confirm"), 400
    return _page(step="codes", codes=codes)


@viewers.post("/account/second-factor/remove")
def remove_second_factor() -> Answer:
    """Remove the second factor. Requires a code, because an open session is not enough."""
    person, form = _person(), request.form
    fault = sign_in.check_own_code(person, form.get("code", ""), form.get("recovery", ""), address=address())
    if fault:
        clock_matters = fault == sign_in.WRONG_CODE
        return make_response(_page({"": gettext(fault)}, clock_matters=clock_matters), 400)
    second_factors.remove(actor(), person.id)
    return done("/account/second-factor", "second-factor-removed")


def _person() -> PersonRow:
    return people.find_person(organization_id(), current_session().person_id) or abort(404)


def _page(errors: dict[str, str] | None = None, step: str = "", **shown: object) -> str:
    """Show a step of the setup: "confirm" or "codes"."""
    session = current_session()
    return render_template(
        "people/second-factor.html",
        errors=errors or {},
        step=step,
        factor=second_factors.find(session.organization_id, session.person_id),
        has_password=_person().password_hash is not None,
        **shown,
    )
