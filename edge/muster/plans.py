"""Plans for musters: which people, and at which muster points."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from edge.audit import quotas
from edge.audit.actors import Actor
from edge.audit.audit import acting
from edge.audit.kinds import Kind
from edge.database.connection import column, execute, execute_many
from edge.errors import Conflict, Invalid, NotFound
from edge.records import locations, lookup
from edge.records.external_keys import chosen_keys, is_chosen
from edge.texts import N_
from edge.tracking import tracked_people
from edge.validation import values

MOST_POINTS = 50
MOST_LISTED = 5_000
MOST_PEOPLE = 20_000  # in a muster
MOST_FAULTS = 20  # codes that an error names


class Chosen(StrEnum):
    """How a plan chooses among the people."""

    ALL = "all"
    KEY = "key"
    METADATA = "metadata"
    LIST = "list"


class NewPlan(NamedTuple):
    """The fields of a plan. `codes`: keys or tags, for LIST."""

    name: str
    point_ids: Sequence[int]
    chosen: Chosen = Chosen.ALL
    chosen_name: str = ""
    chosen_value: str = ""
    codes: Sequence[str] = ()


class Plan(NamedTuple):
    """A plan. `points` are the ids and names of its muster points; `open_muster_id`: its muster, if one is open."""

    id: int
    organization_id: int
    name: str
    chosen: Chosen
    chosen_name: str
    chosen_value: str
    open_muster_id: int | None
    points: list[tuple[int, str]]


_POINTS = """
SELECT l.id, l.name FROM muster_plan_point p JOIN location l ON l.id = p.location_id AND l.deleted_at IS NULL
WHERE p.plan_id = ? ORDER BY l.name, l.id
"""
# Only people: the positions of other assets are no concern of a muster.
_PEOPLE = f"""
SELECT a.id, a.external_key, a.name FROM tracked_person t JOIN asset a ON a.id = t.asset_id
WHERE a.organization_id = :organization_id AND a.deleted_at IS NULL AND CASE :chosen
    WHEN 'all' THEN 1
    WHEN 'key' THEN {is_chosen("a.external_key", ":chosen_value")}
    WHEN 'metadata' THEN
        EXISTS (SELECT 1 FROM json_each(a.metadata) WHERE key = :chosen_name AND CAST(value AS TEXT) = :chosen_value)
    ELSE EXISTS (SELECT 1 FROM muster_plan_person WHERE plan_id = :id AND asset_id = a.id)
END
ORDER BY a.name, a.id LIMIT :limit
"""


def _plan(row: Sequence[Any]) -> Plan:
    plan = Plan._make((*row, execute(_POINTS, (row[0],)).fetchall()))
    return plan._replace(chosen=Chosen(plan.chosen))


KIND = Kind(
    "muster_plan",
    "plan",
    "SELECT id, organization_id, name, chosen, chosen_name, chosen_value, "
    "(SELECT id FROM muster WHERE plan_id = muster_plan.id AND ended_at IS NULL) FROM muster_plan",
    _plan,
    key="id",
    order="name, id",
)
find_plan, list_plans = KIND.get, KIND.list_of


def people_of(plan: Plan) -> list[tuple[int, str, str]]:
    """Return id, key and name of the people of a plan, by name, at most one more than a muster can have."""
    return execute(_PEOPLE, {**plan._asdict(), "limit": MOST_PEOPLE + 1}).fetchall()


def listed_keys(plan: Plan) -> list[str]:
    """Return the keys of the listed people."""
    return column(
        "SELECT a.external_key FROM muster_plan_person p JOIN asset a ON a.id = p.asset_id "
        "WHERE p.plan_id = ? ORDER BY a.external_key",
        (plan.id,),
    )


def create(actor: Actor, entered: NewPlan) -> int:
    """Create a plan and return its id. Raises Invalid, and Conflict above the limit."""
    checked, listed = _check(actor.organization_id, entered)
    with acting(actor):
        plan_id = KIND.add(actor, _columns(checked), **_detail(checked, listed)).id
        _write_members(plan_id, checked, listed)
        quotas.charge(actor, quotas.LINE_BYTES * len(listed))
    return plan_id


def change(actor: Actor, plan_id: int, entered: NewPlan) -> None:
    """Change a plan; an open muster keeps its people and points. Raises NotFound and Invalid."""
    checked, listed = _check(actor.organization_id, entered)
    with acting(actor):
        KIND.change(actor, plan_id, _columns(checked), **_detail(checked, listed))
        _write_members(plan_id, checked, listed)
        quotas.charge(actor, quotas.LINE_BYTES * len(listed))


def remove(actor: Actor, plan_id: int) -> None:
    """Delete a plan; its reports are kept. Raises NotFound, and Conflict while its muster is open."""
    with acting(actor):
        if KIND.remove(actor, plan_id).open_muster_id is not None:
            raise Conflict(N_("Its muster is open. End it first"))


def _columns(checked: NewPlan) -> dict[str, object]:
    names = ("name", "chosen", "chosen_name", "chosen_value")
    return {name: getattr(checked, name) for name in names}


def _write_members(plan_id: int, checked: NewPlan, listed: Sequence[int]) -> None:
    execute("DELETE FROM muster_plan_point WHERE plan_id = ?", (plan_id,))
    execute("DELETE FROM muster_plan_person WHERE plan_id = ?", (plan_id,))
    points = [(plan_id, point) for point in checked.point_ids]
    execute_many("INSERT INTO muster_plan_point (plan_id, location_id) VALUES (?, ?)", points)
    people = [(plan_id, asset_id) for asset_id in listed]
    execute_many("INSERT INTO muster_plan_person (plan_id, asset_id) VALUES (?, ?)", people)


def _detail(checked: NewPlan, listed: Sequence[int]) -> dict[str, object]:
    return {"chosen": checked.chosen, "points": len(checked.point_ids), "listed": len(listed)}


def _check(organization_id: int, entered: NewPlan) -> tuple[NewPlan, list[int]]:
    """Return the fields with unused ones emptied, and the listed assets. Raises Invalid."""
    checked = entered._replace(
        name=values.name("name", entered.name),
        point_ids=list(dict.fromkeys(entered.point_ids)),
        chosen_name=entered.chosen_name if entered.chosen is Chosen.METADATA else "",
        chosen_value=entered.chosen_value if entered.chosen in (Chosen.KEY, Chosen.METADATA) else "",
    )
    if checked.chosen is Chosen.KEY:
        checked = checked._replace(chosen_value=chosen_keys(checked.chosen_value))
    if checked.chosen is Chosen.METADATA and not checked.chosen_name:
        raise Invalid.one("chosen_name", "required", N_("Enter the name of the metadata"))
    if checked.chosen in (Chosen.KEY, Chosen.METADATA) and checked.chosen_value in ("", "="):
        raise Invalid.one("chosen_value", "required", N_("Enter a value"))
    if max(len(checked.chosen_name), len(checked.chosen_value)) > values.MAX_TEXT:
        raise Invalid.one("chosen_value", "too_long", f"Enter at most {values.MAX_TEXT} characters")
    if not 1 <= len(checked.point_ids) <= MOST_POINTS:
        raise Invalid.one("points", "required", N_("Choose 1 to 50 muster points"))
    for point in checked.point_ids:
        try:
            locations.get(organization_id, point)
        except NotFound as error:
            raise Invalid.one("points", "fk_not_found", N_("This location does not exist")) from error
    return checked, _listed(organization_id, checked.codes) if checked.chosen is Chosen.LIST else []


def _listed(organization_id: int, codes: Sequence[str]) -> list[int]:
    codes = [code.strip() for code in codes if code.strip()]
    if not 1 <= len(codes) <= MOST_LISTED:
        raise Invalid.one("codes", "required", f"Enter 1 to {MOST_LISTED:,} keys or tags of people")
    ids: dict[str, int] = {}
    for code in dict.fromkeys(codes):
        record = lookup.by_code(organization_id, code) if len(code) <= values.MAX_TEXT else None
        if record is not None and record.kind == "asset":
            ids[code] = record.id
    people = tracked_people.among(set(ids.values()))
    wrong = [code[: values.MAX_NAME] for code in dict.fromkeys(codes) if ids.get(code) not in people]
    if wrong:
        more = f" and {len(wrong) - MOST_FAULTS} more" if len(wrong) > MOST_FAULTS else ""
        message = f"No person has the key or tag {', '.join(wrong[:MOST_FAULTS])}{more}"
        raise Invalid.one("codes", "fk_not_found", message)
    return sorted(people)
