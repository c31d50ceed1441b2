"""Setting for assets that are people: which ones, who sees where they are, and how long that is kept."""

from __future__ import annotations

from collections.abc import Mapping

from flask import render_template, request

from edge.errors import Invalid
from edge.pages.forms import Errors, text, whole
from edge.pages.guard import Answer, actor, administrators, organization_id
from edge.pages.notices import done
from edge.pages.translation import gettext
from edge.people.people import Role
from edge.texts import N_
from edge.tracking import tracked_people
from edge.tracking.tracked_people import MUSTER_ROLES, PeopleSetting

PATH = "/people/positions"
SEEN_BY = {
    Role.ADMINISTRATOR: N_("Administrators only"),
    Role.EDITOR: N_("Editors and administrators"),
    Role.OPERATOR: N_("Operators, editors and administrators"),
    Role.VIEWER: N_("Everyone who can sign in"),
}


def _page(errors: Errors) -> str:
    return render_template(
        "people/positions.html",
        values=request.form or tracked_people.setting(organization_id())._asdict(),
        errors=errors,
        count=tracked_people.count(organization_id()),
        seen_by=[(role, gettext(words)) for role, words in SEEN_BY.items()],
        muster_by=[(role, gettext(SEEN_BY[role])) for role in MUSTER_ROLES],
    )


@administrators.form(PATH, _page, "people-positions#set-up")
def change_people_setting() -> Answer:
    tracked_people.save(actor(), _entered(request.form))
    return done(PATH, "changed")


def _entered(form: Mapping[str, str]) -> PeopleSetting:
    return PeopleSetting(
        text(form, "key_prefix"),
        text(form, "metadata_name"),
        text(form, "metadata_value"),
        next((role for role in SEEN_BY if role == form.get("seen_by")), Role.ADMINISTRATOR),
        next((role for role in MUSTER_ROLES if role == form.get("muster_by")), Role.OPERATOR),
        "is_in_api" in form,
        _days(form, "history_days"),
        _days(form, "report_days"),
        "is_on_walls" in form,
    )


def _days(form: Mapping[str, str], field: str) -> int:
    try:
        return whole(form.get(field, "").strip())
    except ValueError as error:
        raise Invalid.one(field, "invalid_value", N_("Enter a whole number")) from error
