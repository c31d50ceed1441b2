"""Hubs that this box has left. A box that returns to one gets the copies of that hub's records under the same ids."""

from __future__ import annotations

from edge import clock
from edge.database.connection import execute
from edge.sync.store.exchange import HUB
from edge.sync.store.refused_data import MOST_ASIDE

MOST_HUBS = 10


def remember(hub_id: str, horizon: int) -> None:
    """Keep which records are copies from the hub. Call before `mirror` is emptied."""
    execute("DELETE FROM former_hub WHERE hub_id = ?", (hub_id,))
    execute("INSERT INTO former_hub (hub_id, left_at, horizon) VALUES (?, ?, ?)", (hub_id, clock.now(), horizon))
    execute(
        "INSERT INTO former_link (hub_id, remote_id, local_id, created_at, home) "
        "SELECT ?, remote_id, local_id, created_at, home FROM link JOIN mirror ON record_id = local_id "
        "WHERE link.peer = ? AND mirror.peer = link.peer",
        (hub_id, HUB),
    )
    execute(
        "DELETE FROM former_hub WHERE hub_id NOT IN (SELECT hub_id FROM former_hub ORDER BY left_at DESC LIMIT ?)",
        (MOST_HUBS,),
    )


def return_to(organization_id: int, hub_id: str) -> int | None:
    """Make the copies from this hub read-only again, and forget the hub. Returns the horizon; None for a new hub.

    What was changed here meanwhile is listed as set aside, since the hub's version replaces it. If another organization
    of this box left the hub, the copies are that one's, and nothing is done.
    """
    row = execute("SELECT left_at, horizon FROM former_hub WHERE hub_id = ?", (hub_id,)).fetchone()
    if row is None or execute(_OF_ANOTHER, (hub_id, organization_id)).fetchone():
        return None
    left_at, horizon = row
    for statement in _RETURN:
        execute(statement, (hub_id, HUB))
    execute(_CHANGED, (HUB, clock.now(), hub_id, left_at, MOST_ASIDE))
    execute("DELETE FROM former_hub WHERE hub_id = ?", (hub_id,))
    return int(horizon)


_OF_ANOTHER = (
    "SELECT 1 FROM former_link JOIN asset ON asset.id = local_id WHERE hub_id = ? AND organization_id <> ? LIMIT 1"
)
_RETURN = (
    "INSERT OR IGNORE INTO link (peer, remote_id, local_id, created_at) SELECT ?2, remote_id, local_id, "
    "former_link.created_at FROM former_link JOIN asset ON asset.id = local_id WHERE hub_id = ?1",
    "INSERT OR IGNORE INTO mirror (record_id, peer, home) SELECT local_id, ?2, home FROM former_link "
    "JOIN asset ON asset.id = local_id WHERE hub_id = ?1",
)
_CHANGED = (
    "INSERT OR IGNORE INTO set_aside (peer, what, reason, since) SELECT ?1, 'change of asset ' || external_key, "
    "'it was changed here while this box did not report; the version of ' || home || ' replaces it', ?2 "
    "FROM former_link JOIN asset ON asset.id = local_id WHERE hub_id = ?3 AND updated_at > ?4 "
    "ORDER BY updated_at DESC LIMIT ?5"
)
