"""Write history rows directly, for tests of retention."""

from typing import NamedTuple

from edge.database.connection import execute, writing
from edge.database.ids import new_id

HOUR = 3600 * 1_000_000


class Stay(NamedTuple):
    observed_at: int
    seen_for: int


def add_asset(stays: list[Stay]) -> int:
    """Add an asset with these stays. Returns its number in `history`."""
    with writing():
        organization, asset, location = new_id(), new_id(), new_id()
        execute("INSERT INTO organization VALUES (?1, ?2, 0, ?2)", (organization, f"org {organization}"))
        for table, record in (("asset", asset), ("location", location)):
            execute(
                f"INSERT INTO {table} (id, organization_id, external_key, name, valid_from, created_at, updated_at)"
                " VALUES (?, ?, ?, 'x', 0, 0, 0)",
                (record, organization, f"K-{record}"),
            )
        source = execute(
            "INSERT INTO source (organization_id, location_id) VALUES (?, ?) RETURNING no", (organization, location)
        ).fetchone()[0]
        newest = max(stays)
        position = execute(
            "INSERT INTO track"
            " (asset_id, organization_id, location_id, last_seen_at, dwell_started_at, row_at, row_seq, history_rows)"
            " VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6 - 1, ?6) RETURNING no",
            (asset, organization, location, newest.observed_at + newest.seen_for, newest.observed_at, len(stays)),
        ).fetchone()[0]
        for seq, stay in enumerate(sorted(stays)):
            execute(
                "INSERT INTO history (position_no, observed_at, seq, seen_for, source_no, delay, quality)"
                " VALUES (?, ?, ?, ?, ?, 0, 0)",
                (position, stay.observed_at, seq, stay.seen_for, source),
            )
    return position


def stays_of(position: int) -> list[Stay]:
    return [
        Stay(*row)
        for row in execute(
            "SELECT observed_at, seen_for FROM history WHERE position_no = ? ORDER BY observed_at, seq", (position,)
        )
    ]


def counts_are_right() -> bool:
    wrong = execute(
        "SELECT 1 FROM position WHERE history_rows <> (SELECT count(*) FROM history WHERE position_no = position.no)"
    ).fetchone()
    return wrong is None
