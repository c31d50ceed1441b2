"""systemd/edge-broker-check: queue files in a real mosquitto, and the reports about damaged ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from edge.operations.root import edge_broker_check
from tests.mosquitto import Mosquitto
from tests.service import wait_for

ROOT = Path(__file__).parents[2]
# A process like that of the script, with other files of edge.
CODE = """import sys
sys.path.append(sys.argv.pop(1))
from pathlib import Path
from edge.operations.root import edge_broker_check as check
check.EDGE = check.TOML = Path(sys.argv.pop(1))
check.main()
"""
MESSAGES = 200

pytestmark = pytest.mark.mosquitto

# The users mosquitto and edge do not exist here, and mosquitto would drop its privileges by default.
TOOLS = {
    "setpriv": 'while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"',
    "install": 'shift 5; shift 2; exec mkdir -p "$1"',
    # The broker runs as a separate user, which must be able to read its settings.
    "mosquitto": '[ "$(stat -c %a "$2")" = 644 ] || exit 1; echo user root >>"$2"; exec /usr/sbin/mosquitto -c "$2"',
}


class Computer:
    """A stopped broker with messages for an absent subscriber in its queue file."""

    def __init__(self, folder: Path, session: str = "edge") -> None:
        self.kept, self.warnings, self._tools = folder / "kept", folder / "edge" / "warnings", folder / "tools"
        for path in (self.kept, self.warnings.parent, self._tools):
            path.mkdir()
        for name, body in TOOLS.items():
            (self._tools / name).write_text(f"#!/bin/sh\n{body}\n")
            (self._tools / name).chmod(0o755)
        self.file = self.kept / "mosquitto.db"
        self._edge = self._tools / "edge"
        broker = Mosquitto(self.kept)
        broker.start()
        subscriber = _client(session, broker.port)
        subscriber.subscribe("site/#", 1)
        answered: list[int] = []
        subscriber.on_subscribe = lambda *_: answered.append(1)
        wait_for(lambda: subscriber.loop(0.1) == 0 and bool(answered), 20)
        subscriber.disconnect()
        publisher = _client("publisher", broker.port)
        publisher.loop_start()
        for sent in [publisher.publish("site/dock1", b"read %d" % number, 1) for number in range(MESSAGES)]:
            sent.wait_for_publish(20)
        publisher.loop_stop()
        broker.stop()

    def install_edge(self) -> Path:
        """Install a program in place of edge that notes its arguments. Returns the notes."""
        notes = self._tools / "notes"
        self._edge.write_text(f'#!/bin/sh\necho "$1${{3:+ $2}}" >>{notes}\n')
        self._edge.chmod(0o755)
        return notes

    def check(self, umask: int = 0o022, conf: Path | None = None) -> str:
        """Run the script as before a start of the broker. Returns its journal output."""
        given = [ROOT, self._edge, "/", "/", self.kept, self.warnings, *[conf] * bool(conf)]
        done = subprocess.run(
            ["/usr/bin/python3", "-I", "-S", "-B", "-c", CODE, *map(str, given)],
            env={"PATH": f"{self._tools}:/usr/sbin:/usr/bin:/sbin:/bin"},
            capture_output=True, text=True, check=True, umask=umask,
        )  # fmt: skip
        return done.stderr

    def spoil(self) -> bytes:
        """Overwrite one of the messages with garbage. Returns the damaged file."""
        whole = self.file.read_bytes()
        at = whole.index(b"read 100") - 60
        damaged = whole[:at] + bytes(range(200, 256)) * 3 + whole[at + 168 :]
        self.file.write_bytes(damaged)
        return damaged

    @property
    def warning(self) -> str | None:
        file = self.warnings / "broker-file"
        return file.read_text() if file.exists() else None

    @property
    def aside(self) -> list[Path]:
        return sorted(self.kept.glob("mosquitto.db.corrupt-*"))


def _client(name: str, port: int) -> mqtt.Client:
    client = mqtt.Client(CallbackAPIVersion.VERSION2, name, clean_session=False)
    client.connect("127.0.0.1", port)
    return client


@pytest.fixture
def computer(tmp_path: Path) -> Computer:
    return Computer(tmp_path)


def test_a_sound_file_is_left_as_it_is(computer: Computer) -> None:
    before = computer.file.read_bytes()
    assert computer.check() == ""
    assert computer.file.read_bytes() == before
    assert (computer.warning, computer.aside) == (None, [])


@pytest.mark.parametrize(("session", "is_created"), [("edge", True), ("edge-session-1", False)])
def test_sessions_that_mosquitto_had_not_saved_are_created(tmp_path: Path, session: str, is_created: bool) -> None:
    """After a power cut, reads would be acknowledged and dropped until edge connects."""
    computer = Computer(tmp_path, session)
    notes = computer.install_edge()
    computer.check()
    assert (notes.exists() and notes.read_text() == "broker-session\n") == is_created
    assert b"read 100" in computer.file.read_bytes()


def test_garbage_that_mosquitto_passes_over_is_kept_and_reported(computer: Computer) -> None:
    damaged = computer.spoil()
    said = computer.check()
    assert "mosquitto said" in said
    assert "Unsupported chunk" in said
    assert [path.read_bytes() for path in computer.aside] == [damaged]
    assert computer.warning is not None
    assert f"A copy is {computer.aside[0]}" in computer.warning
    assert computer.check() == "", "mosquitto has saved what it could read: it is reported once"


def test_a_file_that_mosquitto_refuses_is_moved_aside(computer: Computer) -> None:
    computer.file.write_bytes(b"garbage" * 1000)
    assert "is now" in computer.check()
    assert len(computer.aside) == 1
    assert computer.warning is not None


def test_at_most_three_damaged_files_are_kept(computer: Computer) -> None:
    for day in range(10, 15):
        (computer.kept / f"mosquitto.db.corrupt-200101{day}T000000Z").write_bytes(b"old")
    computer.spoil()
    computer.check()
    assert len(computer.aside) == 3
    assert computer.aside[0].name.endswith("13T000000Z")


def test_the_umask_of_the_unit_keeps_no_sound_file_from_being_read(computer: Computer) -> None:
    """Settings readable by root only would make every sound file count as damaged."""
    before = computer.file.read_bytes()
    assert "damaged" not in computer.check(umask=0o077)
    assert computer.file.read_bytes() == before
    assert not list(computer.kept.glob("*.corrupt*"))


def test_memory_is_cleared_on_request(tmp_path: Path) -> None:
    computer = Computer(tmp_path, "edge-session-1")
    notes = computer.install_edge()
    (tmp_path / "edge.clear").touch()
    computer.check(conf=tmp_path / "conf.d/edge.conf")
    assert notes.read_text() == "broker-session --clear\n"
    assert not (tmp_path / "edge.clear").exists()
    assert b"read 100" in computer.file.read_bytes()


@pytest.mark.parametrize(
    ("settings", "limit"),
    [("", 16_777_216), ("memory_limit 100\nmemory_limit 400\n", 100), ("# memory_limit 400\n", 16_777_216)],
)
def test_a_file_of_a_quarter_of_the_memory_is_large(settings: str, limit: int) -> None:
    assert edge_broker_check.largest_file(settings) == limit


@pytest.mark.parametrize(
    ("log", "is_damaged"),
    [
        ("1: mosquitto version 2.0.11 starting\n1: Opening ipv4 listen socket\n", False),
        ("1: Warning: Unsupported chunk 55 in persistent database file. Ignoring.\n", True),
        ("1: Error: Couldn't open database.\n", True),
        ("1: Persistent database is CORRUPT\n", True),
    ],
)
def test_the_log_of_mosquitto_tells_a_damaged_file(log: str, is_damaged: bool) -> None:
    assert edge_broker_check.is_damaged(log) is is_damaged
