import shutil
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from sqlite3 import IntegrityError
from typing import NamedTuple

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from edge.audit.actors import Actor, shell
from edge.database.connection import execute
from edge.errors import Corrupt, Invalid, SetupError
from edge.people.organizations import add_organization, list_organizations
from edge.readers.broker_accounts import SESSIONS, assign_sessions, list_accounts, set_account
from edge.readers.broker_files import OwnAccount, hash_for_broker, new_hash, shares_of, write_files
from edge.readers.readers import add_reader, change_reader, remove_reader
from tests.mosquitto import free_port
from tests.operations.conftest import fresh_site

OWN = OwnAccount("edge", "own password")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    with fresh_site(tmp_path / "data") as folder:
        add_organization(shell(), "Acme")
        yield folder


class Reader(NamedTuple):
    actor: Actor
    id: int


def reader(name: str, topic: str) -> Reader:
    actor = shell(list_organizations()[0].id)
    return Reader(actor, add_reader(actor, name=name, topic=topic, format="edge").id)


def test_the_hash_is_the_one_mosquitto_writes() -> None:
    written = (  # output of mosquitto_passwd 2.0.11 for the password "secret"
        "$7$101$cP/8mEMNDyN98wcn$76HPvLuGqFR9ihMr3hiYf7RwSc7h2h36cZjQ3ZYTrGBYTrXtL7JK1uq3CUCWuNLysG++Y207tN+6Sm3f43RshQ=="
    )
    assert hash_for_broker("secret", b64decode("cP/8mEMNDyN98wcn")) == written


def test_account_names_are_unique(site: Path) -> None:
    rival = add_organization(shell(), "Rival")
    first = reader("Dock 1", "a/1")
    second = Reader(shell(rival.id), add_reader(shell(rival.id), name="Dock 1", topic="rival/1", format="edge").id)
    reserved = reader("edge", "c/1")
    names = [set_account(*who, password_hash="x", reserved=["edge"]).name for who in (first, second, reserved, first)]
    assert names == ["dock-1", "dock-1-2", "edge-2", "dock-1"]
    ours = reader("Gateway", "d/1")
    assert set_account(*ours, password_hash="x", reserved=["gateway"]).name == "gateway-2"


def test_disabled_and_removed_readers_have_no_account(site: Path) -> None:
    on, off, gone = reader("on", "a"), reader("off", "b"), reader("gone", "c")
    for who in (on, off, gone):
        set_account(*who, password_hash="x")
    change_reader(*off, {"is_enabled": False})
    remove_reader(*gone)
    assert [row.name for row in list_accounts()] == ["on"]


def test_files_are_written_only_when_something_changed(site: Path) -> None:
    assert write_files(site / "broker", OWN)
    assert not write_files(site / "broker", OWN)
    set_account(*reader("dock", "site/dock/#"), password_hash=new_hash("secret"))
    assert write_files(site / "broker", OWN)
    assert "user dock\ntopic write site/dock/#\n" in (site / "broker" / "acl").read_text()


def test_readers_get_their_own_session_in_two_steps(site: Path) -> None:
    """Check both steps: both sessions receive the messages, then session 0 is denied them."""
    for name in ("dock", "gate", "ramp"):
        set_account(*reader(name, f"site/{name}/#"), password_hash=new_hash("secret"))
    assert not assign_sessions([])
    assert assign_sessions([1, 2])
    assert {row.name: row.session for row in list_accounts()} == {"dock": 1, "gate": 2, "ramp": 1}
    first, second = rules(site)["edge"], rules(site)["edge-session-1"]
    assert not [line for line in first if "deny" in line]
    assert second == ["topic read site/dock/#", "topic read site/ramp/#"]
    assert assign_sessions([1])
    assert [line for line in rules(site)["edge"] if "deny" in line] == [
        "topic deny site/dock/#",
        "topic deny site/ramp/#",
    ]
    assert assign_sessions([1, 2])
    assert len([line for line in rules(site)["edge"] if "deny" in line]) == 3
    assert not assign_sessions([1, 2])
    assert (site / "broker" / "shares").read_text() == "4\n"


@pytest.mark.parametrize("topic", ["#", "+/+/+", "+/reads", "edge/#"])
def test_a_reader_with_a_wide_wildcard_stays_in_the_first_session(site: Path, topic: str) -> None:
    set_account(*reader("gateway", topic), password_hash=new_hash("secret"))
    assert not assign_sessions([1, 2])
    assert not [line for line in rules(site)["edge"] if "deny" in line]


def rules(site: Path) -> dict[str, list[str]]:
    """Return the ACL lines of each account."""
    write_files(site / "broker", OWN)
    blocks = (site / "broker" / "acl").read_text().split("user ")[1:]
    return {name: lines for name, *lines in (block.split("\n\n")[0].rstrip().splitlines() for block in blocks)}


def test_a_new_password_keeps_the_session(site: Path) -> None:
    dock = reader("dock", "site/dock")
    set_account(*dock, password_hash="x")
    assign_sessions([3])
    set_account(*dock, password_hash="y")
    assert [(row.session, row.password_hash) for row in list_accounts()] == [(3, "y")]


def test_the_queue_of_the_broker_is_divided_as_needed(site: Path) -> None:
    shares = []
    for number in range(18):
        set_account(*reader(f"reader {number}", f"site/{number}"), password_hash=new_hash("secret"))
        assign_sessions(range(1, SESSIONS))
        shares.append(shares_of(list_accounts()))
    assert shares == [2, 4, 4, *[8] * 4, *[16] * 11]


def test_a_topic_cannot_add_lines_to_the_rules(site: Path) -> None:
    with pytest.raises(Invalid):
        reader("sly", "a\ntopic readwrite #")


def test_special_characters_are_removed_from_account_names(site: Path) -> None:
    strange = [reader("Tor 7: S\u00fcd", "a"), reader("x" * 255, "b")]
    names = [set_account(*who, password_hash="x").name for who in strange]
    assert names == ["tor-7-s-d", "x" * 50]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("broker_account.name", "dock\ntopic readwrite #"),
        ("broker_account.password_hash", "x\nintruder:$7$101$AAAA$AAAA"),
        ("reader.topic", "a\ntopic readwrite #"),
    ],
)
def test_a_database_from_elsewhere_cannot_add_lines_to_the_rules(site: Path, column: str, value: str) -> None:
    set_account(*reader("dock", "site/dock/#"), password_hash=new_hash("secret"))
    write_files(site / "broker", OWN)
    before = {file.name: file.read_text() for file in (site / "broker").iterdir()}
    table, _, name = column.partition(".")
    execute("PRAGMA ignore_check_constraints = 1")
    execute(f"UPDATE {table} SET {name} = ?", (value,))
    with pytest.raises((Corrupt, Invalid)):
        write_files(site / "broker", OWN)
    assert {file.name: file.read_text() for file in (site / "broker").iterdir()} == before


def test_the_database_rejects_account_names_with_line_breaks(site: Path) -> None:
    set_account(*reader("dock", "site/dock/#"), password_hash="x")
    with pytest.raises(IntegrityError):
        execute("UPDATE broker_account SET name = 'dock' || char(10) || 'topic readwrite #'")


def test_links_in_the_folder_are_not_followed(site: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    (site / "broker").mkdir()
    for name in ("passwd.new", "acl.new", "accounts.new", "passwd"):
        (site / "broker" / name).symlink_to(victim)
    write_files(site / "broker", OWN)
    assert victim.read_text() == "as it was"
    (site / "linked").symlink_to(tmp_path)
    with pytest.raises(SetupError, match="is a link"):
        write_files(site / "linked", OWN)


@pytest.fixture
def broker(site: Path) -> Iterator[int]:
    """Start mosquitto with our files; `dock` may publish under site/dock/#."""
    set_account(*reader("dock", "site/dock/#"), password_hash=new_hash("dock password"))
    write_files(site / "broker", OWN)
    port = free_port()
    site.joinpath("conf").write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous false\nuser root\n"
        f"password_file {site}/broker/passwd\nacl_file {site}/broker/acl\n"
    )
    process = subprocess.Popen([str(shutil.which("mosquitto")), "-c", str(site / "conf")], stderr=subprocess.PIPE)
    assert process.stderr is not None
    for line in process.stderr:
        if b"running" in line:
            break
    yield port
    process.terminate()
    process.communicate()


def connect(port: int, name: str, password: str) -> tuple[mqtt.Client, list[str]]:
    """Return a client after CONNECT, and the list of its events: received topics, `refused`, ..."""
    events: list[str] = []
    client = mqtt.Client(CallbackAPIVersion.VERSION2)
    client.username_pw_set(name, password)
    client.on_connect = lambda *given: events.append("refused" if given[3].is_failure else "connected")
    client.on_subscribe = lambda *given: events.append("subscribed" if given[3][0].value < 128 else "denied")
    client.on_message = lambda *given: events.append(given[2].topic)
    client.on_publish = lambda *_: events.append("published")
    client.connect("127.0.0.1", port)
    turn_until(client, events, 1)
    return client, events


def turn_until(client: mqtt.Client, events: list[str], count: int) -> None:
    for _ in range(200):
        if len(events) >= count:
            return
        client.loop(0.05)
    raise AssertionError(f"only {events}")


@pytest.mark.mosquitto
def test_in_mosquitto_readers_publish_to_their_topic_and_only_edge_reads(broker: int) -> None:
    own, own_events = connect(broker, *OWN)
    own.subscribe("#", 1)
    turn_until(own, own_events, 2)
    dock, dock_events = connect(broker, "dock", "dock password")
    dock.publish("site/other", b"1", qos=1)
    dock.publish("site/dock/reads", b"2", qos=1)
    turn_until(dock, dock_events, 3)
    turn_until(own, own_events, 3)
    assert own_events == ["connected", "subscribed", "site/dock/reads"]
    dock.subscribe("#", 1)
    turn_until(dock, dock_events, 4)
    dock.publish("site/dock/reads", b"3", qos=1)
    turn_until(dock, dock_events, 5)
    turn_until(own, own_events, 4)
    assert "site/dock/reads" not in dock_events
    stranger, stranger_events = connect(broker, "dock", "wrong")
    assert stranger_events == ["refused"]
    for client in (own, dock, stranger):
        client.disconnect()
        client.loop(0.05)
