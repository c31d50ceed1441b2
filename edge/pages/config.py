"""The page to change one setting. For administrators."""

from __future__ import annotations

from flask import abort, render_template, request

from edge.config.live import SettingState
from edge.pages.forms import Errors, text
from edge.pages.guard import Answer, actor, administrators
from edge.pages.notices import done
from edge.pages.operations import may_see_the_box
from edge.services import services


def _page(errors: Errors, name: str) -> str:
    setting = _setting(name)
    options = [(choice, choice) for choice in setting.choices]
    value = request.form.get("value", setting.value)
    return render_template("config/setting.html", setting=setting, options=options, value=value, errors=errors)


@administrators.form("/status/settings/<name>", _page, "settings#changes-while-the-service-runs")
def change_setting(name: str) -> Answer:
    services().settings.change(actor(), _setting(name).name, text(request.form, "value"))
    return done(f"/status/settings/{name}", "changed")


@administrators.post("/status/settings/<name>/reset")
def reset_setting(name: str) -> Answer:
    services().settings.reset(actor(), _setting(name).name)
    return done(f"/status/settings/{name}", "setting-reset")


def _setting(name: str) -> SettingState:
    if not may_see_the_box():
        abort(403)
    states = services().settings.states()
    return next((row for row in states if row.name == name and row.is_changeable), None) or abort(404)
