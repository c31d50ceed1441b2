"""The demo as a whole: fast start, visible movement, and working commands in its guide."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from edge.clock import SECOND
from edge.database.connection import execute
from edge.demo import publishing
from edge.demo.guide import get_command, guide, token_command
from edge.demo.run import Demo, free_port, running_demo
from edge.errors import SetupError
from edge.people import people
from edge.people.passwords import matches
from edge.tracking import report as tracking
from edge.tracking.report import AssetLocationFilter

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    with running_demo(None, free_port(0), free_port(0)) as running:
        yield running


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def shell(*commands: str) -> str:
    done = subprocess.run(["bash", "-c", "\n".join(commands)], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout


def places(demo: Demo) -> dict[str, str | None]:
    known = tracking.list_asset_locations(demo.access.organization_id, AssetLocationFilter(), limit=-1)
    return {row.asset_external_key: row.location_external_key for row in known.rows}


def test_what_moves_has_a_position_and_what_nobody_hears_has_none(demo: Demo) -> None:
    moving = {item.key for item in demo.plan.items if item.key and item.route}
    until(lambda: len(places(demo)) > 0.9 * len(moving))
    assert set(places(demo)) <= moving | {"MESH-001", "MESH-002"}


def test_history_reaches_into_the_past(demo: Demo) -> None:
    until(
        lambda: (
            execute("SELECT ifnull(max(observed_at) - min(observed_at), 0) FROM history").fetchone()[0] > 1700 * SECOND
        )
    )
    assert set(execute("SELECT DISTINCT quality FROM history").fetchall()) == {(0,)}


def test_only_strangers_are_unknown_and_nothing_is_lost(demo: Demo) -> None:
    strangers = {value.upper() for item in demo.plan.items if not item.key for value in (item.epc, item.mac) if value}
    until(lambda: execute("SELECT count(*) FROM unknown_tag").fetchone()[0] > 2)
    assert {value.upper() for (value,) in execute("SELECT value FROM unknown_tag")} <= strangers
    assert execute("SELECT count(*) FROM dead_letter").fetchone()[0] == 0
    assert execute("SELECT count(*) FROM unassigned_topic").fetchone()[0] == 0
    until(lambda: not execute("SELECT 1 FROM ledger WHERE bucket = 'held'").fetchone())  # some are held at first
    buckets = {bucket for (bucket,) in execute("SELECT DISTINCT bucket FROM ledger")}
    assert buckets <= {"recorded", "status", "unmatched_tag", "repeat"}


@pytest.mark.curl
def test_the_printed_commands_answer(demo: Demo) -> None:
    until(lambda: "FORK-001" in places(demo))
    commands = re.findall(r"^  (TOKEN=.*|curl .*)$", guide(demo), re.MULTILINE)
    report, history = map(json.loads, shell(*commands).splitlines())
    assert len(report["data"]) == 5
    assert len(history["data"]) > 0
    assert all(row["location_external_key"] for row in history["data"])


@pytest.mark.curl
def test_a_message_by_hand_is_seen_through_the_api(demo: Demo) -> None:
    [printed] = re.findall(r"^  (\S+ demo publish .*)$", guide(demo), re.MULTILINE)
    shell(printed)
    until(lambda: places(demo).get("MESH-001") == "RETURNS")
    report = get_command(demo, "/api/v1/reports/asset-locations?asset_external_key=MESH-001")
    assert json.loads(shell(token_command(demo), report))["data"][0]["location_external_key"] == "RETURNS"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_message_to_a_broker_that_does_not_run_is_reported(host: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "edge", "demo", "publish", "--host", host, "--port", str(free_port(0)), "a/b", "{}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Check that the broker runs there" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_message_on_a_topic_with_a_wildcard_is_refused(demo: Demo) -> None:
    with pytest.raises(SetupError, match="cannot contain wildcards"):
        publishing.publish("127.0.0.1", demo.mqtt_port, "a/#", "{}")


def test_the_account_is_an_administrator_with_the_printed_password(demo: Demo) -> None:
    (person,) = people.find_by_email(demo.access.email)
    assert person is not None
    assert person.role == people.Role.ADMINISTRATOR
    assert matches(person.password_hash, demo.access.password)
    assert demo.access.password in guide(demo)
