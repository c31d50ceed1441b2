"""Which functions of the store write, found in their source: by what they execute, and by what they call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

STORE = Path(__file__).parents[2] / "edge" / "store"
_SQL = re.compile(r"\b(INSERT INTO|UPDATE|DELETE FROM)\b")
_BUILT = {"insert", "insert_many", "update", "delete"}  # of a Peewee table


@dataclass
class Function:
    """`name` is `module.function`. `calls` are names of the same form."""

    name: str
    first_type: str = ""
    writes: bool = False
    calls: set[str] = field(default_factory=set)

    @property
    def is_public(self) -> bool:
        return not any(part.startswith("_") for part in self.name.split("."))


def writing_functions() -> dict[str, Function]:
    """All public functions by which something in the database changes."""
    functions = {function.name: function for path in sorted(STORE.glob("*.py")) for function in _functions(path)}
    grown = True
    while grown:
        grown = False
        for function in functions.values():
            if not function.writes and any(name in functions and functions[name].writes for name in function.calls):
                function.writes = grown = True
    return {name: function for name, function in functions.items() if function.writes and function.is_public}


def _functions(path: Path) -> Iterator[Function]:
    module, tree = path.stem, ast.parse(path.read_text("utf-8"))
    known = {}  # what a name in this module stands for
    constants = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("edge.store"):
            origin = node.module.removeprefix("edge.store").lstrip(".")
            known |= {name.asname or name.name: f"{origin}.{name.name}".lstrip(".") for name in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            known[node.name] = f"{module}.{node.name}"
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            constants[node.targets[0].id] = node.value
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield _function(node, module, known, constants)


def _function(
    node: ast.FunctionDef | ast.ClassDef, module: str, known: dict[str, str], constants: dict[str, ast.expr]
) -> Function:
    found = Function(f"{module}.{node.name}")
    if isinstance(node, ast.FunctionDef) and node.args.args and node.args.args[0].annotation:
        found.first_type = ast.unparse(node.args.args[0].annotation)
    docstrings = {id(part.value) for part in ast.walk(node) if isinstance(part, ast.Expr)}
    parts = [part for part in ast.walk(node) if id(part) not in docstrings]
    parts += [inner for part in parts if isinstance(part, ast.Name) and part.id in constants
              for inner in ast.walk(constants[part.id])]  # fmt: skip
    for part in parts:
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            found.writes |= bool(_SQL.search(part.value))
        elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            owner = known.get(part.value.id, "")
            found.writes |= owner.startswith("tables.") and part.attr in _BUILT
            found.calls.add(f"{owner}.{part.attr}")
        elif isinstance(part, ast.Name) and part.id in known:
            found.calls.add(known[part.id])
    return found
