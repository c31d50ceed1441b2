"""Changes that would show where a person is: the record is no longer a person, or another record takes its tag.

They need a role that sees positions of people. `edge.tracking.tracked_people` has the setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from edge.audit.actors import Actor
from edge.database.connection import execute
from edge.errors import Forbidden
from edge.texts import N_
from edge.validation import json_text

# Roles in ascending order. The sender of somebody else's work has proved who they are.
_RULE = """
SELECT CASE :kind
    WHEN 'api_key' THEN is_in_api
    WHEN 'person' THEN instr('viewer operator editor administrator', seen_by) <= ifnull((
        SELECT instr('viewer operator editor administrator', role) FROM person WHERE id = :id), 0)
    ELSE :kind <> 'device' END
FROM people_setting WHERE organization_id = :organization_id AND (key_prefix <> '' OR metadata_name <> '')
"""
_PEOPLE = "SELECT asset_id FROM json_each(?) one CROSS JOIN person_asset ON asset_id = one.value"
_HELD_BY_PERSON = """
SELECT 1 FROM json_each(:tags) one
CROSS JOIN tag INDEXED BY tag_retired ON organization_id = :organization_id AND tag_type = one.value ->> 0
    AND match_key = one.value ->> 1 AND deleted_at IS NOT NULL
WHERE tag.asset_id IN (SELECT asset_id FROM tracked_person)
    AND one.value ->> 2 NOT IN (SELECT asset_id FROM tracked_person) LIMIT 1
"""


def _must_hide(actor: Actor) -> bool:
    """Return True if the actor may not see positions of people, and the organization has said who is one."""
    values = {"kind": actor.kind, "organization_id": actor.organization_id, "id": actor.sender_id or actor.id}
    row = execute(_RULE, values).fetchone()
    return row is not None and not row[0]


@contextmanager
def kept(actor: Actor, asset_ids: Iterable[int]) -> Iterator[None]:
    """Run a change of assets in the caller's transaction.

    Raises Forbidden if people would no longer be people afterwards and the actor may not see their positions.
    """
    if not _must_hide(actor):
        yield
        return
    ids = json_text.text(list(asset_ids))
    before = set(execute(_PEOPLE, (ids,)))
    yield
    if before - set(execute(_PEOPLE, (ids,))):
        raise Forbidden(
            N_(
                "This asset is a person. Only who may see positions of people may change that; "
                "for API keys a setting permits it"
            )
        )


def check_tags(actor: Actor, tags: Iterable[tuple[str, str, int]]) -> None:
    """Raise Forbidden if a record gets a person's tag and the actor may not see their positions.

    `tags`: type, match key, and id of the record that gets it. A tag that another person gets is permitted.
    """
    tags = list(tags)
    if tags and _must_hide(actor):
        held = {"organization_id": actor.organization_id, "tags": json_text.text(tags)}
        if execute(_HELD_BY_PERSON, held).fetchone():
            message = N_(
                "This tag was a person's. Only who may see positions of people may attach it; "
                "for API keys a setting permits it"
            )
            raise Forbidden(message)
