"""Assets that are people: which ones, who may see their positions, and how long those are kept.

Which assets match is stored in `tracked_person` by triggers of the database, so every way of changing an asset is
covered. An asset that was a person stays one until the rule is changed. `edge.tracking.shown_positions` leaves their
positions out of lists.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from edge import clock
from edge.audit.actors import Actor
from edge.audit.audit import Subject, acting, changed
from edge.database.connection import column, execute, scalar
from edge.errors import Invalid
from edge.people.people import RANK, Role
from edge.records.external_keys import chosen_keys
from edge.texts import N_, fill
from edge.validation import json_text, values

LONGEST_DAYS = 36_500
MUSTER_ROLES = (Role.OPERATOR, Role.EDITOR, Role.ADMINISTRATOR)


class PeopleSetting(NamedTuple):
    """Setting of an organization. `key_prefix`: what `chosen_keys` returns. `seen_by`: the least role that sees
    positions of people; `muster_by`: that runs musters. `is_in_api`: API, events and streams contain positions of
    people; `is_on_walls`: walls show them.
    """

    key_prefix: str = ""
    metadata_name: str = ""
    metadata_value: str = ""
    seen_by: Role = Role.ADMINISTRATOR
    muster_by: Role = Role.OPERATOR
    is_in_api: bool = False
    history_days: int = 30
    report_days: int = 365
    is_on_walls: bool = False

    @property
    def is_set(self) -> bool:
        """True if the organization has said which assets are people."""
        return bool(self.key_prefix or self.metadata_name)

    def is_hidden_from(self, role: str) -> bool:
        return self.is_set and RANK[Role(role)] < RANK[self.seen_by]

    @property
    def is_hidden_in_api(self) -> bool:
        """True if the API hides people from API keys."""
        return self.is_set and not self.is_in_api

    @property
    def is_hidden_on_walls(self) -> bool:
        return self.is_set and not self.is_on_walls

    def may_muster(self, role: str) -> bool:
        return RANK[Role(role)] >= RANK[self.muster_by]


DEFAULT = PeopleSetting()
_FIELDS = ", ".join(PeopleSetting._fields)


def setting(organization_id: int) -> PeopleSetting:
    row = execute(f"SELECT {_FIELDS} FROM people_setting WHERE organization_id = ?", (organization_id,)).fetchone()
    if row is None:
        return DEFAULT
    one = PeopleSetting._make(row)
    return one._replace(
        seen_by=Role(one.seen_by),
        muster_by=Role(one.muster_by),
        is_in_api=bool(one.is_in_api),
        is_on_walls=bool(one.is_on_walls),
    )


def save(actor: Actor, entered: PeopleSetting) -> None:
    """Save the setting and find the people again. Raises Invalid."""
    entered = entered._replace(key_prefix=chosen_keys(entered.key_prefix))
    _check(entered)
    with acting(actor) as act:
        before, organization_id = setting(actor.organization_id), actor.organization_id
        execute(
            f"INSERT OR REPLACE INTO people_setting (organization_id, {_FIELDS}) VALUES (?{', ?' * len(entered)})",
            (organization_id, *entered),
        )
        if before[:3] != entered[:3]:  # the rule: who was a person by the previous one is not any longer
            execute(_FORGET, (organization_id, organization_id))
        execute(_FIND, (organization_id, organization_id))
        differences = changed(before._asdict(), entered._asdict())
        act.note_changes("people_setting.changed", Subject("people_setting", organization_id, "people"), differences)


_FORGET = """
DELETE FROM tracked_person WHERE asset_id IN (SELECT id FROM asset WHERE organization_id = ?)
    AND asset_id NOT IN (SELECT asset_id FROM person_asset WHERE organization_id = ?)
"""
_FIND = """
INSERT INTO tracked_person (asset_id) SELECT asset_id FROM person_asset WHERE organization_id = ?
    AND asset_id NOT IN (SELECT asset_id FROM tracked_person) AND organization_id = ?
"""


def _check(entered: PeopleSetting) -> None:
    if entered.key_prefix == "=":
        raise Invalid.one("key_prefix", "required", N_("Enter a value"))
    if entered.metadata_value and not entered.metadata_name:
        raise Invalid.one("metadata_name", "required", N_("Enter the name of the metadata"))
    if entered.metadata_name and not entered.metadata_value:
        raise Invalid.one("metadata_value", "required", N_("Enter a value"))
    for field in ("key_prefix", "metadata_name", "metadata_value"):
        if len(getattr(entered, field)) > values.MAX_TEXT:
            raise Invalid.one(field, "too_long", fill(N_("Enter at most %(most)s characters"), most=values.MAX_TEXT))
    for field in ("history_days", "report_days"):
        if not 1 <= getattr(entered, field) <= LONGEST_DAYS:
            raise Invalid.one(field, "invalid_value", fill(N_("Enter a number from 1 to %(most)s"), most=LONGEST_DAYS))
    if entered.muster_by not in MUSTER_ROLES:
        raise Invalid.one("muster_by", "invalid_value", N_("Choose operator, editor or administrator"))


def choices() -> list[tuple[int, str, str, str]]:
    """Return for each organization which assets are people: key prefix, and name and value of metadata."""
    return execute(
        "SELECT organization_id, key_prefix, metadata_name, metadata_value FROM people_setting ORDER BY 1"
    ).fetchall()


def count(organization_id: int) -> int:
    """Return the number of live assets that are people."""
    return scalar(
        "SELECT count(*) FROM tracked_person t JOIN asset a ON a.id = t.asset_id "
        "WHERE a.organization_id = ? AND a.deleted_at IS NULL",
        (organization_id,),
    )


def among(asset_ids: Collection[int]) -> set[int]:
    """Return those of these assets that are people."""
    if not asset_ids:
        return set()
    sql = "SELECT asset_id FROM tracked_person WHERE asset_id IN (SELECT value FROM json_each(?))"
    return set(column(sql, (json_text.text(sorted(asset_ids)),)))


def history_limits() -> list[tuple[int, int]]:
    """Return each organization with people and the microseconds for which their history is kept."""
    rows = execute("SELECT organization_id, history_days FROM people_setting ORDER BY organization_id")
    return [(organization_id, days * clock.DAY) for organization_id, days in rows]


def report_limits() -> list[tuple[int, int]]:
    """Return each organization and the microseconds for which reports of musters are kept."""
    rows = execute(
        "SELECT o.id, ifnull(s.report_days, ?) FROM organization o "
        "LEFT JOIN people_setting s ON s.organization_id = o.id ORDER BY o.id",
        (DEFAULT.report_days,),
    )
    return [(organization_id, days * clock.DAY) for organization_id, days in rows]
