"""Writes to the services of all organizations, in the thread of `standby`.

Each round of a service is short, and a service that cannot be reached pauses, at most ten minutes at a time. So one
slow service delays the others by one request at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from edge import clock
from edge.errors import EdgeError, SetupError
from edge.events.progress import is_due
from edge.upstream import client as client_module
from edge.upstream import rounds, upstreams
from edge.upstream.answers import Away
from edge.upstream.client import Client
from edge.upstream.upstreams import Upstream

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
BUSY_SECONDS = 1.0  # pause between rounds while many reads wait
UNEXPECTED_SECONDS = 60.0


class UpstreamWorker:
    def __init__(
        self,
        authority_file: Path | None = None,
        has_reads_waiting: Callable[[], bool] = lambda: False,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """Prepare without connections. `authority_file` has certificates to trust in addition to the system's."""
        self._authority_file = authority_file
        self._has_reads_waiting = has_reads_waiting
        self._is_stopping = is_stopping
        self._clients: dict[int, tuple[tuple[object, ...], Client]] = {}

    def close(self) -> None:
        """Close the connections."""
        for _, client in self._clients.values():
            client.close()
        self._clients.clear()

    def work(self) -> float:
        """Do one round of each service. Returns the seconds until the next one."""
        if not self.work_once(upstreams.all_upstreams()):
            return LOOK_SECONDS
        return BUSY_SECONDS if self._has_reads_waiting() else 0.0

    def work_once(self, rows: list[Upstream]) -> bool:
        """Do one round of each service that is due. Returns True if one has more to do now."""
        has_more = False
        for row in rows:
            if self._is_stopping():
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
        access = (row.url, row.network, row.client_id, row.secret, row.authority)
        known = self._clients.get(row.no)
        if known and known[0] == access:
            return known[1]
        if known:
            known[1].close()
        client = client_module.of_upstream(row, self._authority_file)
        self._clients[row.no] = (access, client)
        return client
