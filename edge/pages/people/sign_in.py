"""Sign-in with optional second factor, sign-out, the account page, and the choice of a language."""

from __future__ import annotations

from typing import Any

from flask import Response, abort, g, jsonify, make_response, redirect, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from edge.errors import Invalid
from edge.pages import cookies, kept_forms
from edge.pages.forms import Errors, json_object, whole
from edge.pages.guard import (
    Answer,
    actor,
    address,
    current_session,
    device,
    is_own_path,
    next_path,
    organization_id,
    public,
    viewers,
    wants_json,
)
from edge.pages.notices import done
from edge.pages.translation import LANGUAGES
from edge.people import passwords, people, second_factors, tokens
from edge.people import sessions as session_store
from edge.people import sign_in as sessions
from edge.people.devices import DeviceRow
from edge.people.people import Role
from edge.people.secrets import hash_secret
from edge.readers import sleds
from edge.services import services
from edge.texts import N_

# Signs in the header User-Agent, the most particular ones first.
_BROWSERS = (("Edg", "Edge"), ("OPR/", "Opera"), ("Firefox", "Firefox"), ("Chrome", "Chrome"), ("Safari", "Safari"))
_SYSTEMS = (
    *(("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Windows", "Windows")),
    *(("Macintosh", "macOS"), ("CrOS", "ChromeOS"), ("Linux", "Linux")),
)


@public.get("/sign-in", manual="troubleshooting#sign-in")
def sign_in_page() -> Answer:
    if g.session is not None:
        return redirect(next_path(), 303)
    return _page()


@public.post("/sign-in")
def sign_in() -> Answer:
    """Sign in by password; on an enrolled device also by badge, or by name and PIN.

    With a second factor, the response to the password is a form for the code, which is posted here, too.
    """
    form, here = request.form, device()
    if "continue" in form:  # from a form that was kept during the sign-in
        return make_response(_page())
    answer = _authenticate(here)
    if isinstance(answer, sessions.Refused):
        return _refused(answer)
    _end_session()
    kept = kept_forms.kept(form.get("kept", ""))
    if kept is not None:
        response: AnyResponse = make_response(_kept_form_page(kept, answer.token))
    else:
        response = redirect(next_path("/scan" if answer.person.role == Role.OPERATOR else "/home"), 303)
    cookies.write(response, cookies.SESSION, answer.token, services().config.pages_session_hours * 3600)
    cookies.write_who(response, answer.ref, answer.person.id, answer.person.organization_id)
    if answer.proof:
        cookies.write(response, cookies.KNOWN, answer.proof, cookies.LONGEST_SECONDS)
    if here is not None:  # extends the enrollment of a device in use
        cookies.write(response, cookies.DEVICE, cookies.read(cookies.DEVICE), cookies.LONGEST_SECONDS)
    return response


def _browser() -> str:
    """Return what a person recognizes their browser by, such as "Firefox, Android"."""
    agent = request.headers.get("User-Agent", "")
    found = (next((name for sign, name in signs if sign in agent), "") for signs in (_BROWSERS, _SYSTEMS))
    return ", ".join(filter(None, found))


def _end_session() -> None:
    """Sign out. The reads of the person's sled have no location until the next choice."""
    if g.session is not None:
        sleds.end_choice(actor())
    sessions.sign_out(cookies.session_token())


def _authenticate(here: DeviceRow | None) -> sessions.SignIn | sessions.Refused:
    form, config = request.form, services().config
    client: dict[str, Any] = {"address": address(), "hours": config.pages_session_hours, "browser": _browser()}
    known: dict[str, Any] = {**client, "proof": cookies.read(cookies.KNOWN), "device": here}
    if "challenge" in form:
        return sessions.enter_code(form["challenge"], form.get("code", ""), form.get("recovery", ""), **known)
    if "email" in form or here is None:
        return sessions.sign_in(form.get("email", ""), form.get("password", ""), **known)
    badge, person_id, pin = form.get("badge", ""), form.get("person", 0, type=whole), form.get("pin", "")
    is_pin_required = config.pages_pin_required
    return sessions.sign_in_on_device(
        here, badge=badge, person_id=person_id, pin=pin, is_pin_required=is_pin_required, **client
    )


def _kept_form_page(form: kept_forms.KeptForm, token: str) -> str:
    """Show the form that was submitted before the sign-in, in the new session."""
    g.session, g.csrf = sessions.find(token), sessions.csrf_token(token)
    return render_template("kept-form.html", form=form)


@public.post("/sign-out")
def sign_out() -> Answer:
    _end_session()
    response = redirect("/sign-in", 303)
    cookies.delete(response, cookies.SESSION)
    cookies.delete(response, cookies.WHO)
    return response


def _account(errors: Errors) -> str:
    own = current_session()
    return render_template(
        "people/account.html",
        errors=errors,
        person=people.find_person(own.organization_id, own.person_id),
        second_factor=second_factors.find(own.organization_id, own.person_id),
        sessions=session_store.list_sessions(own.organization_id, own.person_id),
    )


@viewers.form("/account", _account, "office#account")
def change_password() -> Answer:
    """Change the person's own password and end all other sessions of the person."""
    form, person = request.form, people.find_person(organization_id(), current_session().person_id)
    if person is None or not sessions.is_own_password(person, form.get("present", ""), address=address()):
        raise Invalid.one("present", "invalid_value", N_("Current password is wrong"))
    if form.get("password") != form.get("again"):
        raise Invalid.one("again", "invalid_value", N_("The passwords differ"))
    new_hash = passwords.hash_password(form.get("password", ""))
    here = hash_secret(cookies.session_token())
    people.update_person(actor(), person.id, keep_session=here, password_hash=new_hash)
    return done("/account", "password")


@viewers.post("/account/sessions/end")
def end_sessions() -> Answer:
    """End one other session of the person, or all others."""
    session_store.end_sessions(actor(), hash_secret(cookies.session_token()), request.form.get("ref", ""))
    return done("/account", "sessions-ended")


@viewers.post("/account/token")
def session_token() -> Response | str:
    """Issue a short-lived API token with the permissions of the role (interface: Authentication 6)."""
    environment = services().config.environment
    token = tokens.session_token(environment, current_session(), cookies.session_token())
    if wants_json():
        seconds = tokens.SESSION_LIFETIME_SECONDS
        return jsonify(access_token=token, token_type="Bearer", expires_in=seconds)  # noqa: S106 - not a secret
    return render_template("people/account-token.html", token=token, seconds=tokens.SESSION_LIFETIME_SECONDS)


def _page(refused: sessions.Refused | None = None) -> str:
    here = device()
    names = []
    if here is not None:
        names = [
            person
            for person in people.list_people(here.organization_id)
            if person.disabled_at is None and person.role != Role.ADMINISTRATOR
        ]
    by_password = here is None or "password" in request.args or {"email", "challenge"} & set(request.form)
    return render_template(
        "people/sign-in.html",
        kept=request.form.get("kept", ""),
        device=here,
        names=names,
        by_password=by_password,
        refused=refused,
        clock_matters=refused is not None and refused.reason == sessions.WRONG_CODE,
        next=next_path(""),
    )


def _refused(answer: sessions.Refused) -> Response:
    if answer.wait_seconds:
        response = make_response(_page(answer), 429)
        response.headers["Retry-After"] = str(answer.wait_seconds)
        return response
    is_next_step = not answer.reason and (answer.is_pin_missing or answer.challenge)
    return make_response(_page(answer), 200 if is_next_step else 403)


@public.post("/language")
def choose_language() -> Answer:
    """Save the language of the signed-in person, or of this device without a session."""
    entered = json_object() if request.is_json else request.form
    code = entered.get("language")
    if not isinstance(code, str) or code not in LANGUAGES:
        abort(400, "language: one of " + ", ".join(LANGUAGES))
    back = request.values.get("next", "")
    response = jsonify(language=code) if wants_json() else redirect(back if is_own_path(back) else "/", 303)
    if g.session is not None:
        people.update_person(actor(), g.session.person_id, language=code)
    else:
        cookies.write(response, cookies.LANGUAGE, code, cookies.LONGEST_SECONDS)
    return response
