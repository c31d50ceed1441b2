"""Arrows point down only, and each third-party library has one home."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parent.parent / "edge"

# What each part may import of the others, besides itself and the leaves.
ALLOWED = {
    "cli": {"*"},
    "commands": {"*"},
    "demo": {"*"},
    "page_parts": {"config", "ingest", "live_settings", "ops", "pages", "store"},
    "live_settings": {"config", "store"},
    "liveness": {"events", "ingest", "ops", "store", "sync"},
    "runtime": {
        *(
            "liveness",
            "live_settings",
            "page_parts",
            "app",
            "server",
            "api",
            "pages",
            "events",
            "ingest",
            "sync",
            "ops",
            "auth",
            "store",
            "config",
        ),
    },
    "server": {"channels", "connections", "turns", "workers"},
    "channels": {"connections", "events.stream", "receiving", "refusals", "turns"},
    "turns": set(),
    "receiving": {"api", "connections", "pages.guard", "refusals", "sync.wire"},
    "refusals": {"api"},
    "connections": set(),
    "workers": set(),
    "app": {
        *("api", "pages", "events.endpoints", "events.stream", "sync.endpoints", "auth", "store"),
        *("ops.health", "ops.metrics"),
    },
    "api": {"auth", "store"},
    "labels": set(),
    "pages": {"auth", "store", "labels", "ops.health"},  # the type of what the probes are handed
    "ingest": {"store"},
    "sync": {"auth", "store"},
    "events": {"auth", "store"},
    "ops": {"store"},
    "auth": {"store"},
    "store": set(),
    "validation": set(),
}
LEAVES = {
    "validation",
    "errors",
    "clock",
    "metrics",
    "feed",
    "setting_types",
    "config_sources",
    "ingest.reads",
    "terminal",
    "buckets",
    "budget",
    "concurrency",
    "addresses",
    "outbound",
    "live_reads",
    "texts",
    "recent_log",
    "stop_signal",
}
HOMES = {
    "babel": {"pages.languages"},
    "flask_babel": {"pages"},
    "flask": {"app", "api", "pages", "server", "channels", "events.endpoints", "sync.endpoints"},
    "peewee": {"store"},
    "sqlite3": {"store"},
    "paho": {
        "ingest.sessions",
        "ingest.subscriber",
        "ingest.broker_probe",
        "events.mqtt",
        "demo",
    },  # the simulated readers of the demo publish like real ones
    "reportlab": {"labels"},
    "ppf": {"labels"},
    "PIL": {"pages.plan_images"},
    "amqtt": {"ingest.broker"},
    "pyrage": {"auth.sealed", "ops.archives"},
    "urllib3": {"sync.client"},
    "biip": {"store.gs1"},
    "epcpy": {"store.gs1"},
    "waitress": {"server", "channels", "receiving", "refusals", "runtime"},  # the runtime names its types
    "jmespath": {"ingest.parsers.expressions"},
    "msgpack": {"ingest.parsers.payloads", "ingest.replay"},  # what is kept is packed with it, too
    "click": {"cli", "commands", "demo"},
}


class Arrow(NamedTuple):
    importer: str  # dotted, without "edge."
    imported: str  # dotted, as written
    line: int


def arrows() -> Iterator[Arrow]:
    for path in sorted(PACKAGE.rglob("*.py")):
        importer = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                yield from (Arrow(importer, name.name, node.lineno) for name in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                assert node.level == 0, f"{path}:{node.lineno}: write the import in full"
                yield from (Arrow(importer, f"{node.module}.{name.name}", node.lineno) for name in node.names)


def is_within(name: str, places: set[str]) -> bool:
    return any(name == place or name.startswith(place + ".") for place in places)


INNER = [arrow for arrow in arrows() if arrow.imported.startswith("edge.")]
OUTER = [arrow for arrow in arrows() if not arrow.imported.startswith("edge.")]


TRANSACTIONS = {
    "edge.store.audit",
    "edge.store.database.writing",
    "edge.store.database.execute_many",
    "edge.store.group_commit",
}
OPENERS = {
    "ingest.pipeline": "one transaction for a whole batch of messages, of which only a part is scans",
    "sync.sender": "what a hub answers and how far it is, in one transaction; the copies are audited at their home",
    "sync.verify": "what differs, and how far the comparison is, in one transaction",
    "demo.site": "the demo site is made whole or not at all",
}


def test_only_the_store_opens_transactions_and_writes_the_audit() -> None:
    """What the API does, the pages and the shell do, too: whoever writes only calls (see edge/store/audit.py)."""
    wrong = [
        arrow
        for arrow in INNER
        if is_within(arrow.imported, TRANSACTIONS)
        and not is_within(arrow.importer, {"store"})
        and arrow.importer not in OPENERS
    ]
    assert wrong == []


def test_every_part_has_its_rule() -> None:
    parts = {arrow.importer.split(".")[0] for arrow in arrows()} - LEAVES - {"config", "__main__", "__init__", ""}
    assert parts <= set(ALLOWED)


@pytest.mark.parametrize("part", sorted(ALLOWED))
def test_a_part_imports_only_what_is_below_it(part: str) -> None:
    allowed = ALLOWED[part]
    wrong = [
        arrow
        for arrow in INNER
        if is_within(arrow.importer, {part})
        and "*" not in allowed
        and not is_within(arrow.imported.removeprefix("edge."), allowed | LEAVES | {part, "__version__"})
    ]
    assert wrong == []


@pytest.mark.parametrize("leaf", sorted(LEAVES))
def test_a_leaf_imports_only_leaves(leaf: str) -> None:
    wrong = [
        arrow
        for arrow in INNER
        if is_within(arrow.importer, {leaf}) and not is_within(arrow.imported.removeprefix("edge."), LEAVES)
    ]
    assert wrong == []


def test_only_the_command_and_the_runtime_see_the_settings() -> None:
    seers = {arrow.importer.split(".")[0] for arrow in INNER if is_within(arrow.imported, {"edge.config"})}
    assert seers <= {"cli", "commands", "demo", "runtime", "page_parts", "live_settings", "config"}


@pytest.mark.parametrize("library", sorted(HOMES))
def test_a_library_is_imported_only_at_its_home(library: str) -> None:
    wrong = [
        arrow
        for arrow in OUTER
        if is_within(arrow.imported, {library}) and not is_within(arrow.importer, HOMES[library])
    ]
    assert wrong == []


def test_the_start_waits_for_no_library_that_it_does_not_need() -> None:
    """The site is away while a release starts, on a small computer for some seconds; and each takes memory for ever."""
    script = "import sys, edge.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert {"reportlab", "amqtt", "PIL"} & {*loaded} == set()


def test_the_top_level_is_the_one_that_was_ordered() -> None:
    ordered = {"pyproject.toml", "edge", "web", "data", "tests", "systemd", "README.md"}
    made = {"build", "dist", "node_modules", "edge.egg-info", "__pycache__"}  # by tools, and not in git
    found = {path.name for path in PACKAGE.parent.iterdir() if not path.name.startswith(".")}
    assert found - made == ordered
