"""Assigns page groups of a damaged database to tables: by the schema, by the backup, or by their content."""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from edge.database.page_trees import SCHEMA, Forest, Row, Tree, schema_rows

_SAMPLE_FIT = 0.95  # share of the sampled rows that must fit the tree


class Source(NamedTuple):
    """The damaged file: page groups by tree, most reliable first, and the groups that start with a root page."""

    forest: Forest
    groups: dict[str, list[int]]
    whole: set[int]


def assign(forest: Forest, trees: Mapping[str, Tree], before: Forest | None) -> tuple[Source, list[int]]:
    """Return groups assigned by the schema or the backup, and the unassigned groups."""
    names = {root: name for _, name, root in reversed(schema_rows(forest)) if root}
    formerly = _names_of_pages(before) if before else {}
    source, unassigned = Source(forest, defaultdict(list), set()), []
    for group in forest.groups:
        if group == 1 or (group in names and names[group] not in trees):  # the schema or a statistics table
            continue
        sample = forest.sample(group)
        if group in names and _fits(trees[names[group]], forest, group, sample):
            source.groups[names[group]].insert(0, group)
            source.whole.add(group)
            continue
        pages = Counter(
            formerly[page.number] for page in forest.pages(group, is_whole=False) if page.number in formerly
        )
        likely = [name for name, _ in pages.most_common(1) if name in trees]
        if likely and sample and _fits(trees[likely[0]], forest, group, sample):
            source.groups[likely[0]].append(group)
        elif sample:
            unassigned.append(group)
    return source, unassigned


def _fits(tree: Tree, forest: Forest, group: int, sample: list[Row]) -> bool:
    if forest.is_table(group) != tree.has_rowids:
        return False
    return sum(map(tree.fits, sample)) >= len(sample) * _SAMPLE_FIT


def _names_of_pages(forest: Forest) -> dict[int, str]:
    """Return the tree of each page of an undamaged file."""
    names = {root: name for _, name, root in schema_rows(forest) if root}
    return {
        page.number: names.get(group, SCHEMA) for group in forest.groups for page in forest.pages(group, is_whole=True)
    }


def assign_by_content(draft: sqlite3.Connection, trees: Mapping[str, Tree], source: Source, groups: list[int]) -> None:
    """Assign groups to the best-fitting tree, by types and by references to existing rows.

    A complete tree has no further pages.
    """
    forest = source.forest
    complete = {name for name in trees if _is_complete(source, name)}
    for group in groups:
        sample = forest.sample(group)
        fitting = [tree for tree in trees.values() if tree.name not in complete and _fits(tree, forest, group, sample)]
        scored = [(_plausibility(draft, tree, sample), tree.name) for tree in fitting if tree.name != SCHEMA]
        if scored:
            source.groups[max(scored)[1]].append(group)


def _is_complete(source: Source, name: str) -> bool:
    groups = [group for group in source.groups.get(name, []) if group in source.whole]
    kinds = source.forest.kinds
    is_rooted = bool(groups) and kinds[groups[0]] != 0  # a damaged root has only its number
    return is_rooted and all(kinds[page.number] for page in source.forest.pages(groups[0], is_whole=True))


def _plausibility(draft: sqlite3.Connection, tree: Tree, sample: list[Row]) -> float:
    """Return the share of valid references and times in the sample."""
    table_of: dict[str, tuple[str, str]] = {}
    for _, _, parent, column, key, *_ in draft.execute(f"PRAGMA foreign_key_list({tree.table})"):
        table_of[column] = (parent, key or "rowid")
    if tree.name != tree.table:
        table_of["rowid"] = (tree.table, "rowid")
    right = checked = 0
    for rowid, values in sample:
        for place, (column, value) in enumerate(zip(tree.columns, values, strict=False)):
            number = rowid if place == tree.rowid_column else value
            if column.name in table_of and number is not None:
                parent, key = table_of[column.name]
                checked += 1
                right += draft.execute(f"SELECT 1 FROM {parent} WHERE {key} = ?", (number,)).fetchone() is not None
            elif column.name.endswith(("_at", "_from", "_until")) and isinstance(number, int):
                checked += 1
                right += number == 0 or 10**15 < number < 10**16  # 2001 to 2286
    return (right + 1) / (checked + 2)
