"""A hub with its real API and a site with its real client, in one process without a socket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Flask

from edge.database.connection import FILE_NAME, close_database, open_database
from edge.events.checked_connection import Answer
from edge.people.secrets import hash_secret
from edge.sync.client import HubClient
from edge.sync.store import sites
from tests.application import make_app
from tests.sync.world import Hub, SiteBox

SECRET = "edge_" + "0" * 64
Send = Callable[..., Any]


class Line:
    """A replacement for the connection that passes requests to the hub, with its database open meanwhile."""

    def __init__(self, app: Flask, hub: Hub, site: SiteBox) -> None:
        self._app, self._hub, self._site = app, hub, site
        self.spoil: Callable[[Send], Send] = lambda send: send

    def exchange(self, method: str, path: str, body: bytes, headers: dict[str, str], most: int, _seconds: float) -> Any:
        assert method == "POST"
        answer = self.spoil(self._post)(path, body, headers)
        assert len(answer.content) < most
        return answer

    def _post(self, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        close_database()
        with self._hub.in_use():
            answer = self._app.test_client().post(path, data=body, headers=headers)
        open_database(self._site.folder / FILE_NAME)
        return Answer(answer.status_code, answer.headers, answer.data)  # type: ignore[arg-type]

    def close(self) -> None:
        pass


class Connected:
    """A site, its client and the line to the hub. Use while the site's database is open."""

    def __init__(self, site: SiteBox, *, environment: str = "production") -> None:
        self.site = site
        with site.hub.in_use():
            app = make_app(environment=environment)
            sites.renew_code(site.hub.actor, site.site_no, hash_secret("code"))
            joined = sites.join(hash_secret("code"), hash_secret(SECRET))
            assert joined
            assert joined.api_key_id
            self.client = HubClient("https://hub", joined.api_key_id, SECRET, None)
        self.line = Line(app, site.hub, site)
        self.client._connection = self.line  # type: ignore[assignment]

    def error_at_hub(self) -> str:
        """Return the reason of the last refusal, as shown on the hub's page."""
        [row] = self.site.hub.rows(f"SELECT last_error FROM site WHERE no = {self.site.site_no}")
        return row[0] or ""
