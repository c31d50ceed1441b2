"""Paths of a mapping, which locate fields in a message.

`data.tags` and `bdaddrs[0].bdaddr` are followed step by step. Other paths are JMESPath expressions
(`reads[?rssi > `-70`]`, `tags[].epc`, `join('', [a, b])`). The prefix determines the starting point:

    epc          the current entry of the list
    @            the entry itself, in a list of plain values
    ^.antenna    the enclosing entry, in nested lists
    $.timestamp  the message
    $topic[-1]   a level of the topic, counted from 0, or from -1 at the end
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from edge.formats.expressions import Evaluator, Expression, ExpressionFault, expression_from
from edge.formats.fields import Unreadable, describe

Steps = tuple[str | int, ...]

_LONGEST = 500
_AT_THE_START = ("and_expression", "or_expression", "not_expression")  # children have the same starting point
_STEP = re.compile(r"""([^.\[\]|*()'"`,{}?=<>!]+)((?:\[[0-9]{1,4}\])*)""")
_TOPIC = re.compile(r"\$topic\[(-?[0-9]{1,3})\]")
_BEGINNINGS = re.compile(r"((?:\^\.)*)(\$\.|\$$)?(.*)", re.DOTALL)


class Scope(NamedTuple):
    """Context of a path: the entry, its enclosing entries (innermost first), the message, the topic levels.

    `evaluator` is shared by all expressions of the message.
    """

    entry: Any
    around: tuple[Any, ...]
    message: Any
    levels: list[str]
    evaluator: Evaluator


@dataclass(frozen=True, slots=True)
class Path:
    """Path with `steps`, an `expression`, or a `level` of the topic. `outward`: number of enclosing entries."""

    written: str
    steps: Steps = ()
    from_message: bool = False
    outward: int = 0
    level: int | None = None
    expression: Expression | None = field(default=None, compare=False, repr=False)

    def find(self, scope: Scope) -> Any:
        """Return the value at the path, None if there is none. Raises Unreadable if the expression fails."""
        if self.level is not None:
            return scope.levels[self.level] if -len(scope.levels) <= self.level < len(scope.levels) else None
        start = self._start(scope)
        if self.expression is None:
            return follow(start, self.steps)
        try:
            return scope.evaluator.search(self.expression, start)
        except ExpressionFault as error:
            raise Unreadable(f"{self.written[:200]}: {error}") from None

    def comparisons(self, scope: Scope) -> Iterator[tuple[Any, str, Any]]:
        """Yield (left, operator, right) of each comparison in the expression, with evaluated sides."""
        nodes = [self.expression.parsed] if self.expression else []
        start = self._start(scope)
        while nodes:
            node = nodes.pop()
            children = [child for child in node.get("children", ()) if isinstance(child, dict)]
            if node["type"] == "comparator":
                with suppress(ExpressionFault):
                    left, right = (scope.evaluator.visit(child, start) for child in children)
                    yield left, node["value"], right
            elif node["type"] in _AT_THE_START:
                nodes += children

    def _start(self, scope: Scope) -> Any:
        if self.from_message:
            return scope.message
        if self.outward:
            return scope.around[self.outward - 1] if self.outward <= len(scope.around) else None
        return scope.entry


def follow(document: Any, steps: Steps) -> Any:
    """Return the value at the end of the steps, None if there is none."""
    for step in steps:
        if isinstance(step, str):
            document = document.get(step) if isinstance(document, dict) else None
        else:
            document = document[step] if isinstance(document, list) and step < len(document) else None
        if document is None:
            return None
    return document


def path_from(key: str, written: object) -> Path | None:
    """Parse a path; None for a blank one. Raises ValueError with the key of the setting and instructions."""
    if written is None or written == "":
        return None
    advice = "write a path such as data.tags or items[0].id"
    if not isinstance(written, str) or len(written) > _LONGEST:
        raise ValueError(f"{key} is {describe(written)}: {advice}")
    text = written.strip()
    if topic := _TOPIC.fullmatch(text):
        return Path(written, level=int(topic[1]))
    beginning = _BEGINNINGS.fullmatch(text)
    up, root, rest = beginning.groups() if beginning else ("", None, text)
    outward, from_message = len(up) // 2, root is not None
    if not rest:
        if from_message or outward:
            return Path(written, (), from_message, outward)
        raise ValueError(f'{key} is "{written}": {advice}')
    steps = _steps(rest)
    if steps is not None:
        return Path(written, steps, from_message, outward)
    try:
        return Path(written, (), from_message, outward, expression=expression_from(rest))
    except ValueError as error:
        raise ValueError(f'{key} is "{written}": {advice}, or an expression of JMESPath ({error})') from None


def _steps(text: str) -> Steps | None:
    if text == "@":  # the entry itself
        return ()
    steps: list[str | int] = []
    for segment in text.split("."):
        step = _STEP.fullmatch(segment)
        if step is None or segment != segment.strip():
            return None
        name, positions = step.groups()
        steps += [name, *(int(position) for position in re.findall("[0-9]+", positions))]
    return tuple(steps)
