"""What all kinds of destinations promise alike: webhooks, brokers, channels of all kinds, and outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC
from typing import Any, NamedTuple

import pytest

from edge import clock
from edge.audit import quotas
from edge.audit.actors import shell
from edge.clock import HOUR, SECOND
from edge.database.connection import execute
from edge.events import destinations, detection, worker
from edge.events.delivery import Outcome, Result
from edge.events.delivery_threads import Turn
from edge.events.destinations import DestinationKind
from edge.events.worker import EventsWorker
from edge.people.people import Role
from edge.records import assets
from edge.rules.channels import channels, outbox
from edge.rules.channels.kinds import KINDS
from edge.rules.channels.outbox import Message
from edge.rules.channels.worker import Messages
from edge.rules.outputs import outputs
from edge.rules.outputs.worker import OutputsWorker
from tests.conftest import Cast
from tests.events.conftest import PACE
from tests.pages.conftest import Browser

SignIn = Callable[..., Browser]


class Case(NamedTuple):
    """A kind: the page and the module of its rows, and a form with its secret. `address` fills in another host."""

    path: str
    store: Any
    form: dict[str, Any]
    address: Callable[[str], dict[str, str]] | None = None
    secret: str = ""


def in_url(template: str, field: str = "url") -> Callable[[str], dict[str, str]]:
    return lambda host: {field: template.format(f"[{host}]" if ":" in host else host)}


EVENTS, CHANNELS = "/event-destinations", "/channels"
WEBHOOK = {"kind": "webhook", "url": "https://erp.example/hook", "events": ["asset.created"]}
MQTT = {
    "kind": "mqtt",
    "url": "mqtts://edge@broker.example",
    "events": ["asset.created"],
    "topic": "edge/{type}",
    "password": "broker-word",
}
EMAIL = {
    "recipients": "lead@example.com",
    "sender": "edge@example.com",
    "host": "mail.example.com",
    "security": "starttls",
    "user": "edge",
    "password": "mail-word",
}
NTFY = {"url": "https://ntfy.example.com/dock", "token": "tk_word"}
CHAT = {"form": "slack", "url": "https://hooks.example.com/T0/word"}
HORN = {"form": "tasmota", "device": "horn", "relay": "0", "seconds": "10"}
OF_CHANNELS = {
    "email": Case(CHANNELS, channels, EMAIL, lambda host: {"host": host}, "mail-word"),
    "ntfy": Case(CHANNELS, channels, NTFY, in_url("https://{}/dock"), "tk_word"),
    "webhook": Case(CHANNELS, channels, CHAT, in_url("https://{}/hook"), "T0/word"),
}
CASES = {
    "webhook of events": Case(EVENTS, destinations, WEBHOOK, in_url("https://{}/hook")),
    "broker of events": Case(EVENTS, destinations, MQTT, in_url("mqtts://edge@{}"), "broker-word"),
    **{f"channel {kind}": case._replace(form={**case.form, "kind": kind}) for kind, case in OF_CHANNELS.items()},
    "output": Case("/outputs", outputs, HORN),
}
ACTS = ("test", "enable", "disable", "remove")


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def only(case: Case, cast: Cast) -> Any:
    (row,) = case.store.KIND.list_of(cast.acme)
    return row


def create(case: Case, browser: Browser, **changes: Any) -> int:
    return browser.post(f"{case.path}/new", {"name": "Dock lead", **case.form, **changes}).status_code


def test_every_kind_has_a_case() -> None:
    assert OF_CHANNELS.keys() == KINDS.keys()
    assert {case.form["kind"] for case in CASES.values() if case.path == EVENTS} == {
        kind.value for kind in DestinationKind if kind is not DestinationKind.STREAM
    }


def test_it_is_created_shown_and_audited_and_its_secret_is_not_shown(case: Case, cast: Cast, admin: Browser) -> None:
    assert create(case, admin) in (200, 303)
    row = only(case, cast)
    for path in (case.path, f"{case.path}/{row.no}", "/audit"):
        shown = admin.get(path).text
        assert "Dock lead" in shown
        assert not case.secret or case.secret not in shown
    stored = str(execute(f"SELECT * FROM {case.store.KIND.table}").fetchall())
    assert not case.secret or case.secret not in stored + str(execute("SELECT * FROM audit").fetchall())


def test_what_is_wrong_is_marked_and_nothing_is_created(case: Case, cast: Cast, admin: Browser) -> None:
    answer = admin.post(f"{case.path}/new", {**case.form, "name": ""})
    assert (answer.status_code, 'class="error"' in answer.text) == (400, True)
    assert case.store.KIND.list_of(cast.acme) == []


def test_a_name_is_used_once(case: Case, cast: Cast, admin: Browser) -> None:
    create(case, admin)
    answer = admin.post(f"{case.path}/new", {**case.form, "device": "siren", "name": "DOCK LEAD"})
    assert answer.status_code in (400, 409)
    assert "already exists; choose another name" in answer.text
    only(case, cast)


def test_their_number_is_limited(case: Case, cast: Cast, admin: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "CAPS", {kind: cap._replace(limit=1) for kind, cap in quotas.CAPS.items()})
    create(case, admin)
    assert create(case, admin, name="Other", device="siren") in (400, 409)
    only(case, cast)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.address])
@pytest.mark.parametrize("host", ["127.0.0.1", "LocalHost.", "::1", "2130706433", "169.254.169.254", "10.0.0.5"])
def test_an_address_that_is_never_allowed_is_refused_when_it_is_entered(
    name: str, cast: Cast, admin: Browser, host: str
) -> None:
    case = CASES[name]
    changed = case.address(host) if case.address else {}
    answer = admin.post(f"{case.path}/new", {"name": "Dock lead", **case.form, **changed})
    assert answer.status_code == 400
    assert any(words in answer.text for words in ("this box itself", "link-local", "in a private network"))
    assert case.store.KIND.list_of(cast.acme) == []


def test_the_buttons_are_audited(case: Case, cast: Cast, admin: Browser) -> None:
    create(case, admin)
    path = f"{case.path}/{only(case, cast).no}"
    admin.post(f"{path}/test")
    admin.post(f"{path}/disable")
    assert only(case, cast).disabled_at
    assert "disabled" in admin.get(path).text
    admin.post(f"{path}/enable")
    assert only(case, cast).disabled_at is None
    admin.post(f"{path}/remove")
    assert case.store.KIND.list_of(cast.acme) == []
    kind = case.store.KIND.kind
    acts = [row[0] for row in execute("SELECT action FROM audit WHERE action LIKE ? ORDER BY no", (f"{kind}.%",))]
    assert acts == [f"{kind}.{act}" for act in ("created", "tested", "disabled", "enabled", "deleted")]


def test_a_change_of_what_somebody_else_has_removed_is_not_found(case: Case, cast: Cast, admin: Browser) -> None:
    create(case, admin)
    no = only(case, cast).no
    case.store.remove(shell(cast.acme), no)
    form = {**case.form, "name": "Dock lead"}
    acts = ("secret",) if case.path == EVENTS else ("edit",)
    assert {admin.post(f"{case.path}/{no}/{act}", form).status_code for act in (*acts, *ACTS)} == {404}
    assert case.store.KIND.list_of(cast.acme) == []


def test_they_belong_to_administrators_of_the_organization(case: Case, cast: Cast, sign_in_as: SignIn) -> None:
    create(case, sign_in_as(Role.ADMINISTRATOR))
    row, editor = only(case, cast), sign_in_as(Role.EDITOR)
    stranger = sign_in_as(Role.ADMINISTRATOR, organization_id=cast.rival)
    assert "Dock lead" not in stranger.get(case.path).text
    for browser, status in ((editor, 403), (stranger, 404)):
        assert browser.get(f"{case.path}/{row.no}").status_code == status
        assert {browser.post(f"{case.path}/{row.no}/{act}").status_code for act in ACTS} == {status}
    assert editor.get(case.path).status_code == 403
    assert only(case, cast) == row


class Sender:
    """Receives what any kind sends, and answers as the test says."""

    def __init__(self) -> None:
        self.outcome = Outcome(Result.DELIVERED, "accepted")
        self.sent: list[Any] = []
        self.connections = 1
        self.is_up = True

    def send(self, *message: Any) -> Outcome:
        if self.outcome.result is Result.DELIVERED:
            self.sent.append(message)
        return self.outcome

    def close(self) -> None:
        """Do nothing."""


class Stage:
    """A destination with the workers, whose sender and clock are the test's."""

    def __init__(self, case: Case, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
        self.case, self.cast, self.now = case, cast, clock.now()
        self.sender = Sender()
        monkeypatch.setattr(clock, "now", lambda: self.now)
        fake = {name: replace(kind, new_sender=lambda *_: self.sender) for name, kind in KINDS.items()}
        monkeypatch.setattr("edge.rules.channels.worker.KINDS", fake)
        monkeypatch.setattr(EventsWorker, "_new_sender", lambda *_: self.sender)
        monkeypatch.setattr(worker, "DeliveryThreads", lambda _: self)
        self.turns: dict[Any, Turn] = {}
        detection.start(PACE.silence)
        self.events = EventsWorker(PACE, messages=Messages(lambda: UTC).due)
        self.outputs = OutputsWorker(lambda: self.sender)

    def offer(self, turn: Turn) -> None:
        self.turns[turn.key] = turn

    def is_busy(self, _key: object) -> bool:
        return False

    @property
    def row(self) -> Any:
        return only(self.case, self.cast)

    def say_something(self) -> None:
        """Make something to send: an event, a message, or a test of an output, which has no queue."""
        if self.case.path == EVENTS:
            assets.create(shell(self.cast.acme), name="Pallet")
        elif self.case.path == CHANNELS:
            message = Message("Left", "Pallet left", 1, 1, 1, self.now, False, False)
            outbox.enqueue(self.cast.acme, self.row.no, message, self.now)
        else:
            outputs.request_test(shell(self.cast.acme), self.row.no)

    def work(self, after: int = 0) -> None:
        self.now += after
        self.events._due.clear()
        self.events._look()
        while sum(self.turns.pop(key).serve() for key in list(self.turns)):
            self.events._due.clear()
            self.events._look()
        self.outputs._retry_at.clear()
        self.outputs.work_once()


@pytest.fixture
def stage(case: Case, cast: Cast, admin: Browser, monkeypatch: pytest.MonkeyPatch) -> Stage:
    create(case, admin)
    return Stage(case, cast, monkeypatch)


@pytest.mark.parametrize("fault", ["", "no answer of the receiver"])
def test_a_test_message_is_sent_at_once_and_its_result_is_shown(stage: Stage, admin: Browser, fault: str) -> None:
    if fault:
        stage.sender.outcome = Outcome(Result.FAILED, fault)
    path = f"{stage.case.path}/{stage.row.no}"
    admin.post(f"{path}/test")
    stage.work()
    assert len(stage.sender.sent) == (0 if fault else 1)
    assert fault in admin.get(path).text


def test_what_failed_is_sent_again_until_it_arrives(stage: Stage, admin: Browser) -> None:
    stage.sender.outcome = Outcome(Result.FAILED, "no answer of the receiver")
    stage.say_something()
    for _ in range(3):
        stage.work(SECOND // 10)
    assert stage.sender.sent == []
    assert "no answer of the receiver" in admin.get(f"{stage.case.path}/{stage.row.no}").text
    stage.sender.outcome = Outcome(Result.DELIVERED, "accepted")
    for _ in range(7):
        stage.work(SECOND)
    assert stage.row.last_error is None
    if stage.case.store is not outputs:
        assert "accepted" in admin.get(f"{stage.case.path}/{stage.row.no}").text, "each attempt is listed"
    assert len(stage.sender.sent) == (2 if stage.case.store is outputs else 1), "an output is switched off again"


def test_after_days_without_success_something_is_given_up(stage: Stage) -> None:
    """An output tries for ever: its state counts, not the commands of the past."""
    stage.sender.outcome = Outcome(Result.FAILED, "no answer of the receiver")
    stage.say_something()
    for _ in range(60):
        stage.work(3 * HOUR)
    row = stage.row
    if stage.case.store is destinations:
        assert row.disabled_reason.startswith("no delivery succeeded for 5 days")
    elif stage.case.store is channels:
        assert (row.lost, outbox.count_waiting(row)) == (1, 0)
    else:
        assert (row.failing_since is not None, row.disabled_at) == (True, None)
