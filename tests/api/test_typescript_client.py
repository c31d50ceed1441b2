"""A TypeScript program with generated types completes a round trip.

`typescript/specified.ts` checks the generated types against the specification, `typescript/round_trip.ts` uses them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.people import api_keys, organizations
from edge.people.secrets import hash_secret
from edge.records import assets, locations
from edge.tracking.positions import record
from edge.tracking.stays import Quality, Scan
from tests.api.conftest import AGENT
from tests.bench import api as bench
from tests.conftest import lacks

PROGRAM = Path(__file__).with_name("typescript")
INSTALL = [
    *("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"),
    "--fetch-retry-mintimeout=1000",  # without a registry npm gives up within seconds
]
# without the first option, fields with a default would be required
GENERATE = ("--default-non-nullable", "false", "-o", "schema.ts")


@pytest.mark.node
def test_a_typescript_client_does_a_full_round_trip(packages: Path, store: Path) -> None:
    program = store / "program"
    shutil.copytree(PROGRAM, program, ignore=shutil.ignore_patterns("node_modules", "built"))
    (program / "node_modules").symlink_to(packages)
    site = make_site()
    with bench.running("edge", store) as address:
        served = urllib.request.Request(f"{address}/api/openapi.json", headers={"User-Agent": AGENT})
        with urllib.request.urlopen(served) as response:
            (program / "openapi.json").write_bytes(response.read())
        run(program, "node_modules/.bin/openapi-typescript", "openapi.json", *GENERATE)
        run(program, "node_modules/.bin/tsc")
        run(program, "node", "built/round_trip.js", json.dumps({"address": address, **site}))


@pytest.fixture
def packages(pytestconfig: pytest.Config) -> Path:
    """Install the packages of the lock file once, in pytest's cache, until the lock file changes."""
    lock = (PROGRAM / "package-lock.json").read_bytes()
    kept = pytestconfig.cache.mkdir("typescript") / hashlib.sha256(lock).hexdigest()[:16]
    if not kept.exists():
        fresh = kept.with_suffix(f".{os.getpid()}")
        shutil.copytree(PROGRAM, fresh, ignore=shutil.ignore_patterns("node_modules"))
        done = subprocess.run(INSTALL, cwd=fresh, capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(fresh)
            lacks(f"the packages that npm downloads: {done.stderr}")
        try:
            fresh.rename(kept)
        except OSError:  # another run was first
            shutil.rmtree(fresh)
    return kept / "node_modules"


def make_site() -> dict[str, Any]:
    """Create a key, and an asset that was scanned at two locations one minute apart."""
    organization_id = organizations.add_organization(shell(), "Acme").id
    key = api_keys.add_key(shell(organization_id), "typescript", api_keys.SCOPES, hash_secret("secret"))
    asset = assets.create(shell(organization_id), name="Forklift")
    places = [locations.create(shell(organization_id), name=name).id for name in ("Aisle", "Yard")]
    began = clock.now()
    for place, at in zip(places, (began, began + 60 * clock.SECOND), strict=True):
        record([Scan(organization_id, asset.id, place, None, None, at, at, Quality.HANDHELD)], 0)
    seen = {"external_key": asset.external_key, "location_ids": places[::-1]}
    return {"client_id": key.id, "client_secret": "secret", "seen": seen}


def run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
