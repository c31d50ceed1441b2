"""Rules: list, form and preview."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import render_template, request

from edge import clock
from edge.doors import doors
from edge.errors import Invalid
from edge.muster import plans
from edge.pages.actions import add_action
from edge.pages.double_submit import once
from edge.pages.forms import MOST_DIGITS, Errors, text, whole
from edge.pages.guard import Answer, actor, current_session, editors, viewers
from edge.pages.notices import done
from edge.pages.translation import gettext, named
from edge.readers import readers
from edge.rules import rules, sentences
from edge.rules.channels import channels
from edge.rules.conditions import CONDITIONS, MOST_ASSETS, AssetKind, Condition
from edge.rules.outputs import outputs
from edge.rules.rule_preview import DAYS, Preview, preview
from edge.rules.rules import ALL_DAYS, Rule, RuleFields
from edge.services import services
from edge.texts import N_
from edge.tracking import location_board
from edge.validation.values import minute_of_day, time_of_day

ASSETS = {
    AssetKind.ALL: N_("any asset"),
    AssetKind.KEY: N_("an asset whose key begins with"),
    AssetKind.METADATA: N_("an asset with the metadata"),
}
DIRECTIONS = {"any": N_("in any direction"), "in": N_("inward"), "out": N_("outward")}
EMPTY: Mapping[str, Any] = {"asset_kind": "all", "kind": "enters", "unit": "hours", "days": [str(n) for n in range(7)]}


@viewers.get("/rules", manual="rules#set-up-a-rule")
def list_rules() -> str:
    rows = [(row, sentences.describe(row.fields, row.place_name)) for row in _rules()]
    return render_template("rules/rules.html", rows=rows)


@editors.get("/rules/new", manual="rules#set-up-a-rule")
def new_rule_form() -> str:
    return _form(None, EMPTY, {})


def _again(errors: Errors, no: int = 0) -> str:
    return _form(_rule(no) if no else None, _shown(), errors)


@editors.post("/rules/new", again=_again)
@once
def new_rule() -> Answer:
    entered = _entered()
    if "preview" in request.form:
        return _form(None, _shown(), {}, _preview(entered)), 200
    rules.add_rule(actor(), entered)
    return done("/rules", "made")


@editors.get("/rules/<int:no>", manual="rules#set-up-a-rule")
def edit_rule_form(no: int) -> str:
    rule = _rule(no)
    return _form(rule, _saved(rule.fields), {}, preview(rule, services().zone), is_previewed=True)


@editors.post("/rules/<int:no>", again=_again)
def edit_rule(no: int) -> Answer:
    entered = _entered()
    if "preview" in request.form:
        return _form(_rule(no), _shown(), {}, _preview(entered))
    rules.change_rule(actor(), no, entered)
    return done("/rules", "changed")


add_action(editors, "/rules/<int:no>/enable", rules.enable_rule, "/rules", "rule-enabled")
add_action(editors, "/rules/<int:no>/disable", rules.disable_rule, "/rules", "rule-disabled")
add_action(editors, "/rules/<int:no>/remove", rules.remove_rule, "/rules", "rule-removed")


def _rules() -> list[Rule]:
    return rules.list_rules(current_session().organization_id)


def _rule(no: int) -> Rule:
    return rules.get(current_session().organization_id, no)


def _preview(entered: RuleFields) -> Preview | None:
    """Return the preview of a form. Raises Invalid."""
    organization_id, now = current_session().organization_id, clock.now()
    checked = rules.check(organization_id, entered)
    place = location_board.name_of(organization_id, checked.location_id)
    return preview(Rule(0, organization_id, checked, now, now, None, True, place), services().zone)


def _form(
    rule: Rule | None,
    values: Mapping[str, Any],
    errors: Errors,
    previewed: Preview | None = None,
    *,
    is_previewed: bool = False,
) -> str:
    organization_id = current_session().organization_id
    return render_template(
        "rules/rule.html",
        rule=rule,
        values=values,
        errors=errors,
        preview=previewed,
        is_previewed=is_previewed or (not errors and "preview" in request.form),
        preview_days=DAYS,
        locations=location_board.choices(organization_id),
        doors=[(row.id, row.name) for row in doors.list_doors(organization_id)],
        channels=channels.list_channels(organization_id),
        outputs=outputs.list_outputs(organization_id),
        muster_plans=plans.list_plans(organization_id),
        readers=[(row.id, row.name) for row in readers.list_readers(organization_id)],
        assets=named(ASSETS),
        conditions=[(kind, gettext(one.choice), " ".join(sorted(one.uses))) for kind, one in CONDITIONS.items()],
        directions=named(DIRECTIONS),
        units=named(sentences.UNIT_NAMES),
        day_names=[(day, gettext(name)) for day, name in enumerate(sentences.DAY_NAMES)],
    )


def _shown() -> dict[str, Any]:
    return {**request.form, **{name: request.form.getlist(name) for name in ("days", "channels", "outputs", "musters")}}


def _saved(fields: RuleFields) -> dict[str, Any]:
    """Return the values of the form for a saved rule."""
    amount, unit = sentences.amount_and_unit(fields.span) if fields.span else ("", "hours")
    return {
        **{name: "" if value is None else value for name, value in fields._asdict().items()},
        "channels": fields.channels.split(),
        "outputs": fields.outputs.split(),
        "musters": fields.musters.split(),
        "amount": amount,
        "unit": unit,
        "days": [str(day) for day in range(7) if fields.days >> day & 1],
        "from": "" if fields.is_always_on else time_of_day(fields.from_minute),
        "until": "" if fields.is_always_on else time_of_day(fields.until_minute),
    }


def _entered() -> RuleFields:
    """Return the entered rule. Raises Invalid."""
    form = request.form
    unit = sentences.UNITS.get(form.get("unit", ""), clock.HOUR)
    begin, end = minute_of_day("from", form.get("from", "")), minute_of_day("until", form.get("until", ""))
    return RuleFields(
        text(form, "name"),
        next((kind for kind in Condition if kind == form.get("kind")), Condition.ENTERS),
        next((kind for kind in AssetKind if kind == form.get("asset_kind")), AssetKind.ALL),
        text(form, "asset_name"),
        text(form, "asset_value"),
        form.get("location_id", 0, type=whole) or None,
        form.get("door_id", 0, type=whole) or None,
        form.get("direction", "any"),
        form.get("reader_id", 0, type=whole) or None,
        min(_number("amount"), MOST_ASSETS) * unit,
        _number("number"),
        sum(1 << int(day) for day in {*form.getlist("days")} if day in "0123456" and len(day) == 1) & ALL_DAYS,
        begin or 0,
        end or rules.DAY_MINUTES,
        _numbers("channels"),
        _numbers("outputs"),
        _numbers("musters"),
    )


def _numbers(name: str) -> str:
    return " ".join(no for no in request.form.getlist(name) if no.isdecimal() and len(no) <= MOST_DIGITS)


def _number(name: str) -> int:
    try:
        return whole(request.form.get(name, "").strip() or "0")
    except ValueError as error:
        raise Invalid.one(name, "invalid_value", N_("Enter a whole number")) from error
