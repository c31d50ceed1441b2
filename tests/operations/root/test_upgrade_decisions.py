"""Decisions of edge-upgrade. tests/systemd/test_upgrade.py runs it on a simulated computer."""

from __future__ import annotations

import ast
import http.server
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edge.operations.root import (
    edge_upgrade,
    kept_database,
    places,
    programs,
    releases,
    service,
    switch,
    tried_release,
)
from edge.operations.root.places import Previous, note, noted
from edge.operations.root.tried_release import Trial, forecast, parse_trial
from tests.mosquitto import mosquitto
from tests.service import wait_for
from tests.soak import upgrades

ROOT = Path(releases.__file__).parents[3]
CODE = Path(releases.__file__).parent
CHANGED_WHEEL = """\
Collecting blinker==1.9.0 (from -r requirements.txt (line 1))
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package versions
    blinker==1.9.0 from file:///wheels/blinker-1.9.0-py3-none-any.whl (from -r requirements.txt (line 1)):
        Expected sha256 aa
"""


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (CHANGED_WHEEL, "blinker==1.9.0 is not the file this release was made with; it was damaged in transfer or mod"),
        (
            "ERROR: Could not find x. More\nERROR: No matching distribution found for edge-needs-this==1\n",
            "No matching distribution found for edge-needs-this==1; without internet give a bundle",
        ),
        (
            "Traceback (most recent call last):\n  File x\nSyntaxError: invalid syntax\n\n",
            "SyntaxError: invalid syntax",
        ),
        ("", ""),
    ],
)
def test_a_failed_installation_is_explained_in_one_sentence(output: str, why: str) -> None:
    assert releases.reason_of_pip(output)[: len(why)] == why
    assert "\n" not in releases.reason_of_pip(output)


def test_the_last_words_of_a_program_do_not_control_the_terminal() -> None:
    assert programs.last_line("first\nedge: reader \x1b[2Jdock has 0 messages\n \n") == "reader [2Jdock has 0 messages"
    assert programs.last_line("\n \n") == ""


def test_the_report_of_a_trial_decides_whether_the_database_is_copied() -> None:
    report = (
        '{"messages_replayed": 3, "schema_before": 12, "schema_after": 13, "start_seconds": 1.5, "start_limit": 7}\n'
    )
    trial = parse_trial(report)
    assert trial == Trial(12, 13, 7)
    assert trial.migrates
    assert "from schema 12 to 13" in forecast(trial)
    assert "stays as it is" in forecast(Trial(13, 13, 7))
    assert not Trial(13, 13, 7).migrates


def test_a_release_without_a_start_limit_gets_one_and_one_without_schemas_is_refused() -> None:
    assert parse_trial('{"schema_before": 12, "schema_after": 12, "migration_seconds": 0.1}') == Trial(12, 12, 90)
    assert parse_trial("") is None
    assert parse_trial('{"start_limit": 7}') is None


def test_the_room_for_an_upgrade_grows_with_the_database() -> None:
    assert tried_release.rooms(100 * 2**20, 200) == [(places.PROGRAM, 200), (places.DATA, 350)]
    assert tried_release.rooms(100 * 2**20, 0) == []


@pytest.mark.parametrize(
    ("toml", "folder"),
    [
        ('data_dir = "/mnt/ssd/edge"\n[http]\nlisten = "0.0.0.0:80"\n', "/mnt/ssd/edge"),
        ("# by hand\n  data_dir='/srv/edge' # ssd", "/srv/edge"),
        ('\ufeffdata_dir = "/srv/edge"', "/srv/edge"),
        ('log_level = "info"', "/var/lib/edge"),
    ],
)
def test_the_data_folder_is_that_of_the_settings(tmp_path: Path, toml: str, folder: str) -> None:
    (tmp_path / "edge.toml").write_text(toml, "utf-8")
    assert places.data_folder(tmp_path / "edge.toml") == Path(folder)
    assert places.data_folder(tmp_path / "missing") == Path("/var/lib/edge")
    (tmp_path / "edge.toml").write_text('data_dir = "/mnt', "utf-8")
    with pytest.raises(ValueError, match="document"):
        places.data_folder(tmp_path / "edge.toml")


@pytest.mark.parametrize(
    "printed",
    [
        "Wrote /a\nOLD=/var/lib/edge/evil now",
        "Wrote /var/lib/edge/backups/../evil.db.gz now",
        "Wrote /var/lib/edge/$(reboot).db.gz now",
        "Wrote edge.db.gz now",
    ],
)
def test_a_path_that_the_service_prints_is_not_used_unless_it_is_a_plain_backup(
    monkeypatch: pytest.MonkeyPatch, printed: str
) -> None:
    """Regression: a line break in the path named another release, which root would have installed at a rollback."""
    monkeypatch.setattr(tried_release, "read", lambda *_: printed)
    monkeypatch.setattr(tried_release, "as_edge", lambda *_: pytest.fail("used"))
    with pytest.raises(SystemExit, match=r"not changed|nothing was changed"):
        tried_release._back_up(is_watched=False)
    assert places.is_backup("/mnt/daten;edge/backups/edge-1.db.gz") is False
    assert places.is_backup("/mnt/usb/edge/backups/edge-20260101T000000Z.db.gz")


def test_a_backup_in_a_folder_with_spaces_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: an upgrade said that the backup had failed."""
    path = "/mnt/daten für edge/backups/edge-1.db.gz"
    monkeypatch.setattr(tried_release, "read", lambda *_: f"Wrote {path} (12 KB): 3 assets. Read back and verified.\n")
    monkeypatch.setattr(tried_release, "as_edge", lambda *_: True)
    monkeypatch.setattr(tried_release, "pin", lambda backup: backup == path)
    assert tried_release._back_up(is_watched=False) == path


def test_a_rollback_never_installs_a_release_outside_the_folder_of_root(tmp_path: Path) -> None:
    note(tmp_path / "upgrade", Previous(Path("/var/lib/edge/evil"), ""))
    with pytest.raises(SystemExit, match="not in /opt/edge/releases"):
        noted(tmp_path / "upgrade")


def test_only_root_can_hold_the_lock_of_upgrades(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "lock"
    lock.touch(0o644)
    monkeypatch.setattr(programs, "_LOCK", lock)
    programs.alone()
    assert lock.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("[::]:8080", "http://[::1]:8080"),
        ("192.168.4.20:80", "http://192.168.4.20:80"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
    ],
)
def test_the_service_is_asked_at_an_address_of_this_box(listen: str, address: str) -> None:
    assert service.local_address(f"data_dir = /x\nhttp.listen = {listen}\nmqtt.broker = x\n") == address


class _OnlyHealthy(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def base() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _OnlyHealthy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_first_page_that_is_not_served_is_named(base: str) -> None:
    assert service.unanswered(base, 0, "/healthz") == ""
    assert service.unanswered(base, 0, "/healthz", "/sign-in", "/api/openapi.json") == "/sign-in"


@pytest.mark.parametrize("address", ["http://", "http://127.0.0.1:", "http://127.0.0.1:x", "http://127.0.0.1:1"])
def test_an_address_that_is_none_does_not_answer(address: str) -> None:
    assert service.unanswered(address, 0, "/healthz") == "/healthz"


def test_a_release_reads_databases_up_to_its_number_of_migrations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room, count in (("database", 3), ("store", 2)):
        folder = tmp_path / "lib/python3.11/site-packages/edge" / room / "migrations"
        folder.mkdir(parents=True)
        for number in range(count):
            (folder / f"{number:04}_step.sql").touch()
    (folder / "notes.txt").touch()
    assert kept_database.schema_of(tmp_path) == 5
    for present, reads in (("5\n", True), ("6\n", False), (None, False), ("", False)):
        monkeypatch.setattr(kept_database, "read", lambda *_, present=present: present)
        assert kept_database.reads_database(tmp_path) is reads


@pytest.mark.parametrize(
    ("code", "is_one"), [(0, False), (1, False), (128, False), (-15, True), (143, True), (144, False)]
)
def test_a_watch_that_a_signal_ended_is_no_verdict(code: int, is_one: bool) -> None:
    assert switch.was_interrupted(code) is is_one


def test_a_note_is_complete_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, previous = tmp_path / "upgrade", Previous(Path("/opt/edge/releases/old"), "/var/lib/edge/backups/a=b")
    assert note(file, previous)
    assert noted(file) == previous
    assert file.read_text() == "OLD=/opt/edge/releases/old\nBACKUP=/var/lib/edge/backups/a=b\n"  # as earlier releases

    def full(_: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(places, "sync", full)
    assert not note(file, previous)
    assert list(tmp_path.iterdir()) == []


def test_two_releases_of_one_second_have_folders_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "RELEASES", tmp_path)
    monkeypatch.setattr(time, "gmtime", lambda: time.struct_time((2026, 1, 1, 0, 0, 0, 3, 1, 0)))
    first = releases._new_folder()
    assert first == tmp_path / "20260101T000000Z"
    first.mkdir()
    assert releases._new_folder() == tmp_path / "20260101T000000Z-2"


def test_a_release_of_this_box_is_not_copied_to_another_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: the programs of the copy began with the Python of the original, which the next upgrade removed."""
    monkeypatch.setattr(releases, "RELEASES", tmp_path)
    (tmp_path / "1").mkdir()
    (tmp_path / "1/pyvenv.cfg").touch()
    with pytest.raises(SystemExit, match="is installed already, and nothing was changed"):
        releases.build(tmp_path / "1")
    assert [file.name for file in tmp_path.iterdir()] == ["1"]


def test_systemd_is_not_reloaded_if_all_units_are_enabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it reloads it misses that the service writes accounts of readers: mosquitto kept the old ones."""
    program, calls = tmp_path / "systemctl", tmp_path / "calls"
    program.write_text(f'#!/bin/sh\necho "$*" >>{calls}\n[ "$1 $3" != "is-enabled edge-drill.timer" ]\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    switch.enable("edge-backup.timer", "edge-doctor.timer")
    assert {line.split()[0] for line in calls.read_text().splitlines()} == {"is-enabled"}
    switch.enable("edge-backup.timer", "edge-drill.timer")
    assert calls.read_text().splitlines()[-1] == "enable --quiet edge-drill.timer"


def test_letters_that_a_terminal_lacks_end_nothing() -> None:
    code = (
        "import sys; sys.path.append(sys.argv[1]); from edge.operations.root import programs;"
        " programs.begin('edge-upgrade'); programs.say('reader \\u2192'); programs.fail('dock \\u2192')"
    )
    command = [sys.executable, "-I", "-S", "-X", "utf8=0", "-c", code, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"LC_ALL": "C"})
    assert (done.stdout, done.stderr) == ("reader \\u2192\n", "edge-upgrade: dock \\u2192\n")
    assert done.returncode == 1


def test_a_program_that_is_missing_fails() -> None:
    assert not programs.works("/nonexistent/program")
    assert programs.result("/nonexistent/program").stderr == "/nonexistent/program: No such file or directory"
    assert programs.read("/nonexistent/program") is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_a_script_as_a_signal_but_leaves_no_temporary_files(tmp_path: Path, number: int) -> None:
    """systemd counts a service that it stops as failed if it ends with an exit code."""
    code = (
        "import signal, sys, tempfile; sys.path.append(sys.argv[1]); from edge.operations.root import programs;"
        " programs.begin('edge-upgrade')\n"
        "with tempfile.TemporaryDirectory(dir=sys.argv[2]) as folder: print(folder, flush=True); signal.pause()"
    )
    command = [sys.executable, "-I", "-S", "-c", code, str(ROOT), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        folder = Path(process.stdout.readline().strip())
        assert folder.is_dir()
        process.send_signal(number)
        assert process.wait(60) == -number
    assert not folder.exists()


@pytest.mark.parametrize("words", [[], ["--what"], ["one", "two"], ["--check"], ["--build"], ["--use"]])
def test_arguments_that_are_none_are_answered_with_the_usage(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(edge_upgrade, "begin", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["-c", "/usr/local/sbin", "/", *words])
    with pytest.raises(SystemExit) as ended:
        edge_upgrade.main()
    assert ended.value.code == 2
    said = capsys.readouterr().out
    assert said.startswith("Install another release of edge on this box.")
    assert "edge-upgrade --back " in said


def test_root_needs_only_the_standard_library_of_debians_python() -> None:
    """It runs while the libraries of a release are broken, or of another Python."""
    imported = set()
    for path in CODE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {name.name for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module or "")
    others = {name for name in imported if name.partition(".")[0] not in sys.stdlib_module_names}
    assert {name for name in others if not name.startswith("edge.operations.root")} == set()
    code = "import sys; sys.path.append(sys.argv[1]); import edge.operations.root.edge_upgrade; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, ROOT], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith("edge")}
    assert loaded <= {"edge", "edge.operations", *(name for name in loaded if name.startswith("edge.operations.root"))}


def test_nothing_is_imported_while_a_release_may_be_removed() -> None:
    for path in CODE.glob("*.py"):
        assert not re.search(r"^ +(import|from) ", path.read_text("utf-8"), re.MULTILINE), path.name


LINES = [
    *(line for line, _ in upgrades.STEPS.values()),
    *(line for line, _ in upgrades.PLAIN_STEPS.values()),
    *(line for _, line in upgrades.FULL.values()),
    *upgrades.WAYS_BACK.values(),
]


@pytest.mark.parametrize("line", sorted(set(LINES)))
def test_a_line_at_which_drills_cut_the_power_exists(line: str) -> None:
    assert any(line in text for path in CODE.glob("*.py") for text in path.read_text("utf-8").splitlines())


@pytest.mark.mosquitto
def test_mosquitto_saves_waiting_reads_while_the_service_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mosquitto(tmp_path) as broker:
        session = ["-i", "edge", "-c", "-q", "1", "-t", "dock", "-E"]
        subprocess.run(["mosquitto_sub", "-p", str(broker.port), *session], check=True)
        broker.publish("dock", [b"waiting"])
        monkeypatch.setattr(
            service, "result", lambda *words: subprocess.CompletedProcess(words, 0, f"{broker.pid}\n", "")
        )
        assert service.let_broker_save(0) == broker.pid
        saved = tmp_path / "mosquitto.db"
        wait_for(lambda: saved.exists() and b"waiting" in saved.read_bytes(), 10)


def test_no_broker_on_this_box_gets_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "result", lambda *words: subprocess.CompletedProcess(words, 0, "0\n", ""))
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("a process got a signal"))
    assert service.let_broker_save(os.getpid()) == 0


@pytest.mark.parametrize(
    ("text", "made"),
    [("version 0.2.0\nmade 2026-11-28T01:18:02Z\ncommit 00\n", "2026-11-28T01:18:02Z"), ("version 0.2.0\n", "")],
)
def test_builds_of_one_version_differ_in_the_time_of_their_commit(tmp_path: Path, text: str, made: str) -> None:
    (tmp_path / "release").write_text(text)
    assert places.made_at(tmp_path) == made


def test_a_release_from_a_folder_has_no_time(tmp_path: Path) -> None:
    assert places.made_at(tmp_path) == ""


@pytest.mark.parametrize(("is_changed", "commands"), [(True, ["return", "backup"]), (False, ["return"])])
def test_the_previous_release_has_a_backup_that_it_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_changed: bool, commands: list[str]
) -> None:
    """Regression: after a return with another schema, the doctor reported the newest backup as damaged."""
    release, done = tmp_path / "release", []
    (release / "bin").mkdir(parents=True)
    (release / "bin/edge").touch(mode=0o755)
    for name in ("STATE", "PROBATION", "PREVIOUS"):
        monkeypatch.setattr(switch, name, tmp_path / name)
    monkeypatch.setattr(places, "RELEASES", tmp_path)
    places.note(tmp_path / "PROBATION", places.Previous(release, ""))
    monkeypatch.setattr(switch, "_downgrade", lambda _: None)
    monkeypatch.setattr(switch.kept_database, "reads_database", lambda _: not is_changed)
    monkeypatch.setattr(switch, "return_from_probation", lambda *_, **__: done.append("return"))
    monkeypatch.setattr(switch, "works", lambda _, word, *__: word == "stop" or done.append(word) is None)
    switch.back()
    assert done == commands


def test_an_upgrade_settles_the_failure_of_an_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: the doctor still reported the upgrade that a power cut had interrupted."""
    done: list[tuple[object, ...]] = []
    monkeypatch.setattr(edge_upgrade, "STATE", tmp_path / "upgrade")
    monkeypatch.setattr(edge_upgrade, "PROBATION", tmp_path / "probation")
    monkeypatch.setattr(edge_upgrade, "alone", lambda: None)
    monkeypatch.setattr(edge_upgrade, "as_edge", lambda *_: False)
    monkeypatch.setattr(edge_upgrade, "try_release", lambda *_, **__: None)
    monkeypatch.setattr(edge_upgrade, "switch", lambda _: done.append(("switch",)))
    monkeypatch.setattr(edge_upgrade, "works", lambda *command: done.append(command) is None)
    monkeypatch.setattr(edge_upgrade, "version", lambda: "edge")
    edge_upgrade._upgrade_to(tmp_path, is_check=False)
    assert done == [("switch",), ("systemctl", "reset-failed", "edge-upgrade")]
