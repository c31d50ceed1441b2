"""Which functions write to the database, found in their source: by what they execute, and by what they call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

EDGE = Path(__file__).parents[2] / "edge"
# They run a statement, and write nothing.
_READERS = {EDGE / "ingest/pipeline.py", EDGE / "runtime/readiness.py"}
_RUNS_STATEMENTS = re.compile(
    r"(database\.connection\.execute(_many)?|database\.models|audit\.audit\.(Act|acting|act_in_group))\b"
)
_SQL = re.compile(r"\b((INSERT|REPLACE)( OR \w+)? INTO|UPDATE|DELETE FROM)\b")
_BUILT = re.compile(  # of a Peewee table
    "(insert|replace)(_many|_from)?|update|delete|create|get_or_create|save|bulk_(create|update)|(set|delete)_by_id|"
    "delete_instance"
)


@dataclass
class Found:
    """A function, class or constant. `name` is `module.name`; `uses` are names of the same form."""

    name: str
    is_constant: bool = False
    first_type: str = ""
    writes: bool = False
    uses: set[str] = field(default_factory=set)

    @property
    def is_public_function(self) -> bool:
        return not self.is_constant and not any(part.startswith("_") for part in self.name.split("."))


def modules_of_the_database() -> list[Path]:
    """The modules that run statements. Their names without the folder are all different."""
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


def writing_functions(paths: Sequence[Path] = ()) -> dict[str, Found]:
    """All public functions by which something in the database changes."""
    modules = paths or modules_of_the_database()
    everything = {found.name: found for path in modules for found in _definitions(path)}
    has_grown = True
    while has_grown:
        has_grown = False
        for found in everything.values():
            if not found.writes and any(name in everything and everything[name].writes for name in found.uses):
                found.writes = has_grown = True
    return {name: found for name, found in everything.items() if found.writes and found.is_public_function}


def names_used(path: Path) -> set[str]:
    """What of modules of the database a module uses, as `module.name`."""
    tree = ast.parse(path.read_text("utf-8"))
    return _found(Found(path.stem), tree, _imported(tree)).uses


def _definitions(path: Path) -> Iterator[Found]:
    module, tree = path.stem, ast.parse(path.read_text("utf-8"))
    assigned = {target: node.value for node in tree.body for target in _targets(node)}  # type: ignore[attr-defined]
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    known = _imported(tree) | {name: f"{module}.{name}" for name in (*assigned, *defined)}
    for name, value in assigned.items():
        if value is not None:
            yield _found(Found(f"{module}.{name}", is_constant=True), value, known)
    for name, node in defined.items():
        yield _found(Found(f"{module}.{name}", first_type=_first_type(node)), node, known)


def _targets(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _imported(tree: ast.Module) -> dict[str, str]:
    """What a name stands for: a module, as `module`, or something in one, as `module.name`."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("edge."):
            folder = EDGE / "/".join(node.module.split(".")[1:])
            origin = "" if folder.is_dir() else f"{folder.name}."
            found |= {name.asname or name.name: f"{origin}{name.name}" for name in node.names}
    return found


def _first_type(node: ast.FunctionDef | ast.ClassDef) -> str:
    if isinstance(node, ast.FunctionDef) and node.args.args and node.args.args[0].annotation:
        return ast.unparse(node.args.args[0].annotation)
    return ""


def _found(found: Found, node: ast.AST, known: Mapping[str, str]) -> Found:
    """`found`, with what its source tells."""
    docstrings = {id(part.value) for part in ast.walk(node) if isinstance(part, ast.Expr)}
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and id(part) not in docstrings:
            found.writes |= bool(_SQL.search(part.value))
        elif isinstance(part, ast.Attribute | ast.Name):
            owner, _, name = _in_full(part, known).rpartition(".")
            found.writes |= owner.startswith("models.") and bool(_BUILT.fullmatch(name))
            found.uses.add(f"{owner}.{name}")
    return found


def _in_full(part: ast.expr, known: Mapping[str, str]) -> str:
    """`models.Asset.insert` for `Asset.insert`, or nothing for what was not imported."""
    if isinstance(part, ast.Attribute):
        owner = _in_full(part.value, known)
        return f"{owner}.{part.attr}" if owner else ""
    return known.get(part.id, "") if isinstance(part, ast.Name) else ""
