"""Faults for a site in use. Each function injects one and returns when the site can continue by itself."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from tests.service import LedgerReader, wait_for
from tests.soak.clients import ROUNDING, Publisher, Seen
from tests.soak.clock import Clock
from tests.soak.disk import Disk
from tests.soak.used_site import PATIENCE, UsedSite

DAY_SECONDS = 86_400


class Faults:
    """All faults. Without `disk` or `clock` the faults that need them are left out."""

    def __init__(self, site: UsedSite, disk: Disk | None, clock: Clock | None) -> None:
        self._site, self._service, self._broker = site, site.service, site.broker
        self._disk = disk
        self._clock = clock
        self.began = time.monotonic()
        # Periods in which mosquitto lost messages that were only in its memory.
        self.windows: list[tuple[float, float]] = []
        # Periods with a wrong box clock. Reads without a credible time got the time of the box.
        self.other_times: list[tuple[float, float]] = []
        if clock:
            self._service.environment = clock.environment

    def all(self) -> dict[str, Callable[[], None]]:
        available: dict[str, Callable[[], None]] = {
            "kill -9 of the service": self.kill_service,
            "service restarted": self.restart_service,
            "service frozen": self.freeze_service,
            "kill -9 of mosquitto": self.kill_broker,
            "mosquitto restarted": self.restart_broker,
            "mosquitto frozen": self.freeze_broker,
            "link cut": self.cut_link,
            "link slow": self.slow_link,
            "link lossy": self.lossy_link,
            "backup and restore": self.back_up_and_restore,
            "upgrade that changes the database": self.upgrade,
        }
        if self._clock:
            available |= {
                "clock a day ahead and back": self.clock_ahead,
                "clock a day behind and back": self.clock_behind,
            }
        if self._disk:
            available |= {
                "disk full": self.fill_disk,
                "flushes slow": self.slow_flushes,
                "disk fails, read-only, restart": self.fail_disk,
                "power cut, cache of the disk lost": self.cut_power,
            }
        return available

    def kill_service(self) -> None:
        self._service.kill()
        self._service.start()

    def restart_service(self) -> None:
        self._service.stop()
        self._service.start()

    def freeze_service(self) -> None:
        assert self._service.process
        self._service.process.send_signal(signal.SIGSTOP)
        self._wait(3)
        self._service.process.send_signal(signal.SIGCONT)

    def kill_broker(self) -> None:
        """Kill mosquitto while the service follows. Messages for an absent client in its memory are lost."""
        with self._window():
            self._broker.kill()
        self._broker.start()

    def restart_broker(self) -> None:
        self._broker.stop()
        self._broker.start()

    def freeze_broker(self) -> None:
        self._broker.send_signal(signal.SIGSTOP)
        self._wait(2)
        self._broker.send_signal(signal.SIGCONT)

    def cut_link(self) -> None:
        self._site.link.cut()
        self._wait(2)
        self._site.link.is_cut = False

    def slow_link(self) -> None:
        self._site.link.delay = 0.3
        self._wait(2)
        self._site.link.delay = 0.0

    def lossy_link(self) -> None:
        """Delay packets, and break connections in the middle of a message."""
        self._site.link.loss = 0.1
        self._wait(3)
        self._site.link.loss = 0.0

    def back_up_and_restore(self) -> None:
        """Restore the newest state after a clean stop: nothing may be missing."""
        self._service.stop()
        self._service.run("backup")
        newest = max((self._site.data_dir / "backups").glob("*.db.gz"))
        self._service.run("restore", "--yes", str(newest))
        for aside in self._site.data_dir.glob("edge.db.before-*"):
            aside.unlink()
        newest.unlink()
        self._service.start()

    def upgrade(self) -> None:
        """Upgrade like edge-upgrade: input waits outside until the new release passed its checks."""
        pending = self._site.data_dir / "upgrade-pending"
        self._service.stop()
        pending.touch()
        self._service.start()
        wait_for(lambda: self._service.has_logged("Serving pages"), PATIENCE, self._service.read_log)
        self._wait(1)
        pending.unlink()

    def clock_ahead(self) -> None:
        self._set_clock(DAY_SECONDS)

    def clock_behind(self) -> None:
        self._set_clock(-DAY_SECONDS)

    def _set_clock(self, seconds: int) -> None:
        """Set the box clock. The handheld pauses, because its scans are timed relative to this clock."""
        assert self._clock
        began = self._wait_until_caught_up()
        with self._site.handheld.resting():
            self._clock.set(seconds)
            self._wait(3)
            self._clock.set(0)
            self._wait_until_caught_up()
        self.other_times.append((began, time.monotonic()))

    def fill_disk(self) -> None:
        assert self._disk
        self._disk.fill()
        self._wait(2)
        self._disk.make_room()

    def slow_flushes(self) -> None:
        assert self._disk
        self._disk.tell("slow 0.3")
        self._wait(3)
        self._disk.tell("slow 0")

    def fail_disk(self) -> None:
        """Fail all writes, which makes the file system read-only, then restart the box."""
        assert self._disk
        self._disk.tell("fail")
        self._wait(2)
        self._broker.stop()  # its files are on another disk
        self._service.kill()
        self._disk.lose_cache()
        self._broker.start()
        self._service.start()

    def cut_power(self) -> None:
        assert self._disk
        with self._window():
            self._broker.kill()
            self._service.kill()
            self._disk.lose_cache()
        self._broker.start()
        self._service.start()

    @contextmanager
    def _window(self) -> Iterator[None]:
        self._wait_until_caught_up()  # it may have been away; a second wait is short
        began = self._wait_until_caught_up()
        yield
        self.windows.append((began, time.monotonic()))

    def _wait_until_caught_up(self) -> float:
        """Wait until the service has stored all messages acknowledged up to some moment, and return that moment.

        Reads of one reader come in order; those of two readers may be acknowledged in another order.
        """
        newest = self._next_acknowledged()
        sql = "SELECT 1 FROM track t JOIN history h ON h.position_no = t.no AND h.observed_at = "
        with closing(LedgerReader(self._site.data_dir)) as reader:
            for seen, _ in newest:
                question = f"{sql}{seen.at * 1000}"
                wait_for(lambda question=question: reader.all(question), PATIENCE, self._service.read_log)
        return min(moment for _, moment in newest)

    def _next_acknowledged(self) -> list[tuple[Seen, float]]:
        """Return one new read of each reader. The time of a read may be up to `ROUNDING` ms ahead."""
        began = time.time_ns() // 1_000_000 + ROUNDING
        reads: dict[Publisher, tuple[Seen, float]] = {}

        def has_all() -> bool:
            for publisher in self._site.publishers:
                publisher.settle()
                newest = next(publisher.acknowledged_since(began), None)
                if newest:
                    reads.setdefault(publisher, newest)
            return len(reads) == len(self._site.publishers)

        wait_for(has_all, PATIENCE, self._service.read_log)
        return list(reads.values())

    def _wait(self, seconds: float) -> None:
        """Wait a random time of at most `seconds`, usually much less."""
        time.sleep(self._site.chance.random() * seconds)
