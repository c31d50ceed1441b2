"""The whole service as a process: it ends in time, and there is one of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

from edge.config.settings import Config
from edge.errors import Unavailable
from edge.ingest import broker_probe
from edge.ingest.sessions import Broker
from edge.readers import broker_state, ledger
from edge.runtime import serve
from tests.mosquitto import free_port, mosquitto
from tests.service import ROOT, LedgerReader, Service, wait_for
from tests.soak import crash
from tests.soak.supervised import SupervisedService

SOON = 60.0
# Read by Python itself when it starts.
TELL_OPENS = """
import sys
def tell(event, given):
    if event == "open" and "edge.db" in str(given[0]):
        print("opened past SQLite:", given, file=sys.stderr)
sys.addaudithook(tell)
"""


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Serve a site with a reader that sends the messages of `crash.numbered`."""
    folder = tmp_path / "data"
    folder.mkdir()
    crash.make_site(folder)
    return folder


@pytest.mark.mosquitto
def test_sigterm_during_a_stream_commits_acknowledges_and_ends(tmp_path: Path, data_dir: Path) -> None:
    with (
        mosquitto(tmp_path) as broker,
        Service(data_dir, broker.url, ingest__sighting_gap_seconds=0) as service,
        closing(LedgerReader(data_dir)) as ledger_reader,
    ):
        service.start()
        service.wait_until_connected()
        stream = threading.Thread(target=broker.publish, args=(crash.TOPIC, crash.numbered(5_000)))
        stream.start()
        wait_for(lambda: ledger_reader.messages() > 0, SOON, service.read_log)
        assert service.stop() < 5
        assert service.process
        assert service.process.returncode == 0
        stream.join()
        service.start()
        wait_for(lambda: ledger_reader.ledger().get("recorded") == (5_000, 5_000), SOON, service.read_log)
        service.stop()
        assert ledger_reader.ledger() == {"recorded": (5_000, 5_000)}


@pytest.mark.mosquitto
def test_a_second_instance_on_the_same_data_is_refused(tmp_path: Path, data_dir: Path) -> None:
    with (
        mosquitto(tmp_path) as broker,
        Service(data_dir, broker.url) as service,
        Service(data_dir, broker.url) as second,
    ):
        service.start()
        service.wait_until_connected()
        second.start()
        assert second.process
        assert second.process.wait(SOON) == 1
        assert "is in use by a running edge" in second.read_log()
        service.stop()


def test_a_signal_just_before_the_service_waits_stops_it() -> None:
    """Its handler runs while the main thread holds the lock of the event that it waits for."""
    script = (
        "import signal\nfrom edge.runtime.stop_signal import stop_on_signal\nstop = stop_on_signal()\n"
        "with stop._cond:\n    signal.raise_signal(signal.SIGTERM)\nstop.wait()\nprint('stopped')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "stopped\n"


SIGNAL_BESIDE_THE_WAIT = """
import signal, sys, threading, traceback
from edge.runtime.stop_signal import stop_on_signal

def is_waiting(thread):
    stack = traceback.extract_stack(sys._current_frames()[thread.ident])
    return [call.name for call in stack] == ["<module>", "wait", "wait"]

def send():
    while not is_waiting(threading.main_thread()):
        pass
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

stop = stop_on_signal()
threading.Thread(target=send).start()
print(stop.wait(60))
"""


def test_a_signal_that_does_not_interrupt_the_wait_of_the_service_stops_it() -> None:
    """As one that comes just before it waits: it is delivered, and the main thread does not run to handle it."""
    done = subprocess.run(
        [sys.executable, "-c", SIGNAL_BESIDE_THE_WAIT], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout == "True\n"


def test_nothing_in_the_service_opens_the_file_but_sqlite(tmp_path: Path, data_dir: Path) -> None:
    """Closing it drops the locks that SQLite holds for the whole process, and others may then damage it."""
    (tmp_path / "sitecustomize.py").write_text(TELL_OPENS)
    with Service(data_dir, f"mqtt://127.0.0.1:{free_port()}") as service:
        service.environment = {"PYTHONPATH": f"{ROOT}:{tmp_path}"}
        service.start()
        wait_for(lambda: service.has_logged("Serving pages"), SOON, service.read_log)
        for path in ("/healthz", "/metrics"):
            assert urllib.request.urlopen(service.http + path, timeout=SOON).read()
        service.stop()
        assert "opened past SQLite" not in service.read_log()


def test_a_service_that_ended_by_itself_is_restarted_and_counted(data_dir: Path) -> None:
    with SupervisedService(data_dir, f"mqtt://127.0.0.1:{free_port()}") as service:
        service.RESTART_SECONDS = 0
        service.start()
        assert service.process
        os.kill(service.process.pid, signal.SIGBUS)
        wait_for(lambda: service.has_logged("Serving pages"), SOON, service.read_log)
        service.stop()
        assert service.ended_by_itself == {"SIGBUS": 1}


def test_dropped_messages_are_asked_with_the_account_of_the_doctor(
    store: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []
    answers = iter([{broker_state.DROPPED: "5"}, {}, {broker_state.DROPPED: "9"}])

    def ask(broker: Broker, _: object) -> dict[str, str]:
        asked.append(broker.url)
        if found := next(answers):
            return found
        raise Unavailable("The broker is away")

    monkeypatch.setattr(broker_probe, "ask", ask)
    (store / "password").write_text("secret")
    config = Config(
        data_dir=store,
        mqtt_broker="mqtt://edge@box:1883",
        mqtt_password_file=store / "password",
        mqtt_accounts_dir=store / "broker",
    )
    for _ in range(3):
        serve._check_broker(config)
    assert set(asked) == {"mqtt://edge-doctor@box:1883"}
    assert ledger.dropped() == 4
    assert "The broker has dropped 4 messages" in caplog.text


def test_a_full_broker_is_restarted_at_most_every_ten_minutes(
    store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "edge.conf").write_text("memory_limit 1000\n")
    monkeypatch.setattr(broker_state, "MOSQUITTO", tmp_path)
    monkeypatch.setattr(broker_probe, "ask", lambda *_: {broker_state.HEAP: "900", broker_state.RETAINED: "700"})
    folder = tmp_path / "broker"
    folder.mkdir()
    (folder / "accounts").write_text("dock\n")
    config = Config(data_dir=store, mqtt_broker="mqtt://edge@box:1883", mqtt_accounts_dir=folder)
    watched = []
    for _ in range(2):
        serve._check_broker(config)
        watched.append(((folder / "restart").read_text(), (folder / "accounts").stat().st_ino))
    assert watched[0] == watched[1]
    assert (folder / "accounts").read_text() == "dock\n"
    (folder / "restart").write_text("1000000")
    serve._check_broker(config)
    assert int((folder / "restart").read_text()) > 1000000
