"""Read the optional fields of a mapping and count their results. An unreadable field becomes None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from edge.formats.fields import Unreadable, describe
from edge.formats.paths import Path, Scope
from edge.validation.field_counts import CONDITION, FieldCount, add_counts

_LONGEST_EXAMPLE = 200
_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "eq": "==", "ne": "!="}
Value = TypeVar("Value")


class OptionalFields:
    """Optional fields of one message, with counts by field."""

    def __init__(self) -> None:
        self.counts: dict[str, FieldCount] = {}

    def read(
        self,
        key: str,
        path: Path | None,
        scope: Scope,
        read: Callable[[Any], Value],
        if_unreadable: Any = None,
    ) -> Value | None:
        """Return the field at a path; None without a path or if the field is missing."""
        if path is None:
            return None
        value: Value | None = if_unreadable
        try:
            sent = path.find(scope)
            value = None if sent is None else read(sent)
        except Unreadable as reason:
            self._count(key, FieldCount(1, 0, 1, str(reason)[:_LONGEST_EXAMPLE]))
            return value
        self._count(key, FieldCount(1, int(sent is None)))
        return value

    def holds(self, condition: Path, scope: Scope) -> bool:
        """Return True if an entry meets the condition. Raises Unreadable if it cannot be evaluated.

        A comparison of text with a number never holds, so it is counted as an error in the condition.
        """
        try:
            result, failure = condition.find(scope), None
        except Unreadable as error:
            result, failure = None, error
        reason = "" if result else _mismatch(condition, scope) or str(failure or "")
        self._count(CONDITION, FieldCount(1, int(result is None and not reason), int(bool(reason)), reason))
        if failure:
            raise Unreadable(f"{CONDITION}: {reason}")
        return bool(result)

    def _count(self, key: str, count: FieldCount) -> None:
        add_counts(self.counts, {key: count})


def _mismatch(condition: Path, scope: Scope) -> str:
    """Return an explanation if a condition compares text with a number, which is null or false in JMESPath."""
    for left, operator, right in condition.comparisons(scope):
        for text, number in ((left, right), (right, left)):
            if isinstance(text, str) and isinstance(number, int | float) and not isinstance(number, bool):
                shown = f"{describe(left)} {_SIGNS.get(operator, operator)} {describe(right)}"
                return f"{shown} never holds: write to_number() around the text"[:_LONGEST_EXAMPLE]
    return ""
