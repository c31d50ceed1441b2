"""Restore drill, and the doctor's checks of it."""

import json
import re
from pathlib import Path

from click.testing import CliRunner, Result

from edge import clock
from edge.audit.actors import shell
from edge.cli import cli
from edge.database import migrate
from edge.database.connection import close_database
from edge.operations import restore_drill
from edge.operations.backup import Rotation, make_backup
from edge.operations.doctor import findings
from edge.people.organizations import add_organization
from tests.mosquitto import free_port

KEPT = Rotation(daily=7, weekly=8)


def edge(data: Path, *arguments: str) -> Result:
    port = free_port()
    return CliRunner().invoke(cli, [f"--set=data_dir={data}", f"--set=mqtt.broker=mqtt://127.0.0.1:{port}", *arguments])


def test_a_sound_backup_comes_back_aside_and_nothing_is_left_of_it(site: Path) -> None:
    make_backup(site, site / "backups", KEPT)
    report = restore_drill.run(site, site / "backups", None)
    assert report.is_ok
    assert restore_drill.last(site) == report
    assert not list(site.glob("drill.db*"))


def test_a_backup_of_another_box_is_detected(site: Path) -> None:
    add_organization(shell(), "Soon gone")
    make_backup(site, site / "backups", KEPT)
    (site / "edge.db").rename(site / "elsewhere")  # now the live database has fewer rows than the backup
    for suffix in ("-wal", "-shm"):
        (site / f"edge.db{suffix}").unlink(missing_ok=True)
    close_database()
    migrate.migrate(site)
    report = restore_drill.run(site, site / "backups", None)
    assert not report.is_ok
    assert "check that it belongs to this box" in report.text


def test_a_damaged_backup_is_detected(site: Path) -> None:
    made = make_backup(site, site / "backups", KEPT)
    content = bytearray(made.backup.path.read_bytes())
    content[len(content) // 2] ^= 255
    made.backup.path.write_bytes(content)
    report = restore_drill.run(site, site / "backups", None)
    assert not report.is_ok
    assert made.backup.path.name in report.text


def test_the_command_fails_when_there_is_nothing_to_restore(site: Path) -> None:
    result = edge(site, "restore-drill")
    assert result.exit_code == 1
    assert "there is no backup" in str(result.exception)


def test_the_metrics_have_the_findings_of_the_doctor(site: Path) -> None:
    site.chmod(0o700)
    before = clock.now()
    result = edge(site, "doctor", "--publish", "--json")
    assert result.exit_code == 2  # no broker, no service
    assert "not published" in result.stderr
    levels = {check["id"]: check["level"] for check in json.loads(result.stdout)["checks"]}
    assert "database" not in levels
    samples = {sample.labels.get("check", metric.name): sample.value
            for metric in findings.sample(site) for sample in metric.samples}  # fmt: skip
    assert samples.pop("edge_doctor_timestamp_seconds") >= before / clock.SECOND
    assert samples == {name: findings.LEVELS[level] for name, level in levels.items()}


def test_every_metric_of_the_alerts_exists() -> None:
    root = Path(__file__).parents[2]
    source = "".join(path.read_text() for path in (root / "edge").rglob("*.py"))
    names = set(re.findall(r"\bedge_[a-z_]+", (root / "systemd" / "prometheus-alerts.yml").read_text()))
    assert len(names) > 8
    parts = ("edge_ingest_", "edge_reader_", "edge_site_", "edge_", "")  # the rest is the name in a table
    assert {name for name in names if all(f'"{name.removeprefix(part)}"' not in source for part in parts)} == set()
