"""Measure the loss at a power cut while the service follows: `tests.soak.window [--cuts 20] [--rates 20,100,500]`.

A reader publishes at QoS 1 through mosquitto with the installer's settings (saved every 30 s). At random moments
service and broker are killed together, which leaves only durable data, and both are restarted. Prints the number of
missing acknowledged reads, the age of the oldest one at the cut, and the share of a core.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec
import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from tests.mosquitto import Mosquitto
from tests.service import LedgerReader, Service
from tests.soak import crash

SETTLE_SECONDS = 1.5
WINDOWS = ((150.0, 0.05), (float("inf"), 0.15))  # (up to messages a second, allowed seconds)
COMMIT_SECONDS = 0.03  # duration of a commit here, and of a kill during it


class Cut(NamedTuple):
    acknowledged: int
    missing: int
    oldest: float  # age in seconds of the oldest missing read at the cut; 0 without one


class Reader:
    """Publishes numbered reads at a rate, and records the time of each acknowledgement."""

    def __init__(self, port: int, first: int, rate: float) -> None:
        self.acknowledged: dict[int, float] = {}  # time by number, available after the stop
        self._numbers: dict[int, int] = {}  # by packet id
        self._confirmed: list[tuple[int, float]] = []
        self._first, self._rate = first, rate
        self._stopping = threading.Event()
        self._client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="reader")
        self._client.max_inflight_messages_set(1_000)
        self._client.on_publish = self._confirm  # type: ignore[assignment]
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._client.loop_stop()
        self.acknowledged = {self._numbers[mid]: at for mid, at in self._confirmed}

    def _run(self) -> None:
        number, began = self._first, time.monotonic()
        while not self._stopping.wait(max(0.0, began + (number - self._first) / self._rate - time.monotonic())):
            tag = {"epc": crash.epc_of(number % crash.TAGS), "antennaPort": 1, "rssi": -(number // crash.TAGS) / 10}
            self._numbers[self._client.publish(crash.TOPIC, msgspec.json.encode({"tags": [tag]}), qos=1).mid] = number
            number += 1

    def _confirm(self, *given: int) -> None:
        self._confirmed.append((given[2], time.monotonic()))


def cut(folder: Path, rate: float, chance: random.Random) -> tuple[Cut, float]:
    """Run one power cut on a new site. Returns it with the share of a core before it."""
    broker = Mosquitto(folder, "autosave_interval 30\n")
    data_dir = folder / "data"
    data_dir.mkdir()
    crash.make_site(data_dir)
    broker.start()
    with (
        Service(data_dir, broker.url, ingest__sighting_gap_seconds=0) as service,
        closing(LedgerReader(data_dir)) as ledger,
    ):
        service.start()
        service.wait_until_connected()
        reader = Reader(broker.port, 0, rate)
        time.sleep(SETTLE_SECONDS)
        used, began = service.cpu_seconds(), time.monotonic()
        time.sleep(2 + chance.random())
        share = (service.cpu_seconds() - used) / (time.monotonic() - began)
        cut_at = time.monotonic()
        broker.kill()
        service.kill()
        reader.stop()
        broker.start()
        service.start()
        service.wait_until_connected()
        recorded = numbers(ledger)
        service.stop()
    broker.stop()
    acknowledged = {number: at for number, at in reader.acknowledged.items() if at <= cut_at}
    missing = [cut_at - at for number, at in acknowledged.items() if number not in recorded]
    return Cut(len(acknowledged), len(missing), max(missing, default=0.0)), share


def numbers(ledger: LedgerReader) -> set[int]:
    rows = ledger.all(
        "SELECT a.name, h.rssi FROM history h JOIN position p ON p.no = h.position_no JOIN asset a ON a.id = p.asset_id"
    )
    return {-rssi * crash.TAGS + int(name.split()[1]) for name, rssi in rows}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--rates", default="20,100,500")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = parser.parse_args()
    chance, is_met = random.Random(options.seed), True
    print("| messages a second | cuts | acknowledged | missing | oldest (ms) | core |\n|---|---|---|---|---|---|")
    for rate in map(float, options.rates.split(",")):
        cuts, shares = [], []
        for _ in range(options.cuts):
            with tempfile.TemporaryDirectory() as folder:
                one, share = cut(Path(folder), rate, chance)
            cuts.append(one)
            shares.append(share)
        oldest = max(one.oldest for one in cuts)
        is_met &= oldest <= next(seconds for most, seconds in WINDOWS if rate <= most) + COMMIT_SECONDS
        print(
            f"| {rate:g} | {len(cuts)} | {sum(one.acknowledged for one in cuts)} | {sum(one.missing for one in cuts)}"
            f" | {oldest * 1000:.0f} | {sum(shares) / len(shares):.1%} |",
            flush=True,
        )
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
