"""The `edge` command for a technician: output, refusals, and limits."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from edge import cli
from edge.audit import actors, trail
from edge.clock import now
from edge.commands import doctor as doctor_command
from edge.database import migrate
from edge.database.connection import FILE_NAME, close_database, execute
from edge.errors import SetupError
from edge.ingest.messages import Message
from edge.ingest.pipeline import Pipeline
from edge.operations.doctor import machine
from edge.operations.doctor.doctor import WITHOUT_SETTINGS
from edge.people import organizations, people, second_factors
from tests.commands.conftest import PASSWORD, Shell, bare, edge
from tests.mosquitto import free_port

__all__ = ["bare", "edge"]


def test_without_a_site_every_command_says_how_to_create_one(bare: Shell) -> None:
    assert bare("asset", "list") == (
        1,
        f"edge: There is no database in {bare._data_dir}. If it is on another disk, set data_dir; "
        "for a new site: edge init --org NAME --email ADMIN\n",
    )


def test_a_disk_that_is_not_mounted_is_named_and_no_empty_site_is_made_there(
    bare: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Regression: the doctor proposed `edge init`, which began a new site on the disk of the system."""
    fstab = tmp_path_factory.mktemp("etc") / "fstab"
    fstab.write_text(f"# disks\nUUID=1 / ext4 defaults 0 1\nUUID=2 {bare._data_dir.parent} ext4 nofail 0 2\nnone\n")
    monkeypatch.setattr(machine, "FSTAB", fstab)
    said = f"is not mounted. Mount it: mount {bare._data_dir.parent}"
    for words in (["asset", "list"], ["serve"], ["init", "--org", "Acme", "--email", "a@acme.test"]):
        code, text = bare(*words)
        assert (code, said in text) == (1, True)
    code, text = bare("doctor")
    assert code == 2
    first, *others = [line for line in text.splitlines() if not line.startswith(" ")]
    assert first.startswith("PROBLEM cause")
    assert said in first
    assert others[-1].startswith("PROBLEM unchecked")
    assert not [line for line in others if "check failed" in line]
    assert not (bare._data_dir / FILE_NAME).exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        (b"data_dir = '/mnt", "is not valid TOML"),
        (b"[http]\nlisten = 7\n", "http.listen"),
        (b"\xff\xfe", "is not UTF-8. Save it as UTF-8"),
    ],
)
def test_the_doctor_survives_broken_settings_and_names_them_first(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "edge.toml"
    if content is not None:
        file.write_bytes(content)
    done = CliRunner().invoke(cli.cli, ["--config", str(file), "doctor"])
    assert done.exit_code == 2
    first, *others = [line for line in done.output.splitlines() if not line.startswith(" ")]
    assert first.startswith("PROBLEM settings")
    assert said in first
    assert others[-1].startswith("PROBLEM unchecked")
    assert {line.split()[1] for line in others[:-1]} <= WITHOUT_SETTINGS
    with pytest.raises(SetupError):
        CliRunner().invoke(cli.cli, ["--config", str(file), "org", "list"], catch_exceptions=False)


def test_the_doctor_says_that_empty_settings_name_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: it asked to mount the disk of a folder `data`, which is the default elsewhere."""
    monkeypatch.setattr(machine.Machine, "is_site", True)
    (tmp_path / "edge.toml").touch()
    done = CliRunner().invoke(cli.cli, ["--config", str(tmp_path / "edge.toml"), "doctor"])
    assert done.exit_code == 2
    assert done.output.startswith("PROBLEM settings")
    assert "data_dir is missing" in done.output
    assert "put it back from a copy" in done.output


@pytest.mark.parametrize(("name", "mode"), [("signing.key", None), ("mqtt.password", None), ("signing.key", 0)])
def test_the_doctor_names_a_lost_secret_first(
    edge: Shell, monkeypatch: pytest.MonkeyPatch, name: str, mode: int | None
) -> None:
    """Regression: it only said that the service does not run, and to start it."""
    file = edge._data_dir / name
    if mode is not None:
        file.touch()
        monkeypatch.setattr(doctor_command.os, "access", lambda path, _: path != file)
    setting = {"signing.key": "signing_key_file", "mqtt.password": "mqtt.password_file"}[name]
    code, text = edge("--set", f"{setting}={file}", "doctor")
    assert code == 2
    assert text.startswith(f"PROBLEM settings         {file} cannot be read\n")
    remedy = f"chown root:edge {file}" if mode is not None else "sudo /opt/edge/venv/systemd/install.sh makes a new one"
    assert remedy in text.splitlines()[1]


def test_a_lost_database_is_restored_and_not_begun_anew(edge: Shell) -> None:
    """Regression: the remedy was to make an empty site, although the backups were there."""
    edge.ok("backup")
    backup = next((edge._data_dir / "backups").glob("*.gz"))
    for file in edge._data_dir.glob("edge.db*"):
        file.unlink()
    code, text = edge("doctor")
    assert code == 2
    assert f"sudo systemctl stop edge; sudo edge restore --yes {backup}; sudo systemctl start edge" in text
    assert "edge init" not in text


def test_the_doctor_names_a_folder_that_belongs_to_somebody_else(edge: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression: it ended with one line and without a remedy."""

    def refuse(_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(edge._data_dir / FILE_NAME))

    monkeypatch.setattr(doctor_command, "require_database", refuse)
    code, text = edge("doctor")
    assert code == 2
    assert text.startswith("PROBLEM permissions")
    assert f"chown -R edge:edge {edge._data_dir}" in text


def test_init_again_says_what_exists_and_changes_nothing(edge: Shell) -> None:
    said = edge.ok("init", "--org", "Other", "--email", "other@acme.test", typed="another password")
    assert "exists, with: Acme. Nothing was changed." in said
    assert "Other" not in edge.ok("org", "list")
    assert "other@acme.test" not in edge.ok("user", "list")


@pytest.mark.parametrize("password", ["", "short", "elevenchars"])
def test_init_refuses_a_short_password_and_can_be_run_again(bare: Shell, password: str) -> None:
    code, said = bare("init", "--org", "Acme", "--email", "boss@acme.test", typed=password)
    assert (code, said) == (1, "edge: password must be at least 12 characters\n")
    bare.ok("init", "--org", "Acme", "--email", "boss@acme.test", typed=PASSWORD)


@pytest.mark.parametrize(("org", "email"), [("Acme", "nonsense"), ("x" * 256, "boss@acme.test"), (" ", "b@acme.test")])
def test_init_that_is_refused_leaves_nothing_and_can_be_run_again(bare: Shell, org: str, email: str) -> None:
    assert bare("init", "--org", org, "--email", email, typed=PASSWORD)[0] == 1
    assert "Created Acme" in bare.ok("init", "--org", "Acme", "--email", "boss@acme.test", typed=PASSWORD)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("doctor", "--bundle", "/nowhere/at/all.zip"), "/nowhere/at/all.zip cannot be used"),
        (("--set", "backup.dir=/proc/backups", "backup"), "/proc/backups cannot be used"),
        (
            ("--set", "events.authority_file=/nowhere.pem", "--set", f"mqtt.listen=127.0.0.1:{free_port()}", "serve"),
            "/nowhere.pem cannot be used ([Errno",
        ),
        (
            ("--set", "mqtt.broker=mqtts://box:1", "--set", f"mqtt.ca_file={__file__}", "serve"),
            "mqtt.ca_file: " + __file__,
        ),
        (("reader", "add", "x", "--topic", "t", "--format", "csl", "--min-rssi", "nan"), "between -150 and 0 dBm"),
    ],
)
def test_a_file_or_a_value_that_cannot_be_used_is_told_in_one_sentence(
    edge: Shell, words: tuple[str, ...], told: str
) -> None:
    code, said = edge(*words)
    assert (code != 0, told in said) == (True, True), said


def test_the_database_is_for_its_owner_only(edge: Shell) -> None:
    assert (edge._data_dir / "edge.db").stat().st_mode & 0o077 == 0


def test_no_command_takes_a_password_as_an_argument() -> None:
    names = {
        option
        for command in _commands(cli.cli)
        for parameter in command.params
        for option in parameter.opts
        if isinstance(parameter, click.Option)
    }
    assert not any("password" in name or "secret" in name for name in names)


def test_every_command_and_option_has_help() -> None:
    for command in _commands(cli.cli):
        assert command.help, command.name
        for parameter in command.params:
            if isinstance(parameter, click.Option) and parameter.name != "role":
                assert parameter.help, f"{command.name} {parameter.name}"


def test_config_shows_where_a_value_came_from(bare: Shell) -> None:
    said = bare.ok("config")
    assert f"data_dir = {bare._data_dir}" in said
    assert "[flag]" in said
    assert "[default]" in said


def test_a_reader_is_connected_shown_changed_and_removed(edge: Shell) -> None:
    edge.ok("location", "add", "Dock 1", "--key", "DOCK-1")
    edge.ok("location", "add", "Aisle", "--parent", "DOCK-1")
    edge.ok("asset", "add", "Pallet 71", "--tag", "rfid:3074257BF7194E4000001A85")
    edge.ok("reader", "add", "dock1", "--topic", "site/dock1/reads", "--format", "csl", "--location", "DOCK-1")
    edge.ok("reader", "antenna", "dock1", "2", "--location", "LOC-001", "--min-rssi", "-65")
    assert "never" in edge.ok("reader", "list")

    read = b'{"tags":[{"epc":"3074257BF7194E4000001A85","antennaPort":2,"rssi":"-60"}]}'
    Pipeline(0, 7).handle([Message("site/dock1/reads", read, now())])
    shown = edge.ok("reader", "show", "dock1")
    assert "csl on site/dock1/reads, at DOCK-1" in shown
    assert "2        LOC-001    from -65 dBm" in shown
    edge.ok("reader", "add", "gate", "--topic", "site/gate", "--format", "csl")
    Pipeline(0, 7).handle([Message("site/gate", read, now())])
    assert "\n2        none" in edge.ok("reader", "show", "gate"), "it was heard, and has no location"
    assert shown.splitlines()[-1].split() == ["recorded", "1", "1"]

    edge.ok("reader", "change", "dock1", "--clock", "receipt")
    assert "Its clock: not trusted, using the time of receipt" in edge.ok("reader", "show", "dock1")
    edge.ok("reader", "change", "dock1", "--name", "door", "--topic", "site/door", "--off", "--min-rssi", "")
    assert "csl on site/door, at DOCK-1 (off)" in edge.ok("reader", "show", "door")
    edge.ok("reader", "antenna", "door", "2", "--forget")
    edge.ok("reader", "remove", "door")
    assert edge("reader", "show", "door") == (
        1,
        "edge: There is no reader door. `edge reader list` shows them.\n",
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["reader", "add", "x", "--topic", "a/#/b", "--format", "csl"], "topic is not an MQTT topic filter"),
        (["reader", "add", "x", "--topic", "a", "--format", "cls"], "format cls is not known; write one of csl, "),
        (
            ["reader", "add", "x", "--topic", "a", "--format", "csl", "--clock", "UTC+1"],
            "write auto, reader, receipt",
        ),
        (["reader", "add", "x", "--topic", "a", "--format", "csl", "--location", "NO"], "There is no location NO."),
        (["reader", "add", "x", "--topic", "a", "--format", "mapping"], "the mapping cannot be used: "),
        (["asset", "add", "x", "--tag", "nfc:1"], "tag_type must be one of rfid, ble, barcode"),
        (["asset", "add", "x", "--key", "a b"], "external_key"),
        (["asset", "add", " x"], "name"),
        (["tag", "add", "rfid", "1"], "Pass either --asset KEY or --location KEY."),
        (["tag", "add", "rfid", "1", "--asset", "NO"], "There is no asset NO."),
        (["org", "add", "Acme"], "organization Acme already exists"),
    ],
)
def test_a_mistake_is_named_and_changes_nothing(edge: Shell, arguments: list[str], said: str) -> None:
    before = [edge.ok(*listing) for listing in (["asset", "list"], ["reader", "list"], ["org", "list"])]
    code, text = edge(*arguments)
    assert code != 0
    assert said in text
    assert [edge.ok(*listing) for listing in (["asset", "list"], ["reader", "list"], ["org", "list"])] == before


def test_with_two_organizations_a_command_asks_which(edge: Shell) -> None:
    edge.ok("org", "add", "Beta")
    code, said = edge("asset", "list")
    assert code == 1
    assert "Acme" in said
    assert "Beta" in said
    edge.ok("asset", "add", "thing", "--org", "Beta")
    assert "thing" not in edge.ok("asset", "list", "--org", "Acme")


def _commands(group: click.Group) -> Iterator[click.Command]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command, name
        yield command
        if isinstance(command, click.Group):
            yield from _commands(command)


@pytest.mark.parametrize("arguments", [("asset", "list"), ("reader", "list"), ("user", "list"), ("accounts",)])
def test_a_command_never_changes_the_schema_under_a_running_service(
    edge: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    schema = migrate.newest_schema()
    steps = [*migrate._steps(), ("9999_later", "CREATE TABLE later (a);")]
    monkeypatch.setattr(migrate, "_steps", lambda: steps)
    code, text = edge(*arguments)
    assert (code, f"has schema {schema}" in text, "systemctl restart edge" in text) == (1, True, True)
    assert migrate.present_schema() == schema


def test_a_command_refuses_a_database_of_a_newer_program(edge: Shell) -> None:
    execute("PRAGMA user_version = 999")
    code, text = edge("asset", "list")
    assert (code, "written by a newer version of edge" in text) == (1, True)


def test_the_doctor_finds_a_schema_that_is_not_this_programs(edge: Shell) -> None:
    for version, advice in ((1, "systemctl restart edge"), (999, "install the newer version")):
        execute(f"PRAGMA user_version = {version}")
        code, text = edge("doctor")
        assert (code, f"schema {version}" in text, advice in text) == (2, True, True)


def test_the_doctor_tells_a_damaged_header_and_what_to_do(edge: Shell, tmp_path: Path) -> None:
    close_database()
    file = tmp_path / FILE_NAME
    file.write_bytes(bytes(100) + file.read_bytes()[100:])
    code, text = edge("doctor")
    assert code == 2
    assert re.search("PROBLEM database +the database is damaged", text), text
    assert "edge restore" in text
    assert "Traceback" not in text


def test_a_name_that_commands_a_terminal_is_shown_instead(edge: Shell) -> None:
    edge.ok("asset", "add", "Forklift \x9b2J")
    assert "Forklift \\x9b2J" in edge.ok("asset", "list")


def test_the_shell_turns_a_second_factor_off(edge: Shell) -> None:
    assert edge("user", "remove-second-factor", "boss@acme.test")[0] == 1
    person = people.list_people(organizations.find_organization(None).id)[0]
    actor = actors.person(person.organization_id, person.id, person.name)
    second_factors.begin(actor, b"sealed")
    second_factors.confirm(actor, 1, [b"code"])
    assert "app" in edge.ok("user", "list")
    assert edge("user", "remove-second-factor", "nobody@acme.test") == (
        1,
        "edge: There is no person with the email nobody@acme.test. `edge user list` shows them.\n",
    )
    assert "with the password only" in edge.ok("user", "remove-second-factor", "BOSS@acme.test")
    assert second_factors.find(person.organization_id, person.id) is None
    line = trail.recent(person.organization_id)[0]
    assert (line.action, line.actor_kind) == ("person.second_factor_removed", "shell")
