"""Saved filters of the board, and their lists by email."""

from __future__ import annotations

from flask import abort, render_template, request

from edge.errors import Conflict, EdgeError, Invalid, NotFound
from edge.pages.actions import add_action
from edge.pages.double_submit import once
from edge.pages.forms import Errors, errors_of, typable, whole
from edge.pages.guard import Answer, actor, administrators, current_session, editors, viewers
from edge.pages.notices import done
from edge.pages.tracking.board import board_filter, board_query
from edge.pages.translation import gettext
from edge.rules import saved_filters
from edge.rules.channels import channels
from edge.rules.channels.kinds import KINDS
from edge.rules.saved_filters import SavedFilter
from edge.services import services
from edge.texts import N_
from edge.validation import values

DAYS = (
    N_("Every day"),
    N_("Mondays"),
    N_("Tuesdays"),
    N_("Wednesdays"),
    N_("Thursdays"),
    N_("Fridays"),
    N_("Saturdays"),
    N_("Sundays"),
)


@viewers.get("/filters", manual="office#board")
def list_filters() -> str:
    organization_id = current_session().organization_id
    names = {row.no: row.name for row in channels.list_channels(organization_id)}
    rows = [(row, board_query(row.filter), _when(row)) for row in saved_filters.list_filters(organization_id)]
    return render_template("rules/filters.html", rows=rows, channel_names=names)


@editors.post("/filters")
@once
def save_filter() -> Answer:
    """Save the filter of the board, which the form has as hidden fields."""
    query = board_filter(request.form)
    try:
        saved_filters.save(actor(), typable(request.form.get("name", "")), query)
    except (Invalid, Conflict) as error:
        reasons = "; ".join(errors_of(error).values())
        abort(409, f"{reasons.rstrip('.')}.")
    return done(f"/?{board_query(query)}".rstrip("?"), "filter-saved")


add_action(editors, "/filters/<int:no>/remove", saved_filters.remove, "/filters", "filter-removed")


@administrators.get("/filters/<int:no>/mail", manual="office#board")
def mail_form(no: int) -> str:
    row = saved_filters.get(current_session().organization_id, no)
    hour = f"{row.minute // 60:02}:{row.minute % 60:02}"
    return _form(row, {"channel": row.channel_no, "time": hour, "day": _day(row)}, {})


@administrators.post("/filters/<int:no>/mail")
def save_mail(no: int) -> Answer:
    row = saved_filters.get(current_session().organization_id, no)
    form = request.form
    try:
        minute = values.minute_of_day("time", form.get("time", ""))
        day = form.get("day", 0, type=whole)
        if minute is None or not 0 <= day < len(DAYS):
            raise Invalid.one("time", "invalid_value", N_("Enter a time, such as 06:00"))
        channel_no = form.get("channel", 0, type=whole) or None
        saved_filters.send_by_mail(actor(), no, channel_no, minute, day - 1 if day else None, services().zone)
    except NotFound:
        return _form(row, form, {"channel": gettext("Choose a channel for email")}), 400
    except EdgeError as error:
        return _form(row, form, errors_of(error)), 400
    return done("/filters", "changed")


def _form(row: SavedFilter, entered: object, errors: Errors) -> str:
    rows = channels.list_channels(current_session().organization_id)
    mail = [(channel.no, channel.name) for channel in rows if KINDS[channel.kind].takes_files]
    days = [(number, gettext(day)) for number, day in enumerate(DAYS)]
    return render_template("rules/filter-mail.html", row=row, values=entered, errors=errors, channels=mail, days=days)


def _day(row: SavedFilter) -> int:
    return 0 if row.weekday is None else row.weekday + 1


def _when(row: SavedFilter) -> str:
    hour = f"{row.minute // 60:02}:{row.minute % 60:02}"
    return gettext("%(day)s at %(time)s") % {"day": gettext(DAYS[_day(row)]), "time": hour}
