"""A wall in a browser through kills and releases of the service: `python -m tests.soak.wall [--minutes 15]`.

Alerts are raised each second, so that each request of the wall brings new content. Each minute the service is killed
and started again, each third time as another release. After each start the wall must show the newest alert by itself.
Prints the memory of the page, which must not grow.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, CDPSession, Page, expect, sync_playwright

from edge import __version__, clock
from edge.audit.actors import shell
from edge.database import migrate
from edge.database.connection import FILE_NAME, open_database
from edge.people import organizations
from edge.records import assets
from edge.rules import alerts, rules, states
from edge.rules.alerts import AlertFilter
from edge.rules.conditions import Condition
from edge.rules.rules import RuleFields
from edge.rules.states import Occurrence
from edge.walls import walls
from edge.walls.walls import NewWall, Shows
from tests.browser.conftest import ARGS, CHROMIUM
from tests.mosquitto import free_port
from tests.service import ROOT, Service

EVERY_SECONDS = 60  # between kills
BACK_WITHIN = 45_000  # ms, with the 30 s after which a browser loads an error page again
MOST_GROWTH = 1.2  # of the second half to the first


class Sample(NamedTuple):
    heap_mb: float
    nodes: int
    listeners: int


class Alarms:
    """Alerts of one rule, written next to the service. Only the newest ones stay open."""

    def __init__(self) -> None:
        self.organization_id = organizations.add_organization(shell(), "Soak").id
        self._actor = shell(self.organization_id)
        no = rules.add_rule(self._actor, RuleFields("Gone", Condition.UNSEEN, span=clock.HOUR))
        self._rule = rules.get(self.organization_id, no)
        self._assets = [assets.create(self._actor, name=f"Pallet {number}") for number in range(500)]
        self._count = 0

    def fire(self) -> str:
        """Raise an alert and acknowledge the earlier ones. Returns the name that the wall must show."""
        one = self._assets[self._count % len(self._assets)]
        self._count += 1
        no = states.fire(self._rule, Occurrence(f"{self._count}:1", one.id, one.name, one.external_key, clock.now()))
        assert no is not None
        if self._count % 5 == 0:
            alerts.acknowledge_all(self._actor, AlertFilter(), no - 1, "")
        return one.name


def run(browser: Browser, folder: Path, minutes: float) -> bool:
    box, other = folder / "box", folder / "other"
    box.mkdir(mode=0o700)
    migrate.migrate(box)
    open_database(box / FILE_NAME, checkpoints=False)
    alarms = Alarms()
    _, code = walls.add(shell(alarms.organization_id), NewWall("Dispatch", Shows.ALERTS))
    make_release(other)
    samples: list[Sample] = []
    with Service(box, "embedded", mqtt__listen=f"127.0.0.1:{free_port()}") as service:
        start(service)
        page = browser.new_page(viewport={"width": 1920, "height": 1080})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{service.http}/w/{code}")
        metrics = page.context.new_cdp_session(page)
        metrics.send("Performance.enable")
        ends_at, restarts, loads = time.monotonic() + minutes * 60, 0, 0
        while time.monotonic() < ends_at:
            let_pass(page, alarms, EVERY_SECONDS)
            samples.append(measure(metrics))
            page.evaluate("() => { window.isSame = true; }")
            service.kill()
            expect(page.locator("[data-live-state]")).to_be_visible(timeout=BACK_WITHIN)
            restarts += 1
            service.environment = {"PYTHONPATH": str(other), "PYTHONSAFEPATH": "1"} if restarts % 3 == 2 else {}
            start(service)
            name = alarms.fire()
            expect(page.locator("main")).to_contain_text(name, timeout=BACK_WITHIN)
            expect(page.locator("[data-live-state]")).to_be_hidden(timeout=BACK_WITHIN)
            if restarts % 3 != 1:  # to the other release, or back from it
                page.wait_for_function("() => !window.isSame", timeout=BACK_WITHIN)
                loads += 1
            print(f"{restarts} restarts, {loads} new pages, {samples[-1]}", flush=True)
        service.stop()
    half = len(samples) // 2  # the size depends on when the page was loaded, so the largest ones are compared
    early, late = (max(one.heap_mb for one in part) for part in (samples[:half] or samples, samples[half:]))
    print(
        f"{restarts} restarts, {loads} new releases; heap {early:.1f} MB, later {late:.1f} MB at most; errors: {errors}"
    )
    return not errors and late <= early * MOST_GROWTH


def start(service: Service) -> None:
    service.start()
    service.wait_until_connected()


def let_pass(page: Page, alarms: Alarms, seconds: float) -> None:
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        alarms.fire()
        page.wait_for_timeout(1000)


def make_release(folder: Path) -> None:
    """Copy the program with another version, from which a wall knows that its page is outdated."""
    for name in ("edge", "web", "data"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    module = folder / "edge/__init__.py"
    module.write_text(module.read_text().replace(__version__, f"{__version__}.1"))


def measure(metrics: CDPSession) -> Sample:
    metrics.send("HeapProfiler.collectGarbage")
    values = {one["name"]: one["value"] for one in metrics.send("Performance.getMetrics")["metrics"]}
    return Sample(round(values["JSHeapUsedSize"] / 1e6, 2), int(values["Nodes"]), int(values["JSEventListeners"]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        return 0 if run(browser, Path(folder), options.minutes) else 1


if __name__ == "__main__":
    sys.exit(main())
