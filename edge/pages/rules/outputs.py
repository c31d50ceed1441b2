"""Outputs that rules switch: list, state, management, and a test."""

from __future__ import annotations

from collections.abc import Mapping

from flask import render_template, request

from edge.errors import EdgeError
from edge.pages.actions import add_actions
from edge.pages.double_submit import once
from edge.pages.forms import errors_of
from edge.pages.guard import Answer, actor, administrators, current_session
from edge.pages.notices import done
from edge.pages.translation import gettext
from edge.people.secrets import new_token
from edge.rules.outputs import forms, outputs
from edge.rules.outputs.forms import Form
from edge.rules.outputs.outputs import Output
from edge.texts import N_
from edge.validation import values

PATH = "/outputs"
FORMS = {
    Form.SHELLY: N_("Shelly, generation 2 and later"),
    Form.SHELLY_1: N_("Shelly, generation 1"),
    Form.TASMOTA: "Tasmota",
    Form.ZIGBEE2MQTT: "Zigbee2MQTT",
    Form.TOPIC: N_("Another device: any topic and message"),
}


@administrators.get(PATH, manual="outputs#add-an-output")
def list_outputs() -> str:
    return render_template("rules/outputs.html", rows=outputs.list_outputs(current_session().organization_id))


@administrators.get(f"{PATH}/new", manual="outputs#add-an-output")
def new_output_form() -> str:
    return _form(None, {}, {"form": Form.SHELLY, "relay": "0", "seconds": "10"})


@administrators.post(f"{PATH}/new")
@once
def new_output() -> Answer:
    try:
        row = outputs.add(actor(), _name(), forms.checked(request.form))
    except EdgeError as error:
        return _form(None, errors_of(error), request.form), 400
    return done(f"{PATH}/{row.no}", "output-added")


@administrators.get(f"{PATH}/<int:no>", manual="outputs#switching")
def output(no: int) -> str:
    return render_template("rules/output.html", row=outputs.get(current_session().organization_id, no), forms=FORMS)


@administrators.get(f"{PATH}/<int:no>/edit", manual="outputs#add-an-output")
def edit_output_form(no: int) -> str:
    row = outputs.get(current_session().organization_id, no)
    names = ("name", "form", "device", "relay", "on_payload", "off_payload", "seconds")
    return _form(row, {}, {name: str(getattr(row, name)) for name in names})


@administrators.post(f"{PATH}/<int:no>/edit")
def edit_output(no: int) -> Answer:
    row = outputs.get(current_session().organization_id, no)
    try:
        outputs.change(actor(), no, _name(), forms.checked(request.form))
    except EdgeError as error:
        return _form(row, errors_of(error), request.form), 400
    return done(f"{PATH}/{no}", "changed")


add_actions(PATH, "output", outputs)


def _name() -> str:
    return values.name("name", request.form.get("name", "").strip())


def _form(row: Output | None, errors: Mapping[str, str], entered: Mapping[str, str]) -> str:
    names = [(form, gettext(name)) for form, name in FORMS.items()]
    return render_template(
        "rules/output-form.html", row=row, errors=errors, values=entered, forms=names, once=new_token()
    )
