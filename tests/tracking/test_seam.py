"""History has one seam: only six modules of tracking name its tables, so that another engine replaces only these."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge.database import models

EDGE = Path(__file__).parents[2] / "edge"

SEAM = {f"tracking.{module}" for module in ("stays", "late_reads", "report", "past", "flows", "copies")}
# These work on the tables as part of the file, regardless of their content.
OF_THE_FILE = {
    "database.repair": "rebuilds the rows of a damaged file",
    "database.triggers": "notes changes of any table for sync and events",
    "operations.portable_records": "writes every table of a site to a file, and reads it back",
}
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
    assert named == SEAM | OF_THE_FILE.keys()


def test_there_is_no_model_of_history() -> None:
    tables = {model._meta.table_name for model in models.Table.__subclasses__()}  # type: ignore[attr-defined] - Peewee adds it
    assert "location" in tables
    assert not {"history", "track"} & tables


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
