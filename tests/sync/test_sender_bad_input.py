"""Invalid data from either side is reported, and sync resumes without loss once it is fixed."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable
from http.client import IncompleteRead
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edge import clock
from edge.errors import Unavailable
from edge.events.checked_connection import Answer
from edge.people import api_keys
from edge.people.secrets import hash_secret
from edge.records import assets
from edge.sync import batch_format
from edge.sync import sender as sender_side
from edge.sync.client import HubClient
from edge.sync.sender import BatchRefused, LinkError, Sender, Stopped
from edge.sync.store import hub_link, incoming_stays, sites, state
from tests.sync.http import SECRET, Connected, Send
from tests.sync.world import EPOCH, HOUR, SECOND, Hub, SiteBox, assert_equal

pytestmark = pytest.mark.slow


@pytest.fixture
def ber(tmp_path: Path) -> SiteBox:
    site = SiteBox(tmp_path / "ber", "BER", Hub(tmp_path / "hub", "hub"))
    site.pallet = site.add_asset("P-1", "AA01")
    for step in range(6):
        site.scan(site.pallet, step % 3, EPOCH + step * HOUR)
    site.join()
    return site


def attempt(link: Connected) -> None:
    """Sync like the service until no change waits."""
    with link.site.in_use():
        sender = Sender(link.client.call)
        sender.connect()
        while not sender.push().is_all:
            pass


def refused(link: Connected, kind: type[Exception] = LinkError) -> str:
    with pytest.raises(kind) as error:
        attempt(link)
    return str(error.value)


def answering(status: int, body: bytes, **headers: str) -> Callable[[Send], Send]:
    return lambda _: lambda *_args, **_options: Answer(status, headers, body)


def test_a_normal_sync_succeeds(ber: SiteBox) -> None:
    attempt(Connected(ber))
    assert_equal(ber)


def test_the_hub_answers_after_its_commit(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_side, "MAX_ROWS", 2)
    link = Connected(ber)
    answers = []

    def looking(send: Send) -> Send:
        def answered(path: str, *content: Any) -> Any:
            answer = send(path, *content)
            if path.endswith("changes"):
                [on_disk] = ber.hub.rows(f"SELECT acked_seq FROM site WHERE no = {ber.site_no}")
                answers.append((msgspec.json.decode(answer.content)["cursor"][1], *on_disk))
            return answer

        return answered

    link.line.spoil = looking
    attempt(link)
    assert len(answers) > 3
    assert all(answered == on_disk for answered, on_disk in answers), answers


def test_a_wrong_key(ber: SiteBox) -> None:
    link = Connected(ber)
    right = link.client
    link.client = HubClient("https://hub", right._credentials["client_id"], "edge_" + "1" * 64, None)
    link.client._connection = link.line  # type: ignore[assignment]
    refusal = refused(link)
    assert "rejected the key of this site" in refusal
    assert "installed again without its backup, run `edge sync leave` before" in refusal
    link.client = right
    attempt(link)
    assert_equal(ber)


def test_a_key_that_was_revoked(ber: SiteBox) -> None:
    link = Connected(ber)
    attempt(link)
    with ber.hub.in_use():
        site = sites.get_site(ber.hub.organization_id, ber.site_no)
        assert site.api_key_id
        api_keys.revoke_key(ber.hub.actor, site.api_key_id)
    ber.scan(ber.pallet, 0, EPOCH + 20 * HOUR)
    assert "rejected the key of this site" in refused(link)
    with ber.hub.in_use():
        assert "its key was revoked" in state.site_statuses(ber.hub.organization_id)[0].trouble
    link = Connected(ber)  # a new code
    with ber.in_use():
        hub_link.renew_key(ber.actor, hub_link.HubAccess("https://hub", "BER", "The hub", "new"))
    attempt(link)
    assert_equal(ber)


def test_a_key_without_the_scope_of_a_site(ber: SiteBox) -> None:
    link = Connected(ber)
    with ber.hub.in_use():
        key = api_keys.add_key(ber.hub.actor, "WMS", ["assets:read"], hash_secret(SECRET))
    link.client._credentials["client_id"] = key.id
    assert "403: this key does not belong to a site" in refused(link)


def test_a_hub_of_another_environment(ber: SiteBox) -> None:
    link = Connected(ber)
    with ber.in_use(), pytest.raises(Stopped, match="this hub is a production installation but the site is preview"):
        link.client.join("code", "preview")


def test_a_decompression_bomb_is_refused(ber: SiteBox) -> None:
    link = Connected(ber)
    bomb = zlib.compress(b"[" + b" " * (batch_format.MAX_INFLATED + 1) + b"]")
    assert len(bomb) < 100_000
    for path in ("changes", "hello", "digests"):
        with ber.in_use(), pytest.raises((BatchRefused, LinkError), match="413: the request is too large"):
            link.client.call(path, bomb)
    assert "too large" in link.error_at_hub()
    with ber.in_use(), pytest.raises(BatchRefused, match="413"):
        link.client.call("changes", b"x" * (batch_format.MAX_BODY + 1))
    attempt(link)
    assert_equal(ber)
    assert link.error_at_hub() == ""


def test_a_site_respects_the_maximum_request_size(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(1)
    for number in range(20):
        pallet = ber.add_asset(f"Q-{number}")
        with ber.in_use():
            assets.patch(ber.actor, pallet, {"description": f"{chance.getrandbits(2000):x}"})
        ber.scan(pallet, 0, EPOCH)
    link = Connected(ber)
    sizes: list[int] = []

    def measuring(send: Send) -> Send:
        def answered(path: str, *content: Any) -> Any:
            sizes.append(len(content[0]))
            return send(path, *content)

        return answered

    link.line.spoil = measuring
    monkeypatch.setattr(batch_format, "MAX_BODY", 1500)  # two of the descriptions
    attempt(link)
    assert max(sizes) <= 1500
    assert_equal(ber)
    assert ber.rows("SELECT * FROM set_aside") == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "bytes after its compressed content"),
        (b"no zlib", "is invalid"),
        (zlib.compress(b"no json"), "is invalid"),
        (zlib.compress(b"{}"), "is invalid"),
        (zlib.compress(b"[]") + b"more", "bytes after its compressed content"),
        (zlib.compress(b'{"v": 1, "base": [1, 2, 3]}'), "is invalid"),
        (zlib.compress(b'{"v": 99}'), "version 99 of the batch is not one that this program knows"),
        (zlib.compress(b"[" * 100_000), "is invalid"),
    ],
)
def test_an_invalid_body_is_refused(ber: SiteBox, body: bytes, message: str) -> None:
    link = Connected(ber)
    with ber.in_use(), pytest.raises(BatchRefused, match=message):
        link.client.call("changes", body)
    assert message in link.error_at_hub()
    attempt(link)
    assert_equal(ber)


FAR = 10**30


@pytest.mark.parametrize(
    ("path", "question"),
    [
        ("hello", {"versions": [1], "instance": "x", "cursor": ["e", FAR, ""], "former": [], "report": {}}),
        ("hello", {"versions": [1], "instance": "x", "cursor": ["e", 1, 7], "former": [], "report": {}}),
        ("hello", {"versions": [1], "instance": "x", "cursor": ["e", 1, ""], "former": [], "report": [1]}),
        ("hello", {"versions": [[1]], "instance": "x", "cursor": ["e", 1, ""], "former": [], "report": {}}),
        ("masters", {"after": FAR, "epoch": "e", "page": None}),
        ("masters", {"after": 0, "epoch": "e", "page": "one"}),
        ("masters", {"after": 0, "epoch": "e", "page": -FAR}),
        ("digests", {"range": [0, 1], "days": [FAR]}),
        ("recover", {"part": "tracks", "after": [FAR]}),
        ("recover", {"part": ["tracks"], "after": [0]}),
    ],
)
def test_a_request_with_invalid_values_is_refused(ber: SiteBox, path: str, question: dict[str, Any]) -> None:
    link = Connected(ber)
    body = zlib.compress(json.dumps(question).encode())
    with ber.in_use(), pytest.raises((BatchRefused, LinkError), match="is invalid"):
        link.client.call(path, body)
    assert "is invalid" in link.error_at_hub()
    attempt(link)
    assert_equal(ber)


def test_incompatible_versions_resume_after_an_update(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    link = Connected(ber)
    greeting = sender_side._greeting
    with monkeypatch.context() as patched:
        patched.setattr(sender_side, "_greeting", lambda here: {**greeting(here), "versions": [7]})
        assert "update the older of the two boxes" in refused(link)
    assert "update the older of the two boxes" in link.error_at_hub()
    attempt(link)
    assert_equal(ber)


def test_a_full_hub(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    link = Connected(ber)

    def full(*_: Any) -> None:
        raise Unavailable("The disk is full; free disk space and try again")

    with monkeypatch.context() as patched:
        patched.setattr(incoming_stays, "_replace_stays", full)
        with pytest.raises(LinkError, match="503: The disk is full") as error:
            attempt(link)
    assert error.value.wait_seconds == 5, "as long as the hub asks"
    assert ber.hub.rows("SELECT count(*) FROM history") == [(0,)]
    attempt(link)
    assert_equal(ber)


def test_refused_positions_are_retried_later(ber: SiteBox) -> None:
    link = Connected(ber)
    attempt(link)
    ber.scan(ber.pallet, 2, EPOCH + 5 * HOUR + 60 * SECOND)  # same location: changes no row of history

    def refusing(send: Send) -> Send:
        return lambda path, *content: (
            Answer(400, {}, b'{"error": "no"}') if path.endswith("changes") else send(path, *content)
        )

    link.line.spoil = refusing
    with pytest.raises(LinkError, match="rejected the current locations: the hub responded 400: no") as error:
        attempt(link)
    assert error.value.wait_seconds == 60
    link.line.spoil = lambda send: send
    attempt(link)
    assert_equal(ber)


def test_refused_positions_set_no_change_aside(ber: SiteBox) -> None:
    """A batch of positions only, as after the daily limit, contains none of the waiting changes."""
    link = Connected(ber)
    attempt(link)
    ber.scan(ber.pallet, 1, EPOCH + 7 * HOUR)
    link.line.spoil = lambda send: (
        lambda path, *content: Answer(400, {}, b'{"error": "no"}') if path.endswith("changes") else send(path, *content)
    )
    with ber.in_use():
        sender = Sender(link.client.call)
        sender.connect()
        for _ in range(10):  # halves the batch down to one row
            sender.push(with_history=False)
        with pytest.raises(LinkError, match="rejected the current locations"):
            sender.push(with_history=False)
    assert ber.rows("SELECT * FROM set_aside") == []
    link.line.spoil = lambda send: send
    attempt(link)
    assert_equal(ber)


def test_a_site_waits_as_long_as_the_hub_asks(ber: SiteBox) -> None:
    link = Connected(ber)
    link.line.spoil = answering(429, b'{"error": {"detail": "Too many requests"}}', **{"retry-after": "17"})
    with pytest.raises(LinkError) as error:
        attempt(link)
    assert error.value.wait_seconds == 17
    assert "429: Too many requests" in str(error.value)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (answering(200, b"<html>Sign in to the guest network</html>"), "Another program, perhaps a proxy, responds"),
        (answering(302, b"moved"), "The hub responded 302"),
        (answering(502, b"<html>Bad gateway</html>"), "The hub responded 502: <html>Bad gateway"),
        (answering(200, b"[]"), "responds at the hub's address"),
    ],
)
def test_an_answer_from_something_else_is_reported(ber: SiteBox, spoil: Callable[[Send], Send], message: str) -> None:
    link = Connected(ber)
    link.line.spoil = spoil
    assert message in refused(link)
    link.line.spoil = lambda send: send
    attempt(link)
    assert_equal(ber)


@pytest.mark.parametrize(
    "fault",
    [TimeoutError("timed out"), OSError(101, "Network is unreachable"), IncompleteRead(b"{", 100)],
)
def test_a_broken_line_loses_nothing(ber: SiteBox, fault: Exception) -> None:
    link = Connected(ber)

    def broken(*_: Any, **__: Any) -> Any:
        raise fault

    link.line.spoil = lambda _: broken
    assert "cannot be reached" in refused(link)
    link.line.spoil = lambda send: send
    attempt(link)
    assert_equal(ber)


def test_an_answer_without_required_keys_is_refused(ber: SiteBox) -> None:
    link = Connected(ber)

    def half(send: Send) -> Send:
        def answered(path: str, *content: Any) -> Any:
            real = send(path, *content)
            return Answer(200, {}, b'{"applied": true}') if path.endswith("changes") else real

        return answered

    link.line.spoil = half
    assert "responds at the hub's address" in refused(link)
    link.line.spoil = lambda send: send
    attempt(link)
    assert_equal(ber)


def test_a_clock_difference_is_reported_at_both_ends(ber: SiteBox, monkeypatch: pytest.MonkeyPatch) -> None:
    link = Connected(ber)
    real = clock.now

    def ahead(send: Send) -> Send:
        def answered(*args: Any, **options: Any) -> Any:
            with monkeypatch.context() as patched:
                patched.setattr(clock, "now", lambda: real() + 3 * HOUR)
                return send(*args, **options)

        return answered

    link.line.spoil = ahead
    attempt(link)
    with ber.in_use():
        assert "10800 s apart" in state.site_trouble() or "10799 s apart" in state.site_trouble()
        hub_link.update(last_contact_at=0)
    attempt(link)
    with ber.hub.in_use():
        assert "s apart" in state.site_statuses(ber.hub.organization_id)[0].trouble
    assert_equal(ber)
