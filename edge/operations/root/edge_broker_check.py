"""Check before each start of mosquitto that it can read its queue file.

A power cut may damage the file, and mosquitto would then never start again. The check runs mosquitto on a separate
socket without saving. An unreadable file is moved aside, with a line in the journal and a warning that edge shows until
it is deleted. If mosquitto can read only a part of the file (it reports this in its log only, then overwrites the
file), a copy is kept with the same warning. At most three such files are kept, because each may be as large as the
memory.

Without a queue file edge has no session at the broker, and reads published before edge connects would be lost. In that
case the session is created in a new file first. The same if the file has no sessions of edge: mosquitto had not saved
them before a power cut.

Retained messages and subscriptions of readers have no use, and could fill the memory. mosquitto then disconnects each
new subscriber, edge included. They are deleted when the file is large, or edge asked for it by edge-accounts.

Root never writes to a folder of another user, where a link could redirect it to any system file. Files of mosquitto are
handled as mosquitto, files of the service as the service.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from edge.operations.root.places import DATA, EDGE, TOML
from edge.operations.root.programs import as_edge, begin, fail, must, read, works

_FILE = "mosquitto.db"
_AS_MOSQUITTO = ("setpriv", "--reuid=mosquitto", "--regid=mosquitto", "--clear-groups", "--no-new-privs")
_LOAD_SECONDS = 60.0  # loading takes about a second for 100 MB
_SESSION_SECONDS, _CLEAR_SECONDS = 30, 50
_MOST_COPIES = 3
_DEFAULT_LIMIT = 67_108_864  # bytes
_SESSION = "edge-session-1"
_CONF = """listener 0 {socket}
allow_anonymous true
use_username_as_clientid true
persistence true
persistence_location {folder}/
autosave_interval 0
log_dest stderr
"""


class Broker(NamedTuple):
    """Folder of the queue file, folder of warnings, settings of mosquitto, and a folder for the check."""

    folder: Path
    warnings: Path
    conf: Path
    scratch: Path

    @property
    def file(self) -> Path:
        return self.folder / _FILE

    @property
    def socket(self) -> Path:
        return self.scratch / "run/socket"

    @property
    def clear_request(self) -> Path:
        return self.conf.parents[1] / "edge.clear"


def main() -> None:
    """Run with the folder of systemd/edge-broker-check, the caller's folder, and other folders in tests."""
    begin("edge-broker-check")
    os.umask(0o022)  # mosquitto reads its configuration from here; the unit may set a stricter one
    given = [Path(word) for word in sys.argv[3:]]
    usual = [Path("/var/lib/mosquitto"), DATA / "warnings", Path("/etc/mosquitto/conf.d/edge.conf")]
    folder, warnings, conf = [*given, *usual[len(given) :]]
    try:
        with tempfile.TemporaryDirectory() as scratch:
            broker = Broker(folder, warnings, conf, Path(scratch))
            broker.scratch.chmod(0o755)
            # The set-group-id bit gives files of mosquitto the group edge, and only edge can use the socket.
            must("install", "-d", "-o", "mosquitto", "-g", "edge", "-m", "2750", broker.socket.parent)
            conf_text = _CONF.format(socket=broker.socket, folder=broker.folder)
            (broker.scratch / "conf").write_text(conf_text, "utf-8")
            check(broker)
    except OSError as error:
        fail(str(error))


def check(broker: Broker) -> None:
    """Check the queue file, and leave one with the session of edge."""
    if as_mosquitto("test", "-s", broker.file):
        with _running(broker) as process:
            if process.poll() is None:
                _check_loaded(broker, process)
                return
        move_aside(broker)
    if has_edge():
        with _running(broker) as process:
            keep_session(broker, process)


def _check_loaded(broker: Broker, process: subprocess.Popen[bytes]) -> None:
    """Check a file that mosquitto has loaded. A process that is not asked to save is killed, and the file stays."""
    if is_damaged((broker.scratch / "log").read_text("utf-8", "replace")):
        keep_copy(broker)
        keep_session(broker, process)
    elif has_edge() and needs_clearing(broker) and clear_memory(broker):
        _save(process)
    elif has_edge() and lacks_session(broker):
        keep_session(broker, process)


@contextmanager
def _running(broker: Broker) -> Iterator[subprocess.Popen[bytes]]:
    """Run mosquitto until the end of the block, which begins once it listens or has given up."""
    as_mosquitto("rm", "-f", broker.socket)
    command = [*_AS_MOSQUITTO, "mosquitto", "-c", str(broker.scratch / "conf")]
    with (broker.scratch / "log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log)  # noqa: S603  constant command
    try:
        deadline = time.monotonic() + _LOAD_SECONDS
        while process.poll() is None and not broker.socket.is_socket() and time.monotonic() < deadline:
            time.sleep(0.1)
        yield process
    finally:
        process.kill()  # not terminate, which would save
        process.wait()


def _save(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


def is_damaged(log: str) -> bool:
    """True if mosquitto reports that it could read only a part of the file."""
    return bool(re.search("unsupported chunk|corrupt|error", log, re.IGNORECASE))


def has_edge() -> bool:
    """True if edge is installed, and not only its broker."""
    return os.access(EDGE, os.X_OK) and TOML.is_file()


def keep_session(broker: Broker, process: subprocess.Popen[bytes]) -> None:
    """Create the session of edge in the file, and let the broker save it."""
    if has_edge():
        as_mosquitto("chmod", "0770", broker.socket)
        works("timeout", _SESSION_SECONDS, EDGE, "broker-session", broker.socket)
    _save(process)


def lacks_session(broker: Broker) -> bool:
    return not as_mosquitto("grep", "-qaFe", _SESSION, broker.file)


def needs_clearing(broker: Broker) -> bool:
    """True if the file is large, or if edge asked."""
    if broker.clear_request.exists():
        return True
    settings = broker.conf.read_text("utf-8", "replace") if broker.conf.is_file() else ""
    size = (read(*_AS_MOSQUITTO, "stat", "-c", "%s", broker.file) or "").strip()
    return size.isdigit() and int(size) > largest_file(settings)


def largest_file(settings: str) -> int:
    """Return a quarter of the memory limit in mosquitto's settings, or of 64 MB without one."""
    limits = re.findall(r"^memory_limit ([0-9]+)$", settings, re.MULTILINE)
    return int(limits[-1] if limits else _DEFAULT_LIMIT) // 4


def clear_memory(broker: Broker) -> bool:
    """Let edge delete retained messages and subscriptions of readers."""
    is_cleared = as_mosquitto("chmod", "0770", broker.socket) and works(
        "timeout", _CLEAR_SECONDS, EDGE, "broker-session", "--clear", broker.socket
    )
    if is_cleared:
        broker.clear_request.unlink(missing_ok=True)
    return is_cleared


def move_aside(broker: Broker) -> None:
    """Let mosquitto start without the file that it cannot read."""
    aside = _new_name(broker)
    if not as_mosquitto("mv", "-T", broker.file, aside):
        fail(f"{broker.file} is damaged and cannot be moved aside")
    _report(
        broker,
        f"The queue file of the broker was damaged and is now {aside}; messages it held for edge may be lost",
    )


def keep_copy(broker: Broker) -> None:
    """Keep a copy of a file that mosquitto is about to replace."""
    aside, what = _new_name(broker), "The queue file of the broker was damaged, and"
    if as_mosquitto("cp", "--reflink=auto", broker.file, aside):
        text = f"the broker could read a part of it only. A copy is {aside}; messages it held for edge are lost"
    else:
        as_mosquitto("rm", "-f", aside)
        text = "messages it held for edge are lost; there was no room for a copy"
    _report(broker, f"{what} {text}")


def _new_name(broker: Broker) -> Path:
    return broker.file.with_name(f"{_FILE}.corrupt-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}")


def _report(broker: Broker, text: str) -> None:
    """Write to the journal, add a warning that edge shows, and remove old copies."""
    log = (broker.scratch / "log").read_text("utf-8", "replace")
    print(text, *(f"mosquitto said: {line}" for line in log.splitlines()), sep="\n", file=sys.stderr)
    if broker.warnings.parent.is_dir():
        write = 'mkdir -p -m 0750 "$1" && echo "$2" >"$1/broker-file"'
        as_edge("sh", "-c", write, "sh", broker.warnings, f"{text}. Delete both files afterwards.")
    copies = read(*_AS_MOSQUITTO, "find", broker.folder, "-maxdepth", "1", "-name", f"{_FILE}.corrupt-*")
    for old in too_old((copies or "").splitlines()):
        as_mosquitto("rm", "-f", "--", old)


def too_old(copies: Sequence[str]) -> list[str]:
    """Return all but the newest copies. Their names end with the time."""
    return sorted(copies, reverse=True)[_MOST_COPIES:]


def as_mosquitto(*words: object) -> bool:
    return works(*_AS_MOSQUITTO, *words)
