"""Imports point down only, no files import each other in a circle, and each third-party library has one home."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parent.parent / "edge"

# The floors of the building, from the bottom. A room imports from the floors below it, and from itself.
FLOORS = (
    {"errors", "clock", "metrics", "terminal", "texts"},
    {"conversations", "fair_turns", "logs", "manual", "memory_budget", "outbound", "rate_limits"},
    {"validation", "database"},
    {"audit", "formats"},
    {"config", "labels", "people", "records"},
    {"tracking"},
    {"doors"},
    {"events", "expected_lists", "muster", "walls"},
    {"rules"},
    {"readers", "sync"},
    {"rules", "upstream"},
    {"handhelds", "ingest", "operations"},
    {"bulk", "epcis", "feed", "listeners", "services"},
    {"api"},
    {"pages"},
    {"app", "server"},
    {"runtime"},
    {"demo"},
    {"commands"},
    {"cli"},
)
HOMES = {
    "amqtt": {"ingest.embedded_broker"},
    "cbor2": {"formats.cbor"},
    "blinker": {"records"},
    "biip": {"records.gs1_barcodes"},
    "charset_normalizer": {"validation.encodings"},
    "click": {"cli", "commands"},
    "epcpy": {"records.gs1_epcs"},
    "flask": {"app", "api", "pages", "server", "services"},
    "jmespath": {"formats"},
    "markdown_it": {"manual.markdown"},
    "paho": {"ingest", "events.mqtt_session", "demo"},  # the simulated readers of the demo publish like real ones
    "openpyxl": {"validation.workbook"},
    "peewee": {"database"},
    "PIL": {"records.images"},
    "ppf": {"labels"},
    "pyrage": {"people.secrets", "operations.encryption"},
    "psycopg": {"tracking.postgres"},
    "psycopg_pool": {"tracking.postgres"},
    "reportlab": {"labels"},
    "sqlite3": {"database", "operations"},
    "xlsxwriter": {"validation.xlsx"},
    "waitress": {"server", "runtime"},  # the runtime names its types
}


# Modules that open transactions or write the audit, callers of domain functions, and the callers that are excepted.
TRANSACTIONS = {
    "audit.audit",
    "database.connection.writing",
    "database.connection.execute_many",
    "database.group_commit",
}
OPENERS = {
    "ingest.pipeline": "one transaction for a whole batch of messages, of which only a part is scans",
    "sync.sender": "what a hub answers and how far it is, in one transaction; the copies are audited at their home",
    "sync.verify": "what differs, and how far the comparison is, in one transaction",
    "demo.site": "the demo site is made whole or not at all",
}
CALLERS = {"api", "app", "cli", "commands", "demo", "ingest", "pages", "runtime", "server", "sync"}
EXCEPTED = {*OPENERS, "ingest.held_messages", "sync.store"}
SETTINGS_READERS = {
    *("cli", "commands", "config", "demo", "operations.doctor", "operations.retention", "runtime", "services"),
}


class Arrow(NamedTuple):
    importer: str  # dotted, without "edge."
    imported: str  # dotted, as written
    line: int


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"), path


@cache
def arrows() -> list[Arrow]:
    imports = []
    for importer, path in modules():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imports += [Arrow(importer, name.name, node.lineno) for name in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                assert node.level == 0, f"{path}:{node.lineno}: write the import in full"
                imports += [Arrow(importer, f"{node.module}.{name.name}", node.lineno) for name in node.names]
    return imports


def is_within(name: str, places: set[str]) -> bool:
    return any(name == place or name.startswith(place + ".") for place in places)


def room_of(name: str) -> str:
    return name.split(".")[0]


@cache
def inner() -> list[Arrow]:
    """Return the imports of modules of `edge`."""
    return [
        arrow._replace(imported=arrow.imported.removeprefix("edge."))
        for arrow in arrows()
        if arrow.imported.startswith("edge.") and arrow.imported != "edge.__version__"
    ]


@cache
def outer() -> list[Arrow]:
    """Return the imports of libraries."""
    return [arrow for arrow in arrows() if room_of(arrow.imported) != "edge"]


MODULES = {name for name, _ in modules()}
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def test_every_room_has_its_floor() -> None:
    assert {room_of(name) for name in MODULES} - {"__main__", "__init__", ""} == set(FLOOR)


def test_every_module_that_is_listed_exists() -> None:
    listed = {*CALLERS, *SETTINGS_READERS, *EXCEPTED, *(home for homes in HOMES.values() for home in homes)}
    assert sorted(listed - MODULES) == []
    assert [name for name in TRANSACTIONS - MODULES if not is_defined(name)] == []


def test_every_exception_is_in_use() -> None:
    openers = {arrow.importer for arrow in inner() if is_within(arrow.imported, TRANSACTIONS)}
    assert [name for name in EXCEPTED if not any(is_within(opener, {name}) for opener in openers)] == []
    used = {(library, home) for library, homes in HOMES.items() for home in homes if imports_library(home, library)}
    assert {(library, home) for library, homes in HOMES.items() for home in homes} - used == set()


def imports_library(home: str, library: str) -> bool:
    return any(is_within(arrow.importer, {home}) and is_within(arrow.imported, {library}) for arrow in outer())


def is_defined(name: str) -> bool:
    """True for a function, such as `database.connection.writing`."""
    module, _, function = name.rpartition(".")
    source = PACKAGE / f"{module.replace('.', '/')}.py"
    return source.is_file() and f"\ndef {function}(" in source.read_text("utf-8")


def test_a_room_imports_only_from_floors_below_it() -> None:
    upward = {
        (arrow.importer, arrow.imported)
        for arrow in inner()
        if arrow.importer != "__main__"
        and room_of(arrow.importer) != room_of(arrow.imported)
        and FLOOR[room_of(arrow.imported)] >= FLOOR[room_of(arrow.importer)]
    }
    assert upward == set()


def in_circles(imports: dict[str, set[str]]) -> list[str]:
    """Return the files of circles, and the files that lead to one. Drops files without imports until none is left."""
    left = dict(imports)
    while ends := [name for name, targets in left.items() if not targets & set(left)]:
        for name in ends:
            del left[name]
    return sorted(left)


def test_no_modules_import_each_other_in_a_circle() -> None:
    imports: dict[str, set[str]] = {name: set() for name in MODULES}
    for arrow in inner():
        imports[arrow.importer] |= {arrow.imported} & MODULES or {arrow.imported.rpartition(".")[0]} & MODULES
    assert in_circles(imports) == []


STATIC = PACKAGE.parent / "web" / "static"
SCRIPT_IMPORT = re.compile(r"""(?:\bfrom|\bimport)\s*\(?\s*["'](\.[^"']+)["']""")


def test_no_scripts_import_each_other_in_a_circle() -> None:
    """Dynamic imports count, too."""
    scripts = {path.resolve() for path in STATIC.rglob("*.js") if "vendor" not in path.parts}
    imports = {
        str(path): {str((path.parent / name).resolve()) for name in SCRIPT_IMPORT.findall(path.read_text("utf-8"))}
        for path in scripts
    }
    missing = [(path, name) for path, names in imports.items() for name in names if not Path(name).is_file()]
    assert missing == []
    assert sum(map(len, imports.values())) > len(scripts), "the pattern matches the imports"
    assert in_circles(imports) == []


def test_api_pages_and_commands_open_no_transaction_and_write_no_audit() -> None:
    """API, pages and shell behave the same, because all call the domain functions (see edge/audit/audit.py)."""
    wrong = [
        arrow
        for arrow in inner()
        if is_within(arrow.imported, TRANSACTIONS)
        and room_of(arrow.importer) in CALLERS
        and not is_within(arrow.importer, EXCEPTED)
    ]
    assert wrong == []


def test_only_commands_runtime_and_doctor_see_the_settings() -> None:
    seers = {arrow.importer for arrow in inner() if is_within(arrow.imported, {"config.settings"})}
    assert [seer for seer in seers if not is_within(seer, SETTINGS_READERS)] == []


@pytest.mark.parametrize("library", sorted(HOMES))
def test_a_library_is_imported_only_at_its_home(library: str) -> None:
    wrong = [
        arrow
        for arrow in outer()
        if is_within(arrow.imported, {library}) and not is_within(arrow.importer, HOMES[library])
    ]
    assert wrong == []


def test_the_service_starts_without_libraries_that_few_requests_need() -> None:
    """A small box starts seconds later and keeps less memory free for each of them."""
    extras = {"amqtt", "cbor2", "openpyxl", "psycopg", "psycopg_binary", "psycopg_pool", "xlsxwriter"}
    rare = extras | {"reportlab", "PIL", "biip", "epcpy", "segno", "yaml", "markdown_it", "jwt", "xml.parsers.expat"}
    assert rare & _loaded_by("import edge.commands.serve, edge.app") == set()


def test_a_service_without_upstream_does_not_load_it() -> None:
    loaded = {name for name in _loaded_by("import edge.commands.serve, edge.app") if name.startswith("edge.upstream")}
    assert loaded == {"edge.upstream", "edge.upstream.standby"}


def test_the_command_line_loads_only_the_command_that_is_used() -> None:
    assert {"flask", "peewee", "waitress", "paho"} & _loaded_by("import edge.cli") == set()


def _loaded_by(statement: str) -> set[str]:
    command = [sys.executable, "-c", f"{statement}; import sys; print(*sys.modules)"]
    return {*subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()}


def test_the_top_level_is_the_one_that_was_ordered() -> None:
    ordered = {"pyproject.toml", "edge", "web", "data", "tests", "systemd", "README.md"}
    made = {"build", "dist", "node_modules", "edge.egg-info", "__pycache__"}  # by tools, and not in git
    present = {path.name for path in PACKAGE.parent.iterdir() if not path.name.startswith(".")}
    assert present - made == ordered
