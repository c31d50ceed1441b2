"""Deletion of some rows at a time, so that no transaction delays ingest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edge.database.connection import execute, writing

Value = int | str | bytes | None


def delete_some(table: str, key: str, where: str, values: Sequence[Value], limit: int) -> int:
    """Delete at most `limit` rows that meet a condition, which may end with an order. Returns their number.

    `key`: columns of the primary key. The condition needs an index, since it is evaluated within the transaction.
    """
    with writing():
        chosen = f"SELECT {key} FROM {table} WHERE {where} LIMIT ?"
        return execute(f"DELETE FROM {table} WHERE ({key}) IN ({chosen})", (*values, limit)).rowcount


def delete_whole(table: str, owner: str, details: Mapping[str, str], row_id: int | str, limit: int) -> int:
    """Delete at most `limit` details of a row, or the row itself if there are none. Returns the number of rows.

    `owner`: column of the details for the row. `details`: tables, with the column that is unique with it.
    """
    with writing():
        dropped = (
            delete_some(detail, f"{owner}, {key}", f"{owner} = ?", (row_id,), limit) for detail, key in details.items()
        )
        return next(filter(None, dropped), 0) or delete_some(table, "id", "id = ?", (row_id,), limit)
