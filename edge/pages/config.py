"""A setting of the box, changed by an administrator; most count at once."""

from __future__ import annotations

from flask import abort, render_template, request
from werkzeug.wrappers import Response as AnyResponse

from edge.errors import Invalid
from edge.pages import box_facts
from edge.pages.box_facts import SettingInForce
from edge.pages.forms import Errors, errors_of, text
from edge.pages.guard import actor, pages, require_role
from edge.pages.notices import done
from edge.pages.operations import may_see_the_box
from edge.people.people import Role


@pages.get("/status/settings/<name>")
@require_role(Role.ADMINISTRATOR)
def setting_form(name: str) -> str:
    setting = _setting(name)
    return _page(setting, setting.value, {})


@pages.post("/status/settings/<name>")
@require_role(Role.ADMINISTRATOR)
def change_setting(name: str) -> AnyResponse | tuple[str, int]:
    setting, entered = _setting(name), text(request.form, "value")
    try:
        box_facts.facts().change_setting(actor(), name, entered)
    except Invalid as error:
        return _page(setting, entered, errors_of(error)), 400
    return done(f"/status/settings/{name}", "changed")


@pages.post("/status/settings/<name>/reset")
@require_role(Role.ADMINISTRATOR)
def reset_setting(name: str) -> AnyResponse:
    box_facts.facts().reset_setting(actor(), _setting(name).name)
    return done(f"/status/settings/{name}", "setting-reset")


def _setting(name: str) -> SettingInForce:
    if not may_see_the_box():
        abort(403)
    found = [one for one in box_facts.facts().settings() if one.name == name and one.is_changeable]
    return found[0] if found else abort(404)


def _page(setting: SettingInForce, value: str, errors: Errors) -> str:
    options = [(word, word) for word in setting.words]
    return render_template("config/setting.html", setting=setting, options=options, value=value, errors=errors)
