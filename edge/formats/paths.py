"""Paths of a mapping: where in a message something stands.

`data.tags` and `bdaddrs[0].bdaddr` are followed step by step; whatever has more to it is an expression of JMESPath
(`reads[?rssi > `-70`]`, `tags[].epc`, `join('', [a, b])`). What a path begins at is told by what stands in front:

    epc          the entry of the list that is being read
    @            the entry itself, in a list of bare values
    ^.antenna    the entry around it, where lists stand within lists
    $.timestamp  the message
    $topic[-1]   a level of the topic the message came on, counted from 0, or from -1 at the end
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
_AT_THE_START = ("and_expression", "or_expression", "not_expression")  # their parts are looked up where they are
_STEP = re.compile(r"""([^.\[\]|*()'"`,{}?=<>!]+)((?:\[[0-9]{1,4}\])*)""")
_TOPIC = re.compile(r"\$topic\[(-?[0-9]{1,3})\]")
_BEGINNINGS = re.compile(r"((?:\^\.)*)(\$\.|\$$)?(.*)", re.DOTALL)


class Scope(NamedTuple):
    """What paths are looked up in: an entry, the entries around it from the inside out, the message, the topic.

    `evaluator` has the steps that all expressions of the message share.
    """

    entry: Any
    around: tuple[Any, ...]
    message: Any
    levels: list[str]
    evaluator: Evaluator


@dataclass(frozen=True, slots=True)
class Path:
    """`steps` where it is followed step by step, else `expression`. `level` is that of the topic."""

    written: str
    steps: Steps = ()
    from_message: bool = False
    outward: int = 0
    level: int | None = None
    expression: Expression | None = field(default=None, compare=False, repr=False)

    def find(self, scope: Scope) -> Any:
        """What stands there, None where the path leads nowhere. Raises Unreadable for what an expression refuses."""
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
        """Both sides of each comparison in an expression, with the operator between them."""
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
    for step in steps:
        if isinstance(step, str):
            document = document.get(step) if isinstance(document, dict) else None
        else:
            document = document[step] if isinstance(document, list) and step < len(document) else None
        if document is None:
            return None
    return document


def path_from(key: str, written: object) -> Path | None:
    """The path a setting names; None for a blank one. The ValueError names the setting and says what to write."""
    if written is None or written == "":
        return None
    advice = "write a path such as data.tags or items[0].id"
    if not isinstance(written, str) or len(written) > _LONGEST:
        raise ValueError(f"{key} is {describe(written)}: {advice}")
    text = written.strip()
    if topic := _TOPIC.fullmatch(text):
        return Path(written, level=int(topic[1]))
    found = _BEGINNINGS.fullmatch(text)
    up, root, rest = found.groups() if found else ("", None, text)
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
    if text == "@":  # the entry itself, where it is no object
        return ()
    steps: list[str | int] = []
    for part in text.split("."):
        step = _STEP.fullmatch(part)
        if step is None or part != part.strip():
            return None
        name, positions = step.groups()
        steps += [name, *(int(position) for position in re.findall("[0-9]+", positions))]
    return tuple(steps)
