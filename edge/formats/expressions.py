"""Evaluate JMESPath expressions with limited work.

Installers write the expressions, and one thread evaluates the messages of all organizations. JMESPath has no limit:
`[@,@][]|[@,@][]|...` doubles its result at each step, and 30 steps fill any memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult
from jmespath.visitor import TreeInterpreter

from edge.formats.functions import MappingFunctions, cost_of_match

Expression = ParsedResult

# Steps for one message. Twelve expressions per read take about 3 steps per byte that they evaluate.
STEPS, STEPS_PER_BYTE, MOST_STEPS = 2_000, 2, 500_000
_CHARACTERS = 8  # characters of text per step
_COMPARED = 200  # characters that a regular expression compares per step
# Errors of expressions, such as a slice with step 0, infinity as an integer, `lt` of text and a number.
_FAULTS = (JMESPathError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class ExpressionFault(Exception):
    """The expression has no result for this message. `str()` is the reason, shown to the technician."""


class TooMuchWork(ExpressionFault):
    """The expressions of this message have exceeded their steps."""


def expression_from(text: str) -> Expression:
    """Compile an expression. Raises ValueError with a one-line reason."""
    try:
        return jmespath.compile(text)
    except (JMESPathError, RecursionError, ValueError) as error:
        raise ValueError(str(error).partition("\n")[0].rstrip(":")) from None


class Evaluator:
    """Evaluator for the expressions of one message, which share its steps."""

    def __init__(self, message_bytes: int) -> None:
        self._steps = min(STEPS + STEPS_PER_BYTE * message_bytes, MOST_STEPS)
        self._interpreter: _Interpreter | None = None  # created when needed

    def search(self, expression: Expression, value: Any) -> Any:
        """Return the result. Raises ExpressionFault."""
        return self.visit(expression.parsed, value)

    def visit(self, node: Any, value: Any) -> Any:
        """Return the result of one part of an expression. Raises ExpressionFault."""
        self._interpreter = self._interpreter or _Interpreter(self._steps)
        try:
            return self._interpreter.visit(node, value)
        except _FAULTS as error:
            raise ExpressionFault(" ".join(str(error).split())[:120]) from None


class _Interpreter(TreeInterpreter):  # type: ignore[misc, unused-ignore]
    """Interpreter that counts the values which each node of an expression visits and creates.

    Only multi-selects, functions, flattening and slices create values. A multi-select may contain the same value many
    times, so it counts with all nested values. Later nodes therefore never process more values than were counted.
    """

    def __init__(self, steps: int) -> None:
        super().__init__()
        self._left = steps
        self._library = MappingFunctions()
        counting = {name: self._counting(compare) for name, compare in self.COMPARATOR_FUNC.items()}
        self.COMPARATOR_FUNC = counting  # type: ignore[misc]  # per instance, to count the steps of this message

    def visit(self, node: Any, *args: Any, **more: Any) -> Any:
        self._spend(1)
        return super().visit(node, *args, **more)

    def visit_multi_select_list(self, node: Any, value: Any) -> Any:
        return self._counted(super().visit_multi_select_list(node, value))

    def visit_multi_select_dict(self, node: Any, value: Any) -> Any:
        return self._counted(super().visit_multi_select_dict(node, value))

    def visit_flatten(self, node: Any, value: Any) -> Any:
        result = super().visit_flatten(node, value)
        self._spend(len(result or ()))
        return result

    def visit_slice(self, node: Any, value: Any) -> Any:
        result = super().visit_slice(node, value)
        self._spend(len(result or ()))
        return result

    def visit_function_expression(self, node: Any, value: Any) -> Any:
        arguments = [self._counted(self.visit(child, value)) for child in node["children"]]
        if node["value"] == "join":
            self._count_separators(*arguments)
        if node["value"] == "match" and [type(argument) for argument in arguments] == [str, str]:
            self._spend(cost_of_match(*arguments) // _COMPARED)
        if node["value"] == "zip":
            self._spend(max((len(one) for one in arguments if isinstance(one, list)), default=0) * len(arguments))
        return self._counted_text(self._library.call_function(node["value"], arguments), node["value"])

    def _counted_text(self, value: Any, function: str) -> Any:
        """Count what a function has unpacked from a text. Other results are not larger than the arguments."""
        return self._counted(value) if function in ("json", "split", "items") else value

    def _count_separators(self, *arguments: Any) -> None:
        if [type(argument) for argument in arguments] == [str, list]:
            separator, texts = arguments
            self._spend(len(separator) * len(texts) // _CHARACTERS)

    def _counting(self, compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        return lambda left, right: compare(self._counted(left), self._counted(right))

    def _counted(self, value: Any) -> Any:
        self._spend(_size(value, self._left))
        return value

    def _spend(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise TooMuchWork("the expressions of the mapping take too much work for a message of this size")


def _size(value: Any, most: int) -> int:
    """Return the number of nested values, plus the steps for texts. Stops counting above `most`."""
    if isinstance(value, str):
        return len(value) // _CHARACTERS
    if not isinstance(value, list | dict):
        return 0
    size, waiting = 0, [value]
    while waiting and size <= most:
        inner = waiting.pop()
        size += 1
        if isinstance(inner, str):
            size += len(inner) // _CHARACTERS
        elif isinstance(inner, dict):
            waiting.extend(inner.values())
        elif isinstance(inner, list):
            waiting.extend(inner)
    return size
