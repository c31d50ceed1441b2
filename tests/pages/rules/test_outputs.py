"""Setup, Outputs: administrators add, test and change the outputs of their organization."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from edge.audit.actors import shell
from edge.events.family import Destination
from edge.people.people import Role
from edge.rules import rules
from edge.rules.outputs import forms, outputs
from tests.conftest import Cast
from tests.pages.conftest import Browser

SignIn = Callable[..., Browser]
HORN = {"name": "Horn", "form": "tasmota", "device": "horn", "relay": "0", "seconds": "10"}


def add_horn(organization_id: int) -> Destination:
    return outputs.add(shell(organization_id), "Horn", forms.checked(HORN))


def test_an_output_is_added_and_changed(sign_in_as: SignIn, cast: Cast) -> None:
    browser = sign_in_as(Role.ADMINISTRATOR)
    assert browser.post("/outputs/new", HORN).status_code == 303
    (row,) = outputs.list_outputs(cast.acme)
    assert (row.topic, row.settings["seconds"]) == ("cmnd/horn/POWER", 10)
    assert "cmnd/horn/POWER" in browser.get("/outputs").text
    browser.post(f"/outputs/{row.no}/edit", {**HORN, "name": "Siren", "relay": "2"})
    assert outputs.get(cast.acme, row.no).topic == "cmnd/horn/POWER2"
    assert 'value="2"' in browser.get(f"/outputs/{row.no}/edit").text


@pytest.mark.parametrize(
    ("wrong", "marked"),
    [
        ({"form": "topic", "device": "edge/doctor", "on_payload": "x"}, "belong to this program"),
        ({"form": "topic", "device": "a/#", "on_payload": "x"}, "use no + or #"),
        ({"form": "topic", "device": "a/b"}, "enter the message that switches the device on"),
        ({"seconds": "9999"}, "enter 0 to 3600"),
        ({"form": "lamp"}, "choose one from the list"),
        ({"name": ""}, "name"),
    ],
)
def test_what_is_wrong_is_marked(sign_in_as: SignIn, cast: Cast, wrong: dict[str, str], marked: str) -> None:
    answer = sign_in_as(Role.ADMINISTRATOR).post("/outputs/new", {**HORN, **wrong})
    assert (answer.status_code, marked in answer.text) == (400, True)
    assert outputs.list_outputs(cast.acme) == []


def test_a_name_that_is_taken_shows_the_form_again(sign_in_as: SignIn, cast: Cast) -> None:
    row = add_horn(cast.acme)
    browser = sign_in_as(Role.ADMINISTRATOR)
    browser.post("/outputs/new", {**HORN, "name": "Siren", "device": "siren"})
    for path in ("/outputs/new", f"/outputs/{outputs.list_outputs(cast.acme)[1].no}/edit"):
        answer = browser.post(path, {**HORN, "name": row.name, "device": "bell"})
        assert answer.status_code == 409
        assert "An output Horn already exists" in answer.text
        assert 'value="bell"' in answer.text
    assert [one.name for one in outputs.list_outputs(cast.acme)] == ["Horn", "Siren"]


def test_an_editor_chooses_outputs_in_a_rule(sign_in_as: SignIn, cast: Cast) -> None:
    row = add_horn(cast.acme)
    browser = sign_in_as(Role.EDITOR)
    assert "Switch Horn on for 10 s" in browser.get("/rules/new").text
    days = [str(day) for day in range(7)]
    entered = {"name": "Offline", "kind": "offline", "asset_kind": "all", "days": days, "outputs": [str(row.no)]}
    assert browser.post("/rules/new", entered).status_code == 303
    (rule,) = rules.list_rules(cast.acme)
    assert rule.fields.outputs == str(row.no)
    assert browser.post("/rules/new", {**entered, "name": "Other", "outputs": ["99"]}).status_code == 400


def test_hostile_texts_are_escaped(sign_in_as: SignIn, cast: Cast) -> None:
    entered = {"form": "topic", "device": "a/b", "on_payload": "<script>x</script>", "off_payload": ""}
    row = outputs.add(shell(cast.acme), "<b>Horn", forms.checked(entered))
    browser = sign_in_as(Role.ADMINISTRATOR)
    for path in ("/outputs", f"/outputs/{row.no}", f"/outputs/{row.no}/edit", "/rules/new"):
        page = browser.get(path).text
        assert "<b>Horn" not in page
        assert "<script>x" not in page
