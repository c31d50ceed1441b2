"""`GET /events` through a real server: events arrive live, and a client resumes after a disconnection."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from waitress.server import BaseWSGIServer

from edge import clock
from edge.audit.actors import person, shell
from edge.errors import Conflict, Unavailable
from edge.events import destinations, detection, log, stream
from edge.events.destinations import DestinationKind, NewDestination
from edge.events.log import KINDS, Filter
from edge.events.stream import Listener, Streams
from edge.pages.cookies import SESSION as SESSION_COOKIE
from edge.people import api_keys, people, sessions, tokens
from edge.people.people import Role
from edge.people.secrets import hash_secret, new_client_secret
from edge.server import server
from tests.application import make_app
from tests.conftest import Cast
from tests.events.conftest import Warehouse, make_events
from tests.service import wait_for


class StreamEvent(NamedTuple):
    id: str
    event: str
    data: Any


class Client:
    """One stream, read line by line."""

    def __init__(self, port: int, path: str, headers: dict[str, str]) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._connection.request("GET", path, headers=headers)
        self.answer = self._connection.getresponse()

    def next(self) -> StreamEvent:
        """Return the next event with data."""
        fields = {"id": "", "event": "", "data": ""}
        while True:
            line = self.answer.readline().decode().rstrip("\n")
            name, _, value = line.partition(": ")
            if name in fields:
                fields[name] = value
            elif not line and fields["data"]:
                return StreamEvent(fields["id"], fields["event"], json.loads(fields["data"]))
            elif not line and self.answer.isclosed():
                raise EOFError

    def is_ended(self) -> bool:
        return self.answer.read() is not None

    def close(self) -> None:
        self._connection.close()
        self.answer.close()


class Site(NamedTuple):
    port: int
    streams: Streams
    warehouse: Warehouse
    stack: ExitStack

    def listen(self, path: str = "/events", **headers: str) -> Client:
        client = Client(self.port, path, {name.replace("_", "-"): value for name, value in headers.items()})
        self.stack.callback(client.close)
        return client

    def ask(self, path: str, **headers: str) -> int:
        client = self.listen(path, **headers)
        return client.answer.status

    def token(self, *scopes: str, organization_id: int = 0) -> str:
        secret = new_client_secret()
        actor = shell(organization_id or self.warehouse.organization_id)
        key = api_keys.add_key(actor, "Screen", scopes or ("assets:read", "tracking:read"), hash_secret(secret))
        pair = tokens.exchange("production", key.id, secret)
        assert pair
        return f"Bearer {pair.access_token}"


@pytest.fixture
def site(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(stream, "LOOK_SECONDS", 0.01)
    streams = Streams()
    app = make_app(streams=streams)
    with serving(app) as port, ExitStack() as stack:
        streams.start_if_needed()
        stack.callback(streams.stop)
        yield Site(port, streams, warehouse, stack)


@contextmanager
def serving(app: Any) -> Iterator[int]:
    listener = server.create(app, "127.0.0.1", 0, 2)
    assert isinstance(listener, BaseWSGIServer)
    thread = threading.Thread(target=listener.run)
    thread.start()
    try:
        yield listener.effective_port
    finally:
        server.stop(listener, 5)
        thread.join()


def move(site: Site, asset_id: int, second: int) -> None:
    site.warehouse.seen(asset_id, "south dock" if second % 2 else "north dock", second * 10)
    make_events()


def test_events_arrive_live_and_resume_after_the_last_id(site: Site) -> None:
    pallet, token = site.warehouse.add_asset("P-1"), site.token()
    make_events()
    client = site.listen(Authorization=token)
    assert (client.answer.status, client.answer.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
    move(site, pallet, 1)
    first = client.next()
    assert (first.event, first.data["type"], first.data["id"]) == ("asset.arrived", "asset.arrived", first.id)
    move(site, pallet, 2)
    assert client.next().data["data"]["location"]["external_key"] == "DOCK-NORTH"
    client.close()
    move(site, pallet, 3)
    again = site.listen(Authorization=token, Last_Event_ID=first.id)
    keys = [again.next().data["data"]["location"]["external_key"] for _ in range(2)]
    assert keys == ["DOCK-NORTH", "DOCK-SOUTH"]


def test_the_first_stream_of_a_box_has_the_events_after_its_answer(site: Site) -> None:
    detection.stop()  # as the service does without destinations
    client = site.listen(Authorization=site.token())
    site.warehouse.add_asset("P-1")
    make_events()
    assert client.next().event == "asset.created"


def test_a_client_that_missed_more_than_one_portion_gets_every_event(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "MOST_EVENTS", 3)
    pallet, token = site.warehouse.add_asset("P-1"), site.token()
    make_events()
    first = log.after(site.warehouse.organization_id, 0, 1)[0]
    for second in range(8):
        move(site, pallet, second)
    client = site.listen(Authorization=token, Last_Event_ID=first.id)
    expected = [event.id for event in log.after(site.warehouse.organization_id, first.seq, 100)]
    assert len(expected) > 6
    assert [client.next().id for _ in expected] == expected


def test_a_client_that_missed_dropped_events_gets_a_reset(site: Site) -> None:
    pallet, token = site.warehouse.add_asset("P-1"), site.token()
    make_events()
    first = log.after(site.warehouse.organization_id, 0, 1)[0]
    log.drop_old(clock.now() + 1, 100)
    client = site.listen(Authorization=token, Last_Event_ID=first.id)
    assert client.next().event == "reset"
    move(site, pallet, 1)
    assert client.next().event == "asset.arrived"


def test_filters_and_organizations_limit_the_stream(site: Site, cast: Cast) -> None:
    rival = Warehouse(cast.rival, "rival/")
    theirs = site.listen(Authorization=site.token(organization_id=cast.rival))
    south = site.listen("/events?location_external_key=SOUTH&kind=asset.arrived", Authorization=site.token())
    pallet, box = site.warehouse.add_asset("P-1"), rival.add_asset("B-1")
    site.warehouse.seen(pallet, "north dock", 10)
    rival.seen(box, "south dock", 10)
    site.warehouse.seen(pallet, "south dock", 20)
    make_events()
    event = south.next()
    assert (event.event, event.data["data"]["asset"]["external_key"]) == ("asset.arrived", "P-1")
    assert {theirs.next().data["data"]["asset"]["external_key"] for _ in range(2)} == {"B-1"}


def test_a_session_allows_streaming_until_it_ends(site: Site) -> None:
    organization_id = site.warehouse.organization_id
    viewer = people.add_person(shell(organization_id), "Vera", Role.VIEWER)
    actor = person(organization_id, viewer.id, viewer.name)
    sessions.add_session(actor, hash_secret("cookie"), clock.now() + clock.HOUR)
    client = site.listen(Cookie=f"{SESSION_COOKIE}=cookie")
    site.warehouse.add_asset("P-1")
    make_events()
    assert client.next().event == "asset.created"
    sessions.end_session(actor, hash_secret("cookie"))
    assert client.is_ended()


class Pushed(list[bytes]):
    """Data pushed to an open channel."""

    def is_open(self) -> bool:
        return True

    def push(self, data: bytes) -> bool:
        self.append(data)
        return True

    def end(self) -> None:
        """Stay open."""


def test_an_event_after_a_long_silence_is_sent_and_no_keepalive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PING_SECONDS", -1.0)
    listener, pushed = Listener(1, "key 1", Filter(frozenset()), 0, lambda: True), Pushed()
    listener.begin(pushed)
    assert listener.write(b"data: 1\n\n")
    assert listener.write(b"")
    assert pushed == [b"data: 1\n\n", b": still here\n\n"]


def test_a_stream_ends_with_the_key_of_its_token(site: Site) -> None:
    client = site.listen(Authorization=site.token())
    (key,) = api_keys.list_keys(site.warehouse.organization_id)
    api_keys.revoke_key(shell(site.warehouse.organization_id), key.id)
    assert client.is_ended()
    wait_for(lambda: site.streams.count() == 0)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/events?kind=asset.exploded", 400),
        ("/events?colour=red", 400),
        ("/events?location_external_key=NOWHERE", 400),
        ("/events?kind=asset.created", 403),
    ],
)
def test_invalid_requests_are_refused(site: Site, path: str, status: int) -> None:
    assert site.ask(path, Authorization=site.token("tracking:read")) == status


def test_an_unavailable_database_answers_with_retry_after(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise Unavailable("The disk is full; free disk space and try again")

    token = site.token()
    monkeypatch.setattr(destinations, "open_stream", refuse)
    answer = site.listen(Authorization=token).answer
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")


def test_disabled_streams_answer_with_the_command_to_enable_them(site: Site) -> None:
    token = site.token()
    assert site.ask("/events", Authorization=token) == 200
    organization_id = site.warehouse.organization_id
    [made] = destinations.list_destinations(organization_id)
    destinations.disable(shell(organization_id), made.no)
    client = site.listen(Authorization=token)
    assert client.answer.status == 409
    assert 'edge events enable "Live stream"' in json.loads(client.answer.read())["error"]
    destinations.enable(shell(organization_id), made.no)
    assert site.ask("/events", Authorization=token) == 200


def test_the_name_of_the_stream_is_reserved(site: Site) -> None:
    mine = NewDestination(DestinationKind.WEBHOOK, "Live stream", "https://erp.example.com", b"x", Filter(KINDS))
    with pytest.raises(Conflict, match="choose another name"):
        destinations.add(shell(site.warehouse.organization_id), mine)


def test_streaming_requires_credentials(site: Site) -> None:
    assert site.ask("/events") == 401
    assert site.ask("/events", Authorization="Bearer wrong") == 401
    assert site.ask("/events", Cookie=f"{SESSION_COOKIE}=wrong") == 401
    assert site.streams.count() == 0


def test_one_caller_cannot_take_all_streams_of_its_organization(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_PER_CALLER", 2)
    first, second = site.token(), site.token()
    listeners = [site.listen(Authorization=token) for token in (first, first, second)]
    assert [one.answer.status for one in listeners] == [200, 200, 200]
    refused = site.listen(Authorization=first)
    assert (refused.answer.status, refused.answer.headers["Retry-After"]) == (503, "30")


def test_streams_hold_no_thread_and_their_number_is_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has two threads."""
    monkeypatch.setattr(stream, "MAX_PER_ORGANIZATION", 12)
    token = site.token()
    listeners = [site.listen(Authorization=token) for _ in range(12)]
    refused = site.listen(Authorization=token)
    assert (refused.answer.status, refused.answer.headers["Retry-After"]) == (503, "30")
    assert site.ask("/healthz") == 200
    site.warehouse.add_asset("P-1")
    make_events()
    assert {client.next().event for client in listeners} == {"asset.created"}
    listeners[0].close()
    wait_for(lambda: site.streams.count() == 11)


def test_streams_stay_open_while_their_address_makes_more_connections(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each connection above the limit of an address closes the one that was idle for longest, never a stream."""
    monkeypatch.setattr(server.connections, "MOST_OF_ADDRESS", 4)
    monkeypatch.setattr(server.connections, "FRESH_SECONDS", -1)
    token = site.token()
    streams = [site.listen(Authorization=token) for _ in range(4)]
    for _ in range(8):
        assert site.ask("/healthz") == 200
    site.warehouse.add_asset("P-1")
    make_events()
    assert {client.next().event for client in streams} == {"asset.created"}


def test_a_client_that_does_not_read_is_disconnected(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.connections, "MOST_UNREAD", 100_000)
    monkeypatch.setattr(stream, "MOST_EVENTS", 1000)
    token = site.token()
    site.listen(Authorization=token)
    for turn in range(40):  # 20 MB, more than the socket buffers take
        log.add([_large(site, number) for number in range(turn * 500, turn * 500 + 500)])
    wait_for(lambda: site.streams.count() == 0)


def _large(site: Site, number: int) -> log.NewEvent:
    kind, data = log.EventKind.ASSET_CHANGED, {"asset": {"name": "x" * 1000}}
    return log.NewEvent(site.warehouse.organization_id, kind, number, clock.now(), (), (), data)


class _Channel:
    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def is_open(self) -> bool:
        return True

    def push(self, data: bytes) -> bool:
        self.sent.append(data)
        return True

    def end(self) -> None: ...


def listener_on(channel: _Channel, organization_id: int = 0) -> Listener:
    listener = Listener(organization_id, "key", Filter(frozenset(KINDS), None), 0, lambda: True)
    listener.begin(channel)
    return listener


def test_an_event_after_a_long_silence_is_sent_in_place_of_a_keepalive(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(stream, "time", SimpleNamespace(monotonic=lambda: now[0]))
    channel = _Channel()
    listener = listener_on(channel)
    now[0] = stream.PING_SECONDS + 1
    assert listener.write(b"event")
    assert channel.sent == [b"event"]
    now[0] += stream.PING_SECONDS + 1
    assert listener.write(b"")
    assert channel.sent == [b"event", b": still here\n\n"]


def test_an_event_is_sent_within_a_second(warehouse: Warehouse) -> None:
    channel, streams = _Channel(), Streams()
    streams.add(listener_on(channel, warehouse.organization_id))
    streams.start_if_needed()
    try:
        warehouse.add_asset("P-1")
        make_events()
        wait_for(lambda: channel.sent, 5)
    finally:
        streams.stop()
    assert b"asset.created" in channel.sent[0]


def test_positions_of_people_are_hidden_from_roles_and_not_from_keys(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    pallet = warehouse.add_asset("P-1")
    make_events()
    warehouse.seen(pallet, "north dock", 1)
    make_events()
    of_person = [one._replace(is_of_person=True) for one in log.after(warehouse.organization_id, 0, 10)]
    setting = SimpleNamespace(is_hidden_from=lambda role: role is Role.VIEWER)
    monkeypatch.setattr(log.tracked_people, "setting", lambda _: setting)
    for role in (None, Role.ADMINISTRATOR):
        assert log.visible_to(role, warehouse.organization_id, of_person) == of_person
    shown = log.visible_to(Role.VIEWER, warehouse.organization_id, of_person)
    assert shown != of_person
    assert all(one.is_private or one.data["location"] is None for one in shown)
