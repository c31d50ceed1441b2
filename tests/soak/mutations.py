"""Small, typical faults as changes to the text of a module, one at a time."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

LIMIT_FACTOR = 1000

_COMPARISONS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "is": "is not", "is not": "is", "in": "not in", "not in": "in",
}  # fmt: skip
_OPERATOR = re.compile(r"not\s+in\b|is\s+not\b|\bis\b|\bin\b|[<>=!]=|[<>]")
_SWAPPED_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
_TRANSACTIONS = {"writing", "reading", "acting"}
_ABOUT_PEOPLE = {"log", "logging", "metrics"}  # logging and metrics are not mutated

_SQL = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|WHERE|ORDER BY|JOIN)\b")
_CONDITION = re.compile(
    r"\b(?P<joined>WHERE|AND|ON) (?P<condition>[\w.]+ (?:=|<>|<=|>=|<|>|IS NOT|IS) (?:\?\d?|NULL|-?\d+|[\w.]+))"
)
_SQL_EDITS: Iterable[tuple[str, re.Pattern[str], str]] = (
    ("drop ORDER BY", re.compile(r"\bORDER BY [\w., ]+?(?= LIMIT\b|\)|\"|$|\n)"), ""),
    ("drop LIMIT", re.compile(r"\bLIMIT \?"), "LIMIT ? + 1000000"),
    ("turn the order", re.compile(r" DESC\b"), ""),
    ("swap max and min", re.compile(r"\bmax\("), "min("),
    ("swap max and min", re.compile(r"\bmin\("), "max("),
    ("shift a bound", re.compile(r" <(?= )"), " <="),
    ("shift a bound", re.compile(r" <=(?= )"), " <"),
    ("shift a bound", re.compile(r" >(?= )"), " >="),
    ("shift a bound", re.compile(r" >=(?= )"), " >"),
    ("do not ignore", re.compile(r"\bOR (IGNORE|REPLACE) "), ""),
)  # fmt: skip


class Mutation(NamedTuple):
    """Replacement of the characters from `start` to `end` by `text`."""

    path: str
    line: int
    functions: tuple[str, ...]  # qualified names of the affected functions; empty for the whole module
    operator: str
    start: int
    end: int
    text: str

    def apply(self, source: str) -> str:
        return source[: self.start] + self.text + source[self.end :]

    def lines(self, source: str) -> tuple[str, str]:
        """Return the changed lines before and after the mutation."""
        first = source.rfind("\n", 0, self.start) + 1
        last = source.find("\n", self.end)
        last = len(source) if last < 0 else last
        return source[first:last].strip(), (source[first : self.start] + self.text + source[self.end : last]).strip()


def mutations_of(root: Path, path: str) -> list[Mutation]:
    """Return all mutations of a module. Some are invalid or equivalent: see `is_another_program`."""
    source = (root / path).read_text("utf-8")
    by_position = {(one.start, one.end, one.text): one for one in _Finder(path, source, ast.parse(source)).find()}
    return list(by_position.values())


def is_another_program(root: Path, one: Mutation) -> bool:
    source = (root / one.path).read_text("utf-8")
    try:
        return ast.dump(ast.parse(one.apply(source))) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


class _Finder:
    def __init__(self, path: str, source: str, tree: ast.Module) -> None:
        self._path = path
        self._source = source
        self._tree = tree
        self._line_starts = [0]
        for line in source.splitlines(keepends=True):
            self._line_starts.append(self._line_starts[-1] + len(line))
        self._lines = source.splitlines()
        self._users = _users_of_names(tree)

    def find(self) -> Iterator[Mutation]:
        for statement in self._tree.body:
            if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                yield from self._walk(statement, ())
                continue
            names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
            functions = sorted({user for name in names for user in self._users.get(name, ())})
            yield from self._constants(statement, tuple(functions))
            yield from self._expressions(statement, tuple(functions))

    def _walk(self, node: ast.AST, scope: tuple[str, ...]) -> Iterator[Mutation]:
        """Yield mutations of nested definitions under their own names."""
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inner = (*scope, node.name)
            if not isinstance(node, ast.ClassDef):
                for statement in node.body:
                    yield from self._in_function(statement, (".".join(inner),))
                return
            for statement in node.body:
                yield from self._walk(statement, inner)
        elif scope and isinstance(node, ast.stmt):
            yield from self._constants(node, ())
            yield from self._expressions(node, ())

    def _in_function(self, statement: ast.stmt, functions: tuple[str, ...]) -> Iterator[Mutation]:
        for node in ast.walk(statement):
            if isinstance(node, ast.stmt):
                yield from self._statements(node, functions)
        yield from self._expressions(statement, functions)

    # Operators ----------------------------------------------------------------------------------------------------

    def _constants(self, statement: ast.stmt, functions: tuple[str, ...]) -> Iterator[Mutation]:
        value = getattr(statement, "value", None)
        if isinstance(statement, ast.Assign | ast.AnnAssign) and value is not None and _is_number(value):
            text = self._text(value)
            yield self._replace("lift a limit", value, f"({text}) * {LIMIT_FACTOR}", functions)
            yield self._replace("lower a limit", value, f"({text}) // {LIMIT_FACTOR}", functions)

    def _statements(self, node: ast.stmt, functions: tuple[str, ...]) -> Iterator[Mutation]:
        is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and not _is_about_people(node.value)
        is_state = isinstance(node, ast.Assign) and any(not isinstance(name, ast.Name) for name in node.targets)
        is_leaving = isinstance(node, ast.Raise | ast.Continue | ast.Break) or (
            isinstance(node, ast.Return) and node.value is None
        )
        if is_call or is_state or is_leaving or isinstance(node, ast.AugAssign | ast.Delete):
            yield self._replace("drop a statement", node, "pass", functions)
        if isinstance(node, ast.If | ast.While) and not isinstance(node.test, ast.Compare | ast.BoolOp | ast.UnaryOp):
            yield self._replace("negate a condition", node.test, f"not ({self._text(node.test)})", functions)
        if isinstance(node, ast.With) and len(node.items) == 1:
            call = node.items[0].context_expr
            if isinstance(call, ast.Call) and _name_of(call.func) in _TRANSACTIONS and not node.items[0].optional_vars:
                yield self._replace("no transaction", call, "__import__('contextlib').nullcontext()", functions)

    def _expressions(self, statement: ast.stmt, functions: tuple[str, ...]) -> Iterator[Mutation]:
        by_type: dict[type[ast.AST], Callable[..., Iterator[tuple[str, int, int, str]]]] = {
            ast.Compare: self._compare,
            ast.BoolOp: self._bool_op,
            ast.UnaryOp: self._unary,
            ast.BinOp: self._binary,
            ast.Call: self._call,
            ast.Constant: self._constant,
            ast.JoinedStr: self._sql,
            ast.comprehension: self._comprehension,
            ast.Subscript: self._slice,
        }
        for node in _without_annotations(statement):
            for operator, start, end, text in by_type.get(type(node), _nothing)(node):
                line = self._source.count("\n", 0, start) + 1
                yield Mutation(self._path, line, functions, operator, start, end, text)

    def _compare(self, node: ast.Compare) -> Iterator[tuple[str, int, int, str]]:
        operands = [node.left, *node.comparators]
        for left, right in pairwise(operands):
            match = _OPERATOR.search(self._source, self._end(left), self._start(right))
            if match:
                swapped = _COMPARISONS[" ".join(match[0].split())]
                yield "change a comparison", match.start(), match.end(), swapped

    def _bool_op(self, node: ast.BoolOp) -> Iterator[tuple[str, int, int, str]]:
        word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in pairwise(node.values):
            begin = self._end(left)
            at = self._source.index(word, begin, self._start(right))
            yield "swap and/or", at, at + len(word), other
            yield "drop a condition", begin, self._end(right), self._balance(begin, self._end(right))
        first, second = node.values[:2]
        yield "drop a condition", self._start(first), self._start(second), ""

    def _balance(self, start: int, end: int) -> str:
        """Return the parentheses left open by a dropped operand."""
        gap = self._source[start:end]
        return ")" * max(gap.count(")") - gap.count("("), 0)

    def _unary(self, node: ast.UnaryOp) -> Iterator[tuple[str, int, int, str]]:
        if isinstance(node.op, ast.Not):
            yield "drop a not", self._start(node), self._start(node.operand), ""

    def _binary(self, node: ast.BinOp) -> Iterator[tuple[str, int, int, str]]:
        sign = {ast.Add: ("+", "-"), ast.Sub: ("-", "+")}.get(type(node.op))
        if sign and not _is_text(node.left) and not _is_text(node.right):
            at = self._source.index(sign[0], self._end(node.left), self._start(node.right))
            yield "turn a sign", at, at + 1, sign[1]

    def _call(self, node: ast.Call) -> Iterator[tuple[str, int, int, str]]:
        if isinstance(node.func, ast.Name) and node.func.id in _SWAPPED_CALLS:
            yield "swap a function", self._start(node.func), self._end(node.func), _SWAPPED_CALLS[node.func.id]

    def _constant(self, node: ast.Constant) -> Iterator[tuple[str, int, int, str]]:
        if isinstance(node.value, bool):
            yield "turn a boolean", self._start(node), self._end(node), str(not node.value)
        elif isinstance(node.value, int):
            yield "off by one", self._start(node), self._end(node), str(node.value + 1)
        elif isinstance(node.value, str):
            yield from self._sql(node)

    def _sql(self, node: ast.expr) -> Iterator[tuple[str, int, int, str]]:
        begin, text = self._start(node), self._text(node)
        if not _SQL.search(text):
            return
        for match in _CONDITION.finditer(text):
            start, end = match.span("condition")
            name = "drop the organization" if "organization_id" in match["condition"] else "drop a condition of SQL"
            yield name, begin + start, begin + end, f"({match['condition']} OR 1)"
        for name, pattern, replacement in _SQL_EDITS:
            for match in pattern.finditer(text):
                yield name, begin + match.start(), begin + match.end(), match.expand(replacement)

    def _comprehension(self, node: ast.comprehension) -> Iterator[tuple[str, int, int, str]]:
        for condition in node.ifs:
            yield "drop a filter", self._start(condition), self._end(condition), "True"

    def _slice(self, node: ast.Subscript) -> Iterator[tuple[str, int, int, str]]:
        if isinstance(node.slice, ast.Slice) and node.slice.upper and not node.slice.step:
            yield "drop a cut", self._start(node.slice.upper), self._end(node.slice.upper), ""

    # Text ---------------------------------------------------------------------------------------------------------

    def _replace(self, operator: str, node: ast.AST, text: str, functions: tuple[str, ...]) -> Mutation:
        start = self._start(node)
        return Mutation(
            self._path, self._source.count("\n", 0, start) + 1, functions, operator, start, self._end(node), text
        )

    def _text(self, node: ast.AST) -> str:
        return self._source[self._start(node) : self._end(node)]

    def _start(self, node: ast.AST) -> int:
        return self._offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def _end(self, node: ast.AST) -> int:
        return self._offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def _offset(self, line: int, column: int) -> int:
        """Convert the parser's byte position to characters."""
        text = self._lines[line - 1]
        return self._line_starts[line - 1] + len(text.encode()[:column].decode())


def _users_of_names(tree: ast.Module) -> dict[str, set[str]]:
    """Return the functions that use each name of a module, directly or through other names."""
    functions: dict[str, set[str]] = {}
    through: dict[str, set[str]] = {}
    for statement in tree.body:
        used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        if isinstance(statement, ast.FunctionDef):
            owners = {statement.name}
        elif isinstance(statement, ast.ClassDef):
            for method in (node for node in statement.body if isinstance(node, ast.FunctionDef)):
                for node in ast.walk(method):
                    if isinstance(node, ast.Name):
                        functions.setdefault(node.id, set()).add(f"{statement.name}.{method.name}")
            continue
        else:
            stored = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            for name in used - stored:
                through.setdefault(name, set()).update(stored)
            continue
        for name in used:
            functions.setdefault(name, set()).update(owners)
    for _ in range(3):  # depth of references between names here
        for name, others in through.items():
            for other in others:
                functions.setdefault(name, set()).update(functions.get(other, ()))
    return functions


def _without_annotations(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a statement without types, documentation, and messages of errors and logs."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.Raise | ast.JoinedStr) or (isinstance(node, ast.Call) and _is_about_people(node)):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        for name, value in ast.iter_fields(node):
            if name not in ("annotation", "returns"):
                children = value if isinstance(value, list) else [value]
                pending += [child for child in children if isinstance(child, ast.AST) and not _is_strict(child)]


def _is_about_people(call: ast.Call) -> bool:
    name = call.func
    while isinstance(name, ast.Attribute):
        name = name.value
    return isinstance(name, ast.Name) and name.id in _ABOUT_PEOPLE


def _is_strict(node: ast.AST) -> bool:
    """True for `strict=True` of zip, an internal check."""
    return isinstance(node, ast.keyword) and node.arg == "strict"


def _name_of(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _is_number(node: ast.expr) -> bool:
    """True for numbers, and for arithmetic of numbers and names such as SECOND."""
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    name = node.attr if isinstance(node, ast.Attribute) else _name_of(node)
    return name in ("SECOND", "MINUTE", "HOUR", "DAY", "MILLISECOND", "NOTICEABLE")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _nothing(_node: ast.AST) -> Iterator[tuple[str, int, int, str]]:
    return iter(())
