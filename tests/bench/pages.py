"""Measure the processor time of every page with 10,000 assets and 3 million rows of history.

    python -m tests.bench.pages [--rows 3000000] [--keep FOLDER]

Pages are requested by an administrator within the process. A page counts by the median of five requests, after a change
of an asset before each, so that nothing is kept from the request before. Target: 200 ms. Prints the slowest pages, and
those that are not measured because the site has nothing to show on them.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from edge import clock
from edge.audit import actors
from edge.database import migrate
from edge.database.connection import FILE_NAME, close_database, execute
from edge.pages.tracking import home
from edge.people import people, sessions
from edge.people.people import Role
from edge.people.secrets import hash_secret
from tests.application import make_app
from tests.bench.history import generate, touch, tracked_assets
from tests.pages.conftest import Browser

ROUNDS = 5
TARGET = 200.0  # ms
SHOWN = 25
FILES = re.compile(
    r"/static/|/export/|\.csv|\.json|\.js$|/sw\.js|\.pdf|/events/stream|/live|download|/now$|image|photo"
)


class Figure(NamedTuple):
    milliseconds: float
    first: float
    path: str
    status: int


def measure() -> list[Figure]:
    organization_id = execute("SELECT id FROM organization").fetchone()[0]
    app = make_app(rate_per_second=10**6, rate_burst=10**6)
    admin = people.add_person(actors.shell(organization_id), "Ada", Role.ADMINISTRATOR)
    expires_at = clock.now() + clock.HOUR
    sessions.add_session(actors.person(organization_id, admin.id, admin.name), hash_secret("session"), expires_at)
    browser = Browser(app, "session")
    tracked = tracked_assets()
    location, reader = (execute(f"SELECT min(id) FROM {table}").fetchone()[0] for table in ("location", "reader"))
    known = {"asset_id": tracked.asset_ids[0], "location_id": location, "reader_id": reader, "port": 1}
    known |= {"person_id": admin.id, "kind": "asset"}
    figures, missing = [], []
    for rule in sorted(app.url_map.iter_rules(), key=str):
        if "GET" not in (rule.methods or ()) or not rule.endpoint.startswith("pages.") or FILES.search(rule.rule):
            continue
        path = re.sub(r"<(?:\w+(?:\([^)]*\))?:)?(\w+)>", lambda name: str(known.get(name[1], "?")), rule.rule)
        if "?" in path:
            missing.append(rule.rule)
            continue
        figures.append(of_page(browser, path))
    missing += [f"{one.path} ({one.status})" for one in figures if one.status != 200]
    print("Not measured:", *missing)
    return [one for one in figures if one.status == 200]


def of_page(browser: Browser, path: str) -> Figure:
    taken, status = [], 0
    for _ in range(ROUNDS):
        touch()
        home.forget()
        began = time.process_time()
        status = browser.get(path).status_code
        taken.append((time.process_time() - began) * 1000)
    return Figure(median(taken), taken[0], path, status)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--keep", type=Path, help="make the database there, or measure the one that is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data_dir = options.keep or Path(folder)
        data_dir.mkdir(exist_ok=True)
        is_new = not (data_dir / FILE_NAME).exists()
        migrate.migrate(data_dir)
        if is_new:
            generate(options.rows)
        figures = sorted(measure(), reverse=True)
        close_database()
    slow = [one for one in figures if one.milliseconds > TARGET]
    print(f"{len(figures)} pages, {len(slow)} over {TARGET:.0f} ms")
    for one in figures[:SHOWN]:
        print(f"{one.milliseconds:6.0f} ms, the first {one.first:6.0f} ms  {one.path}")


if __name__ == "__main__":
    main()
