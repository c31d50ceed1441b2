"""The thread that writes to the services of all organizations. It runs only while there is one.

Each round of a service is short, and a service that cannot be reached pauses, at most ten minutes at a time. So one
slow service delays the others by one request at a time.
"""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

from edge import clock
from edge.database.connection import close_database
from edge.errors import EdgeError, SetupError
from edge.events.progress import is_due
from edge.people.secrets import unseal
from edge.upstream import rounds, upstreams
from edge.upstream.answers import Away
from edge.upstream.client import Access, Client, trust
from edge.upstream.upstreams import Upstream

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
BUSY_SECONDS = 1.0  # pause between rounds while many reads wait
UNEXPECTED_SECONDS = 60.0


class UpstreamWorker:
    def __init__(
        self, authority_file: Path | None = None, has_reads_waiting: Callable[[], bool] = lambda: False
    ) -> None:
        """Prepare without a thread. `authority_file` has certificates to trust in addition to the system's."""
        self._authority_file = authority_file
        self._has_reads_waiting = has_reads_waiting
        self._tls: ssl.SSLContext | None = None  # takes 30 ms and 1 MB, so only with a service
        self._clients: dict[int, tuple[Access, bytes, Client]] = {}
        self._stopping = threading.Event()
        self._fault = ""
        self._thread: threading.Thread | None = None

    def start_if_needed(self) -> None:
        """Start the thread if there is a service and none is running."""
        if self._stopping.is_set() or self.is_running() or not upstreams.all_upstreams():
            return
        self._thread = threading.Thread(target=self._run, name="upstream", daemon=True)
        self._thread.start()

    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread:
            self._thread.join(2)  # a thread blocked by a service ends with the process; its round is repeated

    def close(self) -> None:
        """Close the connections."""
        for _, _, client in self._clients.values():
            client.close()
        self._clients.clear()

    def trouble(self) -> str:
        """Return the current fault of the thread, or an empty text."""
        return self._fault

    def _run(self) -> None:
        wait = 0.0
        while not self._stopping.wait(wait):
            try:
                rows = upstreams.all_upstreams()
                if not rows:
                    break
                has_more = self.work_once(rows)
                wait = (BUSY_SECONDS if self._has_reads_waiting() else 0.0) if has_more else LOOK_SECONDS
                self._fault = ""
            except EdgeError as error:
                self._note(str(error))
                wait = UNEXPECTED_SECONDS / 10
            except Exception as error:
                log.exception("Upstream failed unexpectedly; trying again in a minute")
                self._fault = repr(error)
                wait = UNEXPECTED_SECONDS
        self.close()
        close_database()

    def work_once(self, rows: list[Upstream]) -> bool:
        """Do one round of each service that is due. Returns True if one has more to do now."""
        has_more = False
        for row in rows:
            if self._stopping.is_set():
                return False
            if row.paused_at is None and is_due(row.next_try_at, clock.now()):
                has_more = self._serve(row) or has_more
        return has_more

    def _serve(self, row: Upstream) -> bool:
        try:
            has_more = rounds.run(self._client(row), row)
        except (Away, SetupError) as error:
            if row.last_error != str(error):
                log.warning("Upstream: %s", error)
            upstreams.note_failure(row, str(error), error.wait_seconds if isinstance(error, Away) else 0.0)
            return False
        except EdgeError:
            raise
        except Exception as error:  # others are served nevertheless, whatever this service answers
            log.exception("Upstream: the answers of %s have an unexpected form", row.url)
            upstreams.note_failure(row, f"The answers have an unexpected form: {error!r}", UNEXPECTED_SECONDS)
            return False
        if has_more and row.last_error:
            log.info("Upstream: %s takes records again", row.url)
        return has_more

    def _client(self, row: Upstream) -> Client:
        """Return the connected client of a service, or a new one. Raises SetupError if its secret cannot be read."""
        known = self._clients.get(row.no)
        if known and known[0][:3] == (row.url, row.network, row.client_id) and known[1] == row.secret:
            return known[2]
        if known:
            known[2].close()
        if self._tls is None:
            self._tls = trust(self._authority_file)
        access = Access(row.url, row.network, row.client_id, unseal(row.secret))
        client = Client(access, self._tls)
        self._clients[row.no] = (access, row.secret, client)
        return client

    def _note(self, fault: str) -> None:
        if fault != self._fault:
            log.warning("Upstream: %s", fault)
        self._fault = fault
