"""Which assets and locations a rule is about, as SQL conditions on `asset a`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from edge.database.connection import column, scalar
from edge.records.external_keys import is_chosen
from edge.rules.conditions import AssetKind
from edge.rules.rules import Rule
from edge.validation import json_text

BELOW = """
WITH RECURSIVE below (id) AS (
    SELECT :location_id
    UNION
    SELECT location.id FROM below JOIN location ON location.parent_id = below.id
)
"""
# Never people: an alert would tell everyone where they are.
_IS_MEANT = f"""
a.organization_id = :organization_id AND a.id NOT IN (SELECT asset_id FROM tracked_person) AND CASE :asset_kind
    WHEN 'all' THEN 1
    WHEN 'key' THEN {is_chosen("a.external_key", ":asset_value")}
    ELSE EXISTS (SELECT 1 FROM json_each(a.metadata) WHERE key = :asset_name AND CAST(value AS TEXT) = :asset_value)
END
"""
MATCHES = f"a.deleted_at IS NULL AND {_IS_MEANT}"
# Retired assets included: the event of their retirement may still follow.
_MATCHING = f"SELECT a.id FROM asset a WHERE {_IS_MEANT} AND a.id IN (SELECT value FROM json_each(:ids))"
_PRESENT = f"{BELOW} SELECT count(*) FROM rule_asset p JOIN asset a ON a.id = p.asset_id WHERE {_IS_MEANT} AND "
_PRESENT += "p.location_id IN (SELECT id FROM below)"


def values_of(rule: Rule) -> dict[str, Any]:
    """Return the values that `BELOW` and `MATCHES` bind."""
    return {"organization_id": rule.organization_id, **rule.fields._asdict()}


def matching(rule: Rule, asset_ids: Collection[int]) -> set[int]:
    """Return those of the assets that the rule is about."""
    values = {**values_of(rule), "ids": json_text.text(sorted(asset_ids))}
    return set(column(_MATCHING, values))


def is_about_all(rule: Rule) -> bool:
    return rule.fields.asset_kind is AssetKind.ALL


def count_present(rule: Rule) -> int:
    """Count the assets at the location of the rule and below, by the events that the rules have read."""
    return scalar(_PRESENT, values_of(rule))


def locations_below(location_id: int) -> set[int]:
    return set(column(f"{BELOW} SELECT id FROM below", {"location_id": location_id}))
