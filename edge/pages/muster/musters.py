"""Musters: plans, start, the live page for any phone, ticks by hand, end, and the report."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from flask import Response, abort, redirect, render_template, request

from edge import clock
from edge.clock import SECOND
from edge.errors import Conflict
from edge.muster import musters, plans
from edge.muster.musters import State
from edge.muster.plans import Chosen, NewPlan
from edge.muster.whereabouts import Person, PointReader
from edge.pages.csv_download import table_file, times
from edge.pages.double_submit import once
from edge.pages.forms import Errors, errors_of, search_text, text, whole
from edge.pages.guard import Answer, Views, actor, current_or_none, editors, organization_id
from edge.pages.kept_values import KeptValues
from edge.pages.notices import done
from edge.pages.polling import fragment, version_of
from edge.pages.translation import gettext
from edge.people.people import Role
from edge.services import services
from edge.texts import N_
from edge.tracking import location_board, tracked_people

SHOWN = 100  # ended musters on a page
SHARED_SECONDS = 1.0
MOST_SHOWN = 300  # missing people on the live page; a search has the others
CHOSEN = {
    Chosen.ALL: N_("All people"),
    Chosen.KEY: N_("People whose key begins with"),
    Chosen.METADATA: N_("People with a value in their metadata"),
    Chosen.LIST: N_("The people of this list"),
}
HOW = {
    "hand": N_("ticked by hand"),
    "point": N_("at a muster point"),
    "left": N_("was at a muster point, then read elsewhere"),
    "unsure": N_("read at a muster point, perhaps before the start. Tick by hand"),
    "": "",
}


def may_muster() -> bool:
    """Return True if the role of the signed-in person runs musters."""
    session = current_or_none()
    return session is not None and tracked_people.setting(session.organization_id).may_muster(session.role)


def _check_may_muster(**_: int) -> None:
    if not may_muster():
        abort(403)


wardens = Views(Role.OPERATOR, _check_may_muster)  # people with the role of the setting


def open_musters() -> Sequence[musters.Muster]:
    """Return the open musters for the banner of every page; empty for people who do not run musters."""
    return musters.open_musters(organization_id()) if may_muster() else ()


@wardens.get("/musters", manual="musters#start")
def show_musters() -> str:
    return _list()


def _list(errors: Errors | None = None) -> str:
    before = request.args.get("before", type=whole)
    ended = musters.ended_musters(organization_id(), SHOWN + 1, before)
    return render_template(
        "muster/musters.html",
        plans=[] if before else plans.list_plans(organization_id()),
        ended=ended[:SHOWN],
        more=ended[SHOWN - 1].ended_at if len(ended) > SHOWN else None,
        before=before,
        are_people_set=tracked_people.setting(organization_id()).is_set,
        errors=errors or {},
    )


def _form(errors: Errors, plan_id: int | None = None) -> str:
    """Return the form of a plan with what was entered, or else with the saved values."""
    plan = None if plan_id is None else plans.find_plan(organization_id(), plan_id)
    values: dict[str, Any] = {"chosen": "all", "points": []}
    if "name" in request.form:
        values = {**request.form, "points": request.form.getlist("points")}
    elif plan is not None:
        points = [str(point_id) for point_id, _ in plan.points]
        values = {**plan._asdict(), "points": points, "codes": "\n".join(plans.listed_keys(plan))}
    return render_template(
        "muster/plan.html",
        plan=plan,
        values=values,
        errors=errors,
        locations=location_board.choices(organization_id()),
        chosen=[(one, gettext(title)) for one, title in CHOSEN.items()],
        people=len(plans.people_of(plan)) if plan else tracked_people.count(organization_id()),
        are_people_set=tracked_people.setting(organization_id()).is_set,
    )


@editors.form("/musters/plans/new", _form, "musters#plan")
@once
def new_muster_plan() -> Answer:
    plans.create(actor(), _entered())
    return _plan_done("made")


@editors.form("/musters/plans/<int:plan_id>", _form, "musters#plan")
def edit_muster_plan(plan_id: int) -> Answer:
    plans.change(actor(), plan_id, _entered())
    return _plan_done("changed")


@editors.post("/musters/plans/<int:plan_id>/remove", again=_form)
def remove_muster_plan(plan_id: int) -> Answer:
    plans.remove(actor(), plan_id)
    return _plan_done("muster-plan-removed")


def _plan_done(notice: str) -> Answer:
    return done("/musters" if may_muster() else "/", notice)


@wardens.post("/musters/plans/<int:plan_id>/start")
def start_muster(plan_id: int) -> Answer:
    """Start a muster. If the plan has an open one, show that: two wardens press the button at the same time."""
    try:
        muster_id = musters.start(actor(), plan_id, is_drill="drill" in request.form)
    except Conflict as error:
        plan = plans.find_plan(organization_id(), plan_id)
        if plan.open_muster_id is None:
            return _list(errors_of(error)), 409
        muster_id = plan.open_muster_id
    return redirect(f"/musters/{muster_id}", 303)


@wardens.get("/musters/<int:muster_id>", manual="musters#during-a-muster")
def show_muster(muster_id: int) -> str:
    return render_template("muster/muster.html", **_values(muster_id))


@wardens.get("/musters/<int:muster_id>/now")
def muster_now(muster_id: int) -> Response:
    """Return counts and lists. The page polls this."""
    values = _values(muster_id) if request.args else _shared_values(muster_id)
    return fragment("muster/_muster.html", values["version"], **values)


# Fifty devices would otherwise take a whole processor with 5,000 people.
_shared: KeptValues[dict[str, Any]] = KeptValues(SHARED_SECONDS, 100)
_sharing = threading.Lock()  # on a busy box, all devices would ask before the first one has its answer


def _shared_values(muster_id: int) -> dict[str, Any]:
    """Return the values of a moment ago, if a device has asked then."""
    with _sharing:
        return _shared.get((organization_id(), muster_id), lambda: _values(muster_id))


@wardens.get("/musters/<int:muster_id>.csv")
def muster_csv(muster_id: int) -> Response:
    rows = (
        (
            one.result,
            one.asset_key,
            one.name,
            one.how,
            one.place,
            *times(one.seen_at),
            one.ticked_by,
            *times(one.ticked_at),
        )
        for one in _state(muster_id).people
    )
    heading = ("result", "external_key", "name", "how", "last_place", "last_seen", "ticked_by", "ticked_at")
    return table_file(f"muster-{muster_id}.csv", heading, rows)


@wardens.get("/musters/<int:muster_id>/people/<int:asset_id>", manual="musters#during-a-muster")
def show_muster_person(muster_id: int, asset_id: int) -> str:
    """Show one person, with the button to tick. A tap on the list never ticks: rows move while people arrive."""
    return render_template(
        "muster/person.html",
        one=musters.find_muster(organization_id(), muster_id),
        person=musters.find_person(organization_id(), muster_id, asset_id),
        how=HOW,
    )


@wardens.post("/musters/<int:muster_id>/people/<int:asset_id>/tick")
def tick_muster_person(muster_id: int, asset_id: int) -> Answer:
    musters.tick(actor(), muster_id, asset_id)
    return redirect(f"/musters/{muster_id}?ticked={asset_id}", 303)


@wardens.post("/musters/<int:muster_id>/people/<int:asset_id>/untick")
def untick_muster_person(muster_id: int, asset_id: int) -> Answer:
    musters.untick(actor(), muster_id, asset_id)
    return redirect(f"/musters/{muster_id}", 303)


def _end_page(errors: Errors, muster_id: int) -> str:
    return render_template("muster/end.html", state=_state(muster_id), how=HOW, errors=errors, values=request.form)


@wardens.form("/musters/<int:muster_id>/end", _end_page, "musters#end-and-report")
def end_muster(muster_id: int) -> Answer:
    """End the muster with the missing people on the screen, or show the others."""
    musters.end(actor(), muster_id, request.form.get("version", ""), text(request.form, "note"))
    return done(f"/musters/{muster_id}", "muster-ended")


def _state(muster_id: int) -> State:
    return musters.find_state(organization_id(), muster_id)


def _values(muster_id: int) -> dict[str, Any]:
    state, now = _state(muster_id), clock.now()
    q, is_whole = search_text(request.args.get("q", "")), "all" in request.args or not state.one.is_open
    missing, safe = _matching(state.missing, q), _matching(state.safe, q)
    silent_for = services().config.events_reader_offline_minutes * 60 * SECOND
    most = len(state.people) if is_whole else MOST_SHOWN
    ticked = request.args.get("ticked", type=whole)
    values = {
        "state": state,
        "one": state.one,
        "missing": missing[:most],
        "missing_total": len(missing),
        "safe": safe[:most],
        "safe_total": len(safe),
        "counts": (len(state.missing), len(state.safe), len(state.people)),
        "points": [
            (point.name, [_reader_now(reader, silent_for, now) for reader in point.readers]) for point in state.points
        ],
        "is_behind": state.one.is_open and now < state.one.started_at,
        "is_whole": is_whole,
        "q": q,
        "ticked": next((person for person in state.safe if person.asset_id == ticked), None) if ticked else None,
        "how": HOW,
    }
    shown = (values["one"], values["missing"], values["safe"], values["points"], values["is_behind"])
    return {**values, "version": version_of(shown)}


class ReaderNow(NamedTuple):
    """A reader of a muster point. `last_message_at` only if it is offline, because it changes with every read."""

    name: str
    is_offline: bool
    last_message_at: int | None


def _reader_now(reader: PointReader, silent_for: int, now: int) -> ReaderNow:
    is_offline = reader.is_offline(silent_for, now)
    return ReaderNow(reader.name, is_offline, reader.last_message_at if is_offline else None)


def _matching(people: Sequence[Person], q: str) -> Sequence[Person]:
    wished = q.casefold()
    return [one for one in people if wished in f"{one.name}\n{one.asset_key}".casefold()] if q else people


def _entered() -> NewPlan:
    form = request.form
    return NewPlan(
        text(form, "name"),
        form.getlist("points", type=whole),
        next((chosen for chosen in Chosen if chosen == form.get("chosen")), Chosen.ALL),
        text(form, "chosen_name"),
        text(form, "chosen_value"),
        form.get("codes", "").splitlines(),
    )


def title_of(one: musters.Muster) -> str:
    """Return the name of a muster. A drill says so, wherever its name is."""
    return gettext("DRILL: %(name)s") % {"name": one.name} if one.is_drill else one.name
