import json
import subprocess
import sys
import zipfile
from pathlib import Path

from click.testing import CliRunner, Result

from edge.cli import cli
from edge.errors import SetupError
from edge.operations.backup import list_backups
from edge.operations.files import hold
from tests.operations.conftest import site

__all__ = ["site"]


def edge(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["--set", f"data_dir={data}", *arguments])


def test_backup_and_restore_from_a_shell(site: Path) -> None:
    result = edge(site, "backup")
    assert result.exit_code == 0, result.output
    assert "1 organizations, 0 assets, newest scan none" in result.output
    file = list_backups(site / "backups")[0].path
    result = edge(site, "restore", "--yes", str(file))
    assert result.exit_code == 0, result.output
    assert "The previous database is" in result.output


def test_restore_is_refused_while_the_service_runs(site: Path) -> None:
    edge(site, "backup")
    with hold(site):
        result = edge(site, "restore", "--yes", str(list_backups(site / "backups")[0].path))
    assert isinstance(result.exception, SetupError)


def test_a_missing_second_disk_fails_the_command_but_not_the_backup(site: Path) -> None:
    result = edge(site, "--set", f"backup.second_dir={site}/nowhere", "backup")
    assert isinstance(result.exception, SetupError)
    assert len(list_backups(site / "backups")) == 1


def test_copies_are_for_the_user_of_the_service_alone(site: Path, tmp_path: Path) -> None:
    """Copies contain the key that signs tokens."""
    second = tmp_path / "stick"
    second.mkdir()
    command = [sys.executable, "-m", "edge", f"--set=data_dir={site}", f"--set=backup.second_dir={second}", "backup"]
    subprocess.run(command, check=True, capture_output=True, umask=0o022, cwd=Path(__file__).parents[2])
    files = [path for path in (*site.rglob("*"), *second.iterdir()) if path.is_file()]
    assert len(files) >= 3
    assert {path.stat().st_mode & 0o077 for path in files} == {0}


def test_the_doctor_speaks_to_people_and_to_machines(site: Path, tmp_path: Path) -> None:
    away = ("--set", "mqtt.broker=mqtt://127.0.0.1:1", "--set", "http.listen=127.0.0.1:1")
    result = edge(site, *away, "doctor")
    assert result.exit_code == 2
    assert "PROBLEM service" in result.output
    assert "→ systemctl start edge" in result.output
    result = edge(site, *away, "doctor", "--json", "--bundle", str(tmp_path / "bundle.zip"))
    levels = {check["id"]: check["level"] for check in json.loads(result.stdout)["checks"]}
    assert levels["broker"] == "problem"
    assert levels["schema"] == "ok"
    assert "doctor.json" in zipfile.ZipFile(tmp_path / "bundle.zip").namelist()
