import errno
import json
import os
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from edge import clock
from edge.audit.actors import shell
from edge.cli import cli
from edge.config.settings import Config
from edge.database.connection import execute, writing
from edge.errors import SetupError, Unavailable
from edge.operations import stats
from edge.operations.backup import Rotation, list_backups, make_backup
from edge.operations.doctor import box, data, doctor, machine
from edge.operations.doctor.findings import Level, Subject, ok, problem
from edge.operations.doctor.machine import NO_SITE
from edge.operations.files import hold
from edge.operations.upgrade.pending_upgrade import FILE_NAME
from edge.people.organizations import list_organizations
from edge.people.people import Role, add_person
from edge.readers import broker_state, dead_letters, ignored_messages, ledger, mapped_fields, status, unassigned_topics
from edge.readers.broker_accounts import end_sessions
from edge.readers.ignored_messages import IgnoredMessage
from edge.readers.readers import add_reader
from edge.records import assets
from edge.tracking import deletion
from edge.validation.field_counts import FieldCount
from tests.chance import began
from tests.observed import counted
from tests.operations.history import Stay, add_asset


@pytest.fixture
def subject(site: Path) -> Subject:
    site.chmod(0o700)
    config = Config(
        data_dir=site, retention_low_disk_mb=1, http_listen="127.0.0.1:1", mqtt_broker="mqtt://edge@127.0.0.1:1883"
    )
    machine = NO_SITE._replace(mosquitto=site / "mosquitto")
    return Subject(config, lambda: {"$SYS/broker/version": "mosquitto version 2.0.11"}, machine)


def with_settings(subject: Subject, **changed: Any) -> Subject:
    return subject._replace(config=replace(subject.config, **changed))


def finding_of(subject: Subject, name: str) -> tuple[Level, str]:
    finding = doctor.CHECKS[name](subject)
    assert (finding.level is Level.OK) == (not finding.advice), "what is wrong says what to do, and only that"
    return finding.level, finding.text


def with_message(name: str, *, hours_ago: float = 0.0, **given: int) -> int:
    reader = add_reader(shell(list_organizations()[0].id), name=name, topic=f"site/{name}", format="edge")
    at = began() - int(hours_ago * clock.HOUR)
    state = {"read_at": at, "clock_offset": 0, "qos": 1, "note": None, "is_offline": False, **given}
    with writing():
        status.record_readers([status.ReaderStatus(reader.id, at, **state)])  # type: ignore[arg-type]
    return reader.id


def test_every_check_of_a_fresh_site_answers_with_advice_if_needed(subject: Subject) -> None:
    examined = list(doctor.examine(subject))
    assert [item.name for item in examined] == list(doctor.CHECKS)
    assert not [item for item in examined if "check failed" in item.finding.text]
    assert all(item.finding.advice for item in examined if item.finding.level is not Level.OK)
    assert len(examined) >= 20


def test_check_ids_are_stable_slugs() -> None:
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in doctor.CHECKS)


def test_the_exit_code_is_that_of_the_worst_finding(subject: Subject) -> None:
    fine, worse = doctor.Examined("a", ok("x")), doctor.Examined("b", ok("x")._replace(level=Level.WARNING))
    worst = doctor.Examined("c", ok("x")._replace(level=Level.PROBLEM))
    assert [doctor.exit_code(items) for items in ([], [fine], [fine, worse], [worst, fine])] == [0, 0, 1, 2]
    finding = json.loads(doctor.as_json([fine, worse]))
    assert finding["status"] == "warning"
    assert finding["checks"][1] == {"id": "b", "level": "warning", "text": "x", "advice": ""}


def test_a_check_that_breaks_does_not_hide_the_others(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: Subject) -> None:
        raise RuntimeError("no such thing")

    monkeypatch.setitem(doctor.CHECKS, "disk", broken)
    examined = {item.name: item.finding for item in doctor.examine(subject)}
    assert examined["disk"].level is Level.PROBLEM
    assert "no such thing" in examined["disk"].text
    assert examined["schema"].level is Level.OK


def test_a_cause_comes_first_and_its_consequences_share_one_line(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(_: Subject) -> None:
        raise SetupError("The database file cannot be opened")

    def unwritable(_: Subject) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for name, check in (("schema", closed), ("records", closed), ("service", unwritable)):
        monkeypatch.setitem(doctor.CHECKS, name, check)
    cause = doctor.Examined("permissions", problem("the disk is read-only", "remount it"))
    items = list(doctor.examine(subject, (), cause))
    assert items[0] == cause
    assert [item.name for item in items].count("permissions") == 1
    assert items[-1].finding.text == "not checked: service, schema, records, because of the cause above"
    assert not [item for item in items if "check failed" in item.finding.text]
    items = list(doctor.examine(subject))
    assert "schema, records, because of The database file cannot be opened" in items[-1].finding.text
    assert {item.name: item.finding for item in items}["service"].text.startswith("check failed")


def test_without_settings_only_what_does_not_need_them_is_checked(subject: Subject) -> None:
    cause = doctor.Examined("settings", problem("The settings file cannot be read", "fix it"))
    items = list(doctor.examine(subject, (), cause, doctor.WITHOUT_SETTINGS))
    assert {item.name for item in items} == {"settings", "unchecked", *doctor.WITHOUT_SETTINGS}
    assert items[-1].finding.text.startswith("not checked: permissions, disk, inodes")


def test_others_who_can_read_the_database(subject: Subject) -> None:
    assert finding_of(subject, "permissions")[0] is Level.OK
    subject.data_dir.chmod(0o755)
    assert finding_of(subject, "permissions")[0] is Level.WARNING


def test_a_disk_that_gets_low(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    for free, level in ((900, Level.PROBLEM), (1500, Level.WARNING), (5000, Level.OK)):
        monkeypatch.setattr(box.shutil, "disk_usage", lambda _, free=free: type("Usage", (), {"free": free << 10}))
        assert finding_of(subject, "disk")[0] is level


@pytest.mark.parametrize(("free", "level"), [(500, Level.PROBLEM), (2000, Level.WARNING), (90_000, Level.OK)])
def test_a_disk_that_takes_no_more_files(
    subject: Subject, monkeypatch: pytest.MonkeyPatch, free: int, level: Level
) -> None:
    monkeypatch.setattr(box.os, "statvfs", lambda _: type("State", (), {"f_files": 100_000, "f_favail": free}))
    assert finding_of(subject, "inodes")[0] is level


def test_a_file_system_that_counts_no_files(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box.os, "statvfs", lambda _: type("State", (), {"f_files": 0, "f_favail": 0}))
    assert finding_of(subject, "inodes")[0] is Level.OK


def test_a_file_system_that_has_recorded_errors(subject: Subject, tmp_path: Path) -> None:
    assert finding_of(subject, "disk-errors")[0] is Level.OK
    device = subject.data_dir.stat().st_dev
    (tmp_path / "disks/sda1").mkdir(parents=True)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / f"{os.major(device)}:{os.minor(device)}").symlink_to(tmp_path / "disks/sda1")
    count = tmp_path / "ext4/sda1/errors_count"
    count.parent.mkdir(parents=True)
    subject = subject._replace(
        machine=subject.machine._replace(devices=tmp_path / "dev", file_systems=tmp_path / "ext4")
    )
    for errors, level in (("0\n", Level.OK), ("3\n", Level.PROBLEM)):
        count.write_text(errors)
        assert finding_of(subject, "disk-errors")[0] is level


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.ENOSPC])
def test_a_disk_that_takes_no_writes(subject: Subject, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def failing(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(box.os, "fsync", failing)
    level, text = finding_of(subject, "disk-errors")
    assert (level, os.strerror(number) in text) == (Level.PROBLEM, True)


def test_a_clock_set_after_a_start_in_1970_is_not_20_000_days_ahead(subject: Subject) -> None:
    (subject.data_dir / "counted-time").write_text(str(clock.DAY))
    level, text = finding_of(subject, "clock")
    assert level is Level.PROBLEM
    assert "this box's clock was set after" in text
    assert "days" not in text


def test_a_port_held_by_closed_connections_is_not_in_use(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    """TIME_WAIT: the side that closes first keeps its address for a minute."""
    monkeypatch.setattr(box, "ANSWER_SECONDS", 0.2)  # of another program, which never answers
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        with socket.create_connection(address) as client:
            accepted, _ = listener.accept()
            accepted.close()
            assert client.recv(1) == b""
        subject = with_settings(subject, http_listen=f"127.0.0.1:{address[1]}")
        assert "no response" in finding_of(with_settings(subject, http_listen="127.0.0.1:1"), "pages")[1]
    assert "no response" in finding_of(subject, "pages")[1]
    with socket.create_server(address):
        assert "used by another program" in finding_of(subject, "pages")[1]


@pytest.mark.parametrize(
    ("failing", "text", "advice"),
    [
        (["warnings"], "not all is well: warnings", "see the other findings"),
        (["sign_ins", "broker"], "sign_ins: of sign_ins", "do what this says"),
    ],
)
def test_a_fault_that_only_the_service_knows_is_told_once_with_what_to_do(
    subject: Subject, failing: list[str], text: str, advice: str
) -> None:
    """Regression: wrong passwords led to `see the other findings`, and no other finding was about them."""
    checks = [{"name": name, "ok": False, "vital": False, "detail": f"of {name}"} for name in failing]
    body = json.dumps({"status": "ok", "checks": checks}).encode()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with listener.accept()[0] as connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

        thread = threading.Thread(target=answer)
        thread.start()
        finding = doctor.CHECKS["pages"](with_settings(subject, http_listen=f"127.0.0.1:{listener.getsockname()[1]}"))
        thread.join()
    assert (finding.level, finding.text) == (Level.WARNING, text)
    assert advice in finding.advice


def test_a_time_service_that_is_installed_is_not_to_be_installed(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(box, "TIME_TRACES", [tmp_path / "none"])
    subject = subject._replace(machine=subject.machine._replace(packaged_units=tmp_path))
    assert "apt-get install" in doctor.CHECKS["clock-kept"](subject).advice
    (tmp_path / "systemd-timesyncd.service").touch()
    assert "timedatectl set-ntp" in doctor.CHECKS["clock-kept"](subject).advice


def test_a_clock_behind_the_newest_scan(subject: Subject) -> None:
    assert finding_of(subject, "clock")[0] is Level.OK
    add_asset([Stay(began() + clock.HOUR, 0)])
    assert finding_of(subject, "clock")[0] is Level.PROBLEM
    assert "sudo edge trust-clock" in doctor.CHECKS["clock"](subject).advice
    said = CliRunner().invoke(cli, [f"--set=data_dir={subject.data_dir}", "trust-clock"], catch_exceptions=False).output
    assert "were recorded by a clock that was ahead" in said
    assert finding_of(subject, "clock")[0] is Level.OK
    assert clock.is_vouched(subject.data_dir, began() + clock.HOUR)
    assert not clock.is_vouched(subject.data_dir, began() + 2 * clock.HOUR)


def test_whether_the_service_runs(subject: Subject) -> None:
    assert finding_of(subject, "service")[0] is Level.PROBLEM
    assert finding_of(subject, "pages")[0] is Level.PROBLEM
    with hold(subject.data_dir):
        assert finding_of(subject, "service")[0] is Level.OK


def test_an_upgrade_that_nobody_ends(subject: Subject) -> None:
    """The service runs but takes no input."""
    with hold(subject.data_dir):
        ended = clock.now() // clock.SECOND - 3600
        (subject.data_dir / FILE_NAME).touch()
        os.utime(subject.data_dir / FILE_NAME, (ended + 3600, ended + 3600))
        assert finding_of(subject, "service")[0] is Level.OK
        os.utime(subject.data_dir / FILE_NAME, (ended, ended))
        assert finding_of(subject, "service")[0] is Level.PROBLEM


def test_messages_dropped_by_the_broker_stay_in_the_ledger(subject: Subject) -> None:
    quiet = subject._replace(ask_broker=lambda: {"$SYS/broker/publish/messages/dropped": "0"})
    assert [ledger.note_dropped(total) for total in (40, 40, 52, 3)] == [0, 0, 12, 3]
    assert counted(ledger.NO_READER)["dropped"].messages == 15
    level, text = finding_of(quiet, "broker-dropped")
    assert level is Level.WARNING
    assert "has dropped 15 messages within one day" in text


def test_a_damaged_database(subject: Subject) -> None:
    assert finding_of(subject, "database")[0] is Level.OK
    with writing():
        execute("INSERT INTO unassigned_topic VALUES ('t', 0, 0, 1, x'', NULL, 0)")
        execute("PRAGMA writable_schema = 1")
        execute("UPDATE sqlite_schema SET rootpage = 3 WHERE name = 'unassigned_topic'")
    execute("PRAGMA writable_schema = RESET").fetchall()
    level, text = finding_of(subject, "database")
    assert level is Level.PROBLEM
    assert "damaged" in text


def test_an_emptied_database_is_not_one_to_be_upgraded(subject: Subject) -> None:
    assert finding_of(subject, "schema")[0] is Level.OK
    with writing():
        execute("PRAGMA user_version = 0")
    assert finding_of(subject, "schema") == (Level.PROBLEM, "the database is empty")


def test_nobody_can_administer(subject: Subject) -> None:
    assert finding_of(subject, "administrators")[0] is Level.PROBLEM
    add_person(shell(list_organizations()[0].id), "Ada", Role.ADMINISTRATOR)
    assert finding_of(subject, "administrators")[0] is Level.OK


def test_backups_missing_recent_and_late(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    assert finding_of(subject, "backup")[0] is Level.PROBLEM
    for days, level in ((10, Level.PROBLEM), (3, Level.WARNING), (0, Level.OK)):
        monkeypatch.setattr(clock, "now", lambda days=days: began() - days * clock.DAY)
        make_backup(subject.data_dir, subject.config.backup_folder, Rotation(9, 9))
        assert finding_of(subject, "backup")[0] is level


def test_a_backup_that_cannot_be_read_back(subject: Subject) -> None:
    make_backup(subject.data_dir, subject.config.backup_folder, Rotation(1, 1))
    assert finding_of(subject, "backup-sound")[0] is Level.OK
    file = list_backups(subject.config.backup_folder)[0].path
    file.write_bytes(file.read_bytes()[:500])
    assert finding_of(subject, "backup-sound")[0] is Level.PROBLEM


def test_a_second_disk_that_is_none(subject: Subject) -> None:
    assert finding_of(subject, "backup-second")[0] is Level.WARNING
    second = subject.data_dir / "second"
    subject = with_settings(subject, backup_second_dir=second)
    assert finding_of(subject, "backup-second")[0] is Level.PROBLEM
    making = f"sudo install -d -o edge -g edge -m 750 {second}"
    assert making in doctor.CHECKS["backup-second"](subject).advice
    continuous = with_settings(subject, backup_continuous_dir=second)
    assert making in doctor.CHECKS["backup-continuous"](continuous).advice
    second.mkdir()
    assert "same disk" in finding_of(subject, "backup-second")[1]


def test_a_second_disk_that_is_not_mounted_or_not_of_the_service(
    subject: Subject, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Regression: the doctor asked to mount a mounted disk, or to look whether it is full."""
    second = tmp_path / "usb/edge"
    subject = with_settings(subject, backup_second_dir=second)
    (tmp_path / "fstab").write_text(f"/dev/sdb1 {tmp_path}/usb ext4 nofail 0 2\n")
    monkeypatch.setattr(machine, "FSTAB", tmp_path / "fstab")
    assert doctor.CHECKS["backup-second"](subject).advice == f"sudo mount {tmp_path}/usb"
    (tmp_path / "fstab").unlink()
    second.mkdir(parents=True)
    monkeypatch.setattr(data.os, "access", lambda path, _: path != second)
    found = doctor.CHECKS["backup-second"](subject)
    assert found.text == f"{second} cannot be written"
    assert f"sudo install -d -o edge -g edge -m 750 {second}" in found.advice


def test_lost_accounts_are_the_cause_of_a_broker_that_does_not_start(subject: Subject) -> None:
    def ask() -> dict[str, str]:
        raise Unavailable("The broker 127.0.0.1 cannot be reached")

    subject = with_settings(subject._replace(ask_broker=ask), mqtt_accounts_dir=subject.data_dir / "broker")
    assert "cannot be reached" in finding_of(subject, "broker")[1]
    (subject.machine.mosquitto / "conf.d").mkdir(parents=True)
    (subject.machine.mosquitto / "conf.d/edge.conf").touch()
    assert finding_of(subject, "broker") == finding_of(subject, "broker-accounts")


def test_history_that_was_dropped_for_want_of_room(subject: Subject) -> None:
    deletion.record_dropped("older than 400 days", {"history": 3})
    assert finding_of(subject, "history")[0] is Level.OK
    deletion.record_dropped("only 3 MB of disk space were free", {"history": 3})
    assert finding_of(subject, "history")[0] is Level.WARNING


def test_what_a_script_left(subject: Subject) -> None:
    (subject.data_dir / "warnings").mkdir()
    (subject.data_dir / "warnings" / "broker-file").write_text("was damaged")
    assert finding_of(subject, "warnings")[0] is Level.WARNING


def test_a_broker_that_is_away_or_has_dropped_messages(subject: Subject) -> None:
    def away() -> dict[str, str]:
        raise Unavailable("cannot be reached")

    assert finding_of(subject, "broker")[0] is Level.OK
    assert finding_of(subject._replace(ask_broker=away), "broker")[0] is Level.PROBLEM
    assert finding_of(subject._replace(ask_broker=away), "broker-dropped")[0] is Level.OK
    dropping = subject._replace(ask_broker=lambda: {"$SYS/broker/publish/messages/dropped": "12"})
    assert finding_of(dropping, "broker-dropped") == (
        Level.WARNING,
        "the broker has dropped 12 messages since its start",
    )
    assert finding_of(with_settings(subject, mqtt_broker="embedded"), "broker")[0] is Level.WARNING


@pytest.mark.parametrize(("limit", "level"), [(10, Level.OK), (5, Level.WARNING)])
def test_an_organization_close_to_its_maximum_of_records(subject: Subject, limit: int, level: Level) -> None:
    organization_id = list_organizations()[0].id
    for number in range(4):
        assets.create(shell(organization_id), name=f"Asset {number}")
    limited = with_settings(subject, limits_assets=limit)
    assert finding_of(limited, "record-limits")[0] is level


@pytest.mark.parametrize(("number", "level"), [("10000", Level.OK), ("10001", Level.WARNING)])
def test_a_broker_that_is_filled_with_retained_messages(subject: Subject, number: str, level: Level) -> None:
    filled = subject._replace(ask_broker=lambda: {"$SYS/broker/retained messages/count": number})
    assert finding_of(filled, "broker-retained")[0] is level


@pytest.mark.parametrize(
    ("heap", "name", "number", "level"),
    [
        ("90", broker_state.RETAINED, "500", Level.PROBLEM),
        ("90", broker_state.SUBSCRIPTIONS, "5000", Level.PROBLEM),
        ("90", broker_state.RETAINED, "50", Level.OK),
        ("60", broker_state.RETAINED, "500", Level.OK),
        ("", "", "", Level.OK),
    ],
)
def test_a_broker_whose_memory_is_filled_by_readers(
    subject: Subject, heap: str, name: str, number: str, level: Level
) -> None:
    (subject.machine.mosquitto / "conf.d").mkdir(parents=True, exist_ok=True)
    (subject.machine.mosquitto / "conf.d" / "edge.conf").write_text("memory_limit 100\n")
    answer = {broker_state.HEAP: heap, name: number} if heap else {}
    assert finding_of(subject._replace(ask_broker=lambda: answer), "broker-retained")[0] is level


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        ("", Level.PROBLEM),
        ("persistence true\nqueue_qos0_messages true\nmax_queued_messages 1000000\n", Level.OK),
        ("persistence true\nqueue_qos0_messages true\nmax_queued_messages 0\n", Level.OK),
        ("persistence true\nqueue_qos0_messages true\n", Level.PROBLEM),
        ("persistence true\nmax_queued_messages 1000000\n", Level.PROBLEM),
    ],
)
def test_a_broker_that_would_drop_reads(subject: Subject, settings: str, level: Level) -> None:
    (subject.machine.mosquitto / "conf.d").mkdir(parents=True)
    (subject.machine.mosquitto / "conf.d" / "edge.conf").write_text(settings)
    assert finding_of(subject, "broker-limits")[0] is level


def test_a_queue_that_is_short_for_the_site(subject: Subject) -> None:
    (subject.machine.mosquitto / "conf.d").mkdir(parents=True)
    (subject.machine.mosquitto / "conf.d" / "edge.conf").write_text(
        "persistence true\nqueue_qos0_messages true\nmax_queued_messages 1000000\n"
    )
    tally = ledger.Tally(1, ledger.hour_of(began()), ledger.Bucket.RECORDED)
    for messages, finding in ((500_000, "about 2 days at today's rate"), (1_500_000, "about 12 hours at today's rate")):
        with writing():
            ledger.add({tally: messages}, {})
        assert finding in finding_of(subject, "broker-limits")[1]


def test_the_queue_of_the_busiest_session_counts(subject: Subject) -> None:
    """mosquitto's limit applies to each session: one busy reader fills its own part."""
    (subject.machine.mosquitto / "conf.d").mkdir(parents=True)
    (subject.machine.mosquitto / "conf.d" / "edge.conf").write_text(
        "persistence true\nqueue_qos0_messages true\nmax_queued_messages 1000000\n"
    )
    readers_of_sessions(0, 1)
    with writing():
        for reader_id, messages in ((1, 900_000), (2, 4_000_000)):
            ledger.add({ledger.Tally(reader_id, ledger.hour_of(began()), ledger.Bucket.RECORDED): messages}, {})
    level, text = finding_of(subject, "broker-limits")
    assert level is Level.WARNING
    assert "2,000,000 messages, 1,000,000 for each" in text
    assert "about 6 hours" in text


def test_removed_accounts_whose_permissions_stay_at_the_broker(subject: Subject) -> None:
    readers_of_sessions(0, 1)
    own = with_settings(subject, mqtt_accounts_dir=None, mqtt_broker="mqtt://127.0.0.1")
    level, text = finding_of(own, "broker-accounts")
    assert level is Level.PROBLEM
    assert "delivers 1 readers only to edge's additional sessions" in text
    end_sessions()
    assert finding_of(own, "broker-accounts")[0] is Level.OK


def readers_of_sessions(*numbers: int) -> None:
    with writing():
        for reader_id, number in enumerate(numbers, 1):
            execute(
                "INSERT OR IGNORE INTO reader (id, organization_id, name, topic, format, created_at, updated_at) "
                "SELECT ?1, id, 'r' || ?1, 't' || ?1, 'edge', 0, 0 FROM organization LIMIT 1",
                (reader_id,),
            )
            execute(
                "INSERT INTO broker_account (reader_id, name, password_hash, created_at, session, is_settled) "
                "VALUES (?1, 'a' || ?1, 'x', 0, ?2, ?2 > 0)",
                (reader_id, number),
            )


def test_the_settings_we_ship_are_those_the_doctor_wants(subject: Subject) -> None:
    shipped = Path(__file__).parents[3] / "systemd" / "mosquitto.conf"
    (subject.machine.mosquitto / "conf.d").mkdir(parents=True)
    least = shipped.read_text().replace("@QUEUED_MESSAGES@", "128000")  # value for the smallest memory
    (subject.machine.mosquitto / "conf.d" / "edge.conf").write_text(least)
    assert finding_of(subject, "broker-limits")[0] is Level.OK


def new() -> None:
    add_reader(shell(list_organizations()[0].id), name="new", topic="site/new", format="edge")


def silent() -> None:
    with_message("silent", hours_ago=30)


def offline() -> None:
    with_message("offline", is_offline=True)


def weak() -> None:
    with_message("weak", qos=0)


def off() -> None:
    with_message("off", clock_offset=5 * clock.SECOND)


def unplaced() -> None:
    reader_id = with_message("unplaced")
    with writing():
        status.record_antennas({(reader_id, 2): began()})


def unassigned() -> None:
    with writing():
        unassigned_topics.record([unassigned_topics.Unassigned("who/knows", began(), b"{}")])


def topic_for_each_tag() -> None:
    message = b'{"id":"C3:0A:11:4E:7F:21","rssi":-74,"brand":"GENERIC","model_id":"IBEACON","mfid":"4c00"}'
    topics = [f"home/dock/BTtoMQTT/C30A114E7F{number:02X}" for number in range(30)]
    with writing():
        unassigned_topics.record([unassigned_topics.Unassigned(topic, began(), message) for topic in topics])


def unreadable() -> None:
    with writing():
        dead_letters.add(
            [
                dead_letters.NewDeadLetter(
                    list_organizations()[0].id, with_message("odd"), "t", b"?", 1, "not JSON", began()
                )
            ]
        )


def wrong_format() -> None:
    zebra = b'{"type":"SIMPLE","data":{"idHex":"30aa"}}'
    with writing():
        ignored_messages.record([IgnoredMessage(with_message("mistaken"), "t", zebra, len(zebra), None, began())])


@pytest.mark.parametrize(
    ("name", "cause", "finding"),
    [
        ("reader-formats", wrong_format, "mistaken (looks like zebra)"),
        ("readers", silent, "silent for a day: silent"),
        ("readers", new, "no message since they were set up: new"),
        ("readers", offline, "offline"),
        ("reader-qos", weak, "weak"),
        ("reader-clock", off, "off (5.0 s ahead, corrected)"),
        ("antennas", unplaced, "unplaced antenna 2"),
        ("topics", unassigned, "who/knows"),
        ("topics", topic_for_each_tag, "unassigned topics: home/dock/BTtoMQTT/+"),
        ("dead-letters", unreadable, "1 messages of the last day were unreadable, of odd"),
    ],
)
def test_what_is_wrong_with_readers(subject: Subject, name: str, cause: Callable[[], None], finding: str) -> None:
    assert finding_of(subject, name)[0] is Level.OK
    cause()
    level, text = finding_of(subject, name)
    assert level is Level.WARNING
    assert finding in text


def test_a_reader_with_recent_messages_is_not_silent(subject: Subject) -> None:
    offline()
    assert "not heard" not in finding_of(subject, "readers")[1]


def test_a_reader_whose_messages_could_not_be_read_has_power_and_network(subject: Subject) -> None:
    reader_id = add_reader(shell(list_organizations()[0].id), name="binary", topic="binary", format="moko").id
    company = list_organizations()[0].id
    with writing():
        dead_letters.add([dead_letters.NewDeadLetter(company, reader_id, "t", b"?", 1, "no", began())])
    assert finding_of(subject, "readers")[0] is Level.OK


def test_a_reader_with_messages_of_another_format_has_power_and_network(subject: Subject) -> None:
    reader_id = add_reader(shell(list_organizations()[0].id), name="mistaken", topic="mistaken", format="csl").id
    with writing():
        ignored_messages.record([IgnoredMessage(reader_id, "mistaken", b"{}", 2, None, began())])
    assert finding_of(subject, "readers")[0] is Level.OK


def test_a_mapping_whose_paths_lead_to_nothing(subject: Subject) -> None:
    assert finding_of(subject, "reader-mappings")[0] is Level.OK
    reader_id = add_reader(shell(list_organizations()[0].id), name="mapped", topic="mapped", format="csl").id
    with writing():
        mapped_fields.record({reader_id: {"antenna_path": FieldCount(30, 30)}})
    level, text = finding_of(subject, "reader-mappings")
    assert level is Level.WARNING
    assert "mapped: antenna_path matched nothing in 30 of 30 reads" in text


def test_an_address_for_labels_that_leads_nowhere(subject: Subject) -> None:
    assert finding_of(subject, "public-url")[0] is Level.OK
    level, text = finding_of(with_settings(subject, http_public_url="http://nowhere.invalid"), "public-url")
    assert level is Level.PROBLEM
    assert "http://nowhere.invalid" in text


def test_an_address_for_labels_that_leads_each_phone_to_itself(subject: Subject) -> None:
    level, text = finding_of(with_settings(subject, http_public_url="http://127.0.0.1:8080"), "public-url")
    assert (level, "to itself" in text) == (Level.PROBLEM, True)


def test_an_address_for_labels_that_is_the_name_of_another_box(subject: Subject, tmp_path: Path) -> None:
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "edge.service").touch()
    (tmp_path / "avahi-daemon.conf").write_text("host-name=hall7\n")
    subject = with_settings(subject, http_public_url="https://edge.local")
    subject = subject._replace(machine=subject.machine._replace(avahi=tmp_path))
    level, text = finding_of(subject, "public-url")
    assert (level, "this box is hall7.local" in text) == (Level.PROBLEM, True)


def test_a_reader_that_retains_its_messages(subject: Subject) -> None:
    reader_id = with_message("dock")
    assert finding_of(subject, "broker-retained")[0] is Level.OK
    with writing():
        ledger.add({ledger.Tally(reader_id, ledger.hour_of(began()), ledger.Bucket.RETAINED): 1}, {})
    level, text = finding_of(subject, "broker-retained")
    assert (level, "readers with retained messages: dock" in text) == (Level.WARNING, True)


def test_names_that_cannot_be_resolved(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str, _: object) -> list[object]:
        if name == "broker.example.com":
            raise socket.gaierror(-2, "Name or service not known")
        return []

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert finding_of(subject, "dns")[0] is Level.OK
    there = with_settings(subject, mqtt_broker="mqtts://broker.example.com:8883")
    assert finding_of(there, "dns") == (Level.WARNING, "cannot be resolved: broker.example.com")
    assert "getent hosts broker.example.com" in doctor.CHECKS["dns"](there).advice
    assert finding_of(with_settings(subject, mqtt_broker="mqtts://broker.example.org"), "dns")[0] is Level.OK


@pytest.mark.parametrize(
    ("seconds", "level", "text"),
    [(0.001, Level.OK, "as an SSD"), (0.02, Level.OK, "as an SD card"), (0.2, Level.WARNING, "each save takes that")],
)
def test_how_long_the_disk_takes_to_flush(
    subject: Subject, monkeypatch: pytest.MonkeyPatch, seconds: float, level: Level, text: str
) -> None:
    passed = iter(range(1000))
    monkeypatch.setattr(box.time, "monotonic", lambda: next(passed) * seconds)
    found, said = finding_of(subject, "disk-errors")
    assert (found, text in said, f"{seconds * 1000:.1f} ms (median of 20" in said) == (level, True, True)


def test_a_folder_of_somebody_else_is_no_failing_disk(subject: Subject, tmp_path: Path) -> None:
    items = {
        item.name: item.finding.text for item in doctor.examine(with_settings(subject, data_dir=tmp_path / "gone"))
    }
    assert "is failing" not in items["disk-errors"]


def test_a_message_that_nobody_understands_is_the_last_message_all_the_same(site: Path) -> None:
    """Regression: a reader was `never heard` next to two messages a minute."""
    organization_id = list_organizations()[0].id
    actor = shell(organization_id)
    wrong, broken, _ = (
        add_reader(actor, name=name, topic=f"site/{name}", format="edge").id for name in ("a", "b", "c")
    )
    with writing():
        ignored_messages.record([IgnoredMessage(wrong, "t", b"hello", 5, None, 7)])
        dead_letters.add([dead_letters.NewDeadLetter(organization_id, broken, "t", b"?", 1, "no", 8)])
    for rows in (status.list_states(organization_id), stats.reader_figures()):
        assert [row.last_received_at for row in rows] == [7, 8, None]
    listed = CliRunner().invoke(cli, [f"--set=data_dir={site}", "reader", "list"], catch_exceptions=False).output
    assert [("never since setup" in line) for line in listed.splitlines()[1:4]] == [False, False, True]
