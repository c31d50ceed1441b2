"""Outputs that rules switch: list, state, management, and a test."""

from __future__ import annotations

from collections.abc import Mapping

from flask import render_template

from edge.events.family import Destination
from edge.pages.actions import add_actions, add_forms
from edge.pages.forms import Errors
from edge.pages.guard import administrators, current_session
from edge.pages.translation import gettext
from edge.people.secrets import new_token
from edge.rules.outputs import forms, outputs
from edge.rules.outputs.forms import Entered, Form
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

EMPTY = {"form": Form.SHELLY, "relay": "0", "seconds": "10"}


@administrators.get(PATH, manual="outputs#add-an-output")
def list_outputs() -> str:
    return render_template("rules/outputs.html", rows=outputs.list_outputs(current_session().organization_id))


@administrators.get(f"{PATH}/<int:no>", manual="outputs#switching")
def output(no: int) -> str:
    return render_template("rules/output.html", row=outputs.get(current_session().organization_id, no), forms=FORMS)


def _entered(form: Mapping[str, str], _row: Destination | None) -> tuple[str, Entered]:
    return values.name("name", form.get("name", "").strip()), forms.checked(form)


def _form(row: Destination | None, errors: Errors | None = None, entered: Mapping[str, str] | None = None) -> str:
    if entered is None:
        of_row = {name: str(value) for name, value in row.settings.items()} if row else {}
        entered = {**of_row, "name": row.name, "form": row.kind} if row else EMPTY
    options = [(form, gettext(name)) for form, name in FORMS.items()]
    return render_template(
        "rules/output-form.html", row=row, errors=errors or {}, values=entered, forms=options, once=new_token()
    )


add_forms(PATH, "output", "outputs#add-an-output", outputs, _form, _entered)
add_actions(PATH, "output", outputs)
