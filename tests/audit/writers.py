"""Detects in source code which functions write to the database: by executed statements and by calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

EDGE = Path(__file__).parents[2] / "edge"
# Modules that run statements but write nothing, or only to a temporary table.
_READERS = {EDGE / "ingest/pipeline.py", EDGE / "runtime/readiness.py", EDGE / "tracking/history_engine.py"}
_RUNS_STATEMENTS = re.compile(
    r"(database\.connection\.(column|execute(_many)?|(find_)?scalar|insert|update)|audit\.(audit\.(Act|acting|act_in_group)|kinds\.Kind))\b"
    r"|records\.external_keys\.\w+_KEYS\b"
)
_SQL = re.compile(r"\b((INSERT|REPLACE)( OR \w+)? INTO|UPDATE|DELETE FROM)\b")
_WRITE_A_KIND = {"add", "change", "mark", "remove"}  # methods of a declaration; its others read


@dataclass
class Definition:
    """A function, class, method or constant. `name` and `uses` have the form `module.name` or `module.class.name`.

    `method`: for a name of a module for a method of the kind that it declares, the method in its class and its base.
    """

    name: str
    is_constant: bool = False
    first_type: str = ""
    writes: bool = False
    uses: set[str] = field(default_factory=set)
    method: Sequence[str] = ()

    @property
    def is_public_function(self) -> bool:
        is_method = self.name.count(".") > 1
        return not (self.is_constant or is_method) and not any(part.startswith("_") for part in self.name.split("."))


def modules_of_the_database() -> list[Path]:
    """Return the modules that run statements. Their file names are unique."""
    paths = [path for path in sorted(EDGE.rglob("*.py")) if path not in _READERS and _runs_statements(path)]
    assert len({path.stem for path in paths}) == len(paths)
    return paths


def _runs_statements(path: Path) -> bool:
    if path.parent == EDGE / "database":
        return path.stem != "__init__"
    tree = ast.parse(path.read_text("utf-8"))
    imported = (
        f"{node.module}.{name.name}".removeprefix("edge.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    )
    return any(_RUNS_STATEMENTS.match(name) for name in imported)


@cache
def functions_that_write() -> dict[str, Definition]:
    """Return all public functions of edge that change the database."""
    return writing_functions(modules_of_the_database())


def writing_functions(modules: Sequence[Path]) -> dict[str, Definition]:
    """Return the public functions of these modules that change the database."""
    everything = {definition.name: definition for path in modules for definition in _definitions(path)}
    for definition in everything.values():
        if method := next((name for name in definition.method if name in everything), ""):
            definition.first_type = everything[method].first_type
            definition.uses.add(method)
    has_grown = True
    while has_grown:
        has_grown = False
        for definition in everything.values():
            is_declaration = definition.name.endswith(".KIND")
            if not (definition.writes or is_declaration) and any(
                name in everything and everything[name].writes for name in definition.uses
            ):
                definition.writes = has_grown = True
    return {
        name: definition
        for name, definition in everything.items()
        if definition.writes and definition.is_public_function
    }


def names_used(path: Path) -> set[str]:
    """Return the names of database modules used in a module, as `module.name`."""
    tree = ast.parse(path.read_text("utf-8"))
    return _analyze(Definition(path.stem), tree, _imported(tree)).uses


def _definitions(path: Path) -> Iterator[Definition]:
    module, tree = path.stem, ast.parse(path.read_text("utf-8"))
    assigned = {target: node.value for node in tree.body for target in _targets(node)}  # type: ignore[attr-defined]
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    known = _imported(tree) | {name: f"{module}.{name}" for name in (*assigned, *defined)}
    for name, value in assigned.items():
        if value is not None:
            yield _analyze(Definition(f"{module}.{name}", is_constant=True), value, known)
    for name, node in defined.items():
        yield _analyze(Definition(f"{module}.{name}", first_type=_first_type(node)), node, known)
        for method in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(method, ast.FunctionDef):
                one = Definition(f"{module}.{name}.{method.name}", first_type=_first_type(method, 1))
                yield _analyze(one, method, known)
    for name, attribute in _methods_of_kind(tree):
        classes = ("family.Family", "kinds.Kind") if "declare" in known else ("record.Kind",)
        yield Definition(f"{module}.{name}", method=[f"{one}.{attribute}" for one in classes])


def _methods_of_kind(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names that a module gives to methods of the kind it declares, such as `create = KIND.create`."""
    for node in tree.body:
        left = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.Assign) and isinstance(left, ast.Tuple) and isinstance(node.value, ast.Tuple):
            for target, value in zip(left.elts, node.value.elts, strict=True):
                if isinstance(value, ast.Attribute) and ast.unparse(value.value) == "KIND":
                    yield ast.unparse(target), value.attr


def _targets(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _imported(tree: ast.Module) -> dict[str, str]:
    """Map local names to `module`, or to `module.name` for names inside a module."""
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("edge."):
            folder = EDGE / "/".join(node.module.split(".")[1:])
            origin = "" if folder.is_dir() else f"{folder.name}."
            imported |= {name.asname or name.name: f"{origin}{name.name}" for name in node.names}
    return imported


def _first_type(node: ast.FunctionDef | ast.ClassDef, at: int = 0) -> str:
    arguments = node.args.args[at:] if isinstance(node, ast.FunctionDef) else []
    return ast.unparse(arguments[0].annotation) if arguments and arguments[0].annotation else ""


def _analyze(definition: Definition, node: ast.AST, known: Mapping[str, str]) -> Definition:
    """Complete a definition from its source."""
    docstrings = {id(child.value) for child in ast.walk(node) if isinstance(child, ast.Expr)}
    for child in ast.walk(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str) and id(child) not in docstrings:
            definition.writes |= bool(_SQL.search(child.value))
        elif isinstance(child, ast.Attribute | ast.Name):
            owner, _, name = _in_full(child, known).rpartition(".")
            definition.writes |= owner.endswith(".KIND") and name in _WRITE_A_KIND
            definition.uses.add(f"{owner}.{name}")
    return definition


def _in_full(node: ast.expr, known: Mapping[str, str]) -> str:
    """Return `connection.insert` for `insert`; empty for names that were not imported."""
    if isinstance(node, ast.Attribute):
        owner = _in_full(node.value, known)
        return f"{owner}.{node.attr}" if owner else ""
    return known.get(node.id, "") if isinstance(node, ast.Name) else ""
