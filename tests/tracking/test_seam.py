"""History has one seam: only these modules of tracking name its tables, and PostgreSQL serves them.

Current positions are a view of them, which a few lists join.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

EDGE = Path(__file__).parents[2] / "edge"

SEAM = {
    f"tracking.{module}"
    for module in (
        *(
            "stays",
            "late_reads",
            "report",
            "past",
            "flows",
            "copies",
            "returned_copies",
        ),
        *(
            "postgres.batches",
            "postgres.moving",
            "postgres.lent_rows",
            "postgres.schema",
            "postgres.labels",
            "postgres.replaced",
            "history_engine",
        ),
    )
}
# These work on the tables as part of the file, regardless of their content.
OF_THE_FILE = {
    "database.repair": "rebuilds the rows of a damaged file",
    "database.triggers": "notes changes of any table for sync and events",
    "operations.portable_records": "writes every table of a site to a file, and reads it back",
}
# These read rows in an order that the seam does not offer. With the history in PostgreSQL, the rows are lent to them.
READS_ROWS = {
    "feed.rows": "stays by the instants that the change feed names",
    "feed.pages": "tracks in the order of a copy",
    "epcis.sources": "stays of all assets in the order of storing",
}
# Current positions stay in this database when another engine has history. Lists that filter, sort or count
# by them join them in SQL; everybody else calls `report`.
JOINS_POSITIONS = {
    "tracking.shown_positions": "the positions that lists show; those of people only to who may see them",
    "events.detection": "compares all positions with the reported ones",
    "rules.engine": "begins with the locations of all assets",
    "rules.conditions": "the last location of an asset that has not been seen",
    "rules.states": "lists the assets of a location, and those not seen since",
}
POSITION = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+position\b")
NAMED = re.compile(
    r"\b(?:FROM|JOIN|INTO|TABLE|ON|UPDATE(?: OR \w+)?)\s+(?:history|track)\b"
    r"|\b(?:history|track)\s+(?:\w+ )?(?:JOIN|SET|WHERE)\b"
    r"|'(?:history|track)'"  # a table of sqlite_sequence
    r"|\A(?:history|track) SET\b|\Atrack\Z"
)


def texts(tree: ast.Module) -> Iterator[str]:
    """Yield every string except docstrings, with the fixed fragments of f-strings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def names_history(source: str) -> bool:
    return any(NAMED.search(text) for text in texts(ast.parse(source)))


def test_only_the_seam_names_the_tables_of_history() -> None:
    named = {
        ".".join(path.relative_to(EDGE).with_suffix("").parts)
        for path in EDGE.rglob("*.py")
        if names_history(path.read_text("utf-8"))
    }
    assert named == SEAM | OF_THE_FILE.keys() | READS_ROWS.keys()


def test_only_the_seam_and_lists_name_the_view_of_positions() -> None:
    named = {
        ".".join(path.relative_to(EDGE).with_suffix("").parts)
        for path in EDGE.rglob("*.py")
        if any(POSITION.search(text) for text in texts(ast.parse(path.read_text("utf-8"))))
    }
    assert named - SEAM == JOINS_POSITIONS.keys()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT no FROM track WHERE asset_id = ?",
        "SELECT 1 FROM position JOIN track ON track.no = position.no",
        "SELECT h.seq FROM source CROSS JOIN history h",
        "UPDATE OR IGNORE track SET asset_id = ?",
        "INSERT INTO\n    history (position_no) VALUES (?)",
        "DELETE FROM history",
        "UPDATE sqlite_sequence SET seq = 1 WHERE name = 'track'",
        "history JOIN source ON source.no = source_no",
    ],
)
def test_a_statement_is_recognized(statement: str) -> None:
    assert names_history(f"execute({statement!r})")
    assert names_history(f"SQL = f{statement!r}")


@pytest.mark.parametrize(
    "text", ["Its history is kept.", "history.csv", "tracks history", "/assets/{id}/history", "deleted from history"]
)
def test_prose_is_not_a_statement(text: str) -> None:
    assert not names_history(f"show({text!r})")
