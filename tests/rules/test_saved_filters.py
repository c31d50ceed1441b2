"""Saved filters and their lists by email: when they are due, what they contain, and that an outage only delays them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.clock import DAY, HOUR
from edge.database.connection import execute
from edge.errors import Conflict, Invalid, NotFound
from edge.outbound import Network
from edge.records import assets, loans, locations
from edge.records.loans import LoanFilter
from edge.rules import saved_filters
from edge.rules.channels import channels, outbox
from edge.rules.channels.channels import NewChannel, Schedule
from edge.rules.channels.worker import Messages
from edge.tracking import positions, tracked_people
from edge.tracking.board import BoardFilter
from edge.tracking.stays import Quality, Scan
from edge.tracking.tracked_people import PeopleSetting
from tests.conftest import Cast
from tests.rules.channels.mail_server import MailServerOfTest, mail_server, send_due

BEGAN = clock.to_micros(datetime(2026, 3, 2, 12, 0, tzinfo=UTC))  # a Monday
SIX = 6 * 60


@pytest.fixture
def server() -> Iterator[MailServerOfTest]:
    with mail_server() as one:
        yield one


class Stage:
    """A saved filter for all assets, sent daily at six by a worker whose clock the test moves."""

    def __init__(self, cast: Cast, server: MailServerOfTest, monkeypatch: pytest.MonkeyPatch) -> None:
        self.acme, self.actor, self.server = cast.acme, shell(cast.acme), server
        self.now = BEGAN
        monkeypatch.setattr(clock, "now", lambda: self.now)
        self.messages = Messages(lambda: UTC, None, saved_filters.enqueue_due)
        self.channel = self.add_channel("email", server.port)
        self.dock = locations.create(self.actor, name="Dock 1")
        self.add_asset("Cage")
        self.no = saved_filters.save(self.actor, "All of it", BoardFilter())
        saved_filters.send_by_mail(self.actor, self.no, self.channel, SIX, None, UTC)

    def add_channel(self, kind: str, port: int) -> int:
        settings = {"host": "127.0.0.1", "port": port, "security": "none", "user": "", "sender": "edge@example.com"}
        recipients = {"recipients": ["lead@example.com"]}
        new = NewChannel(kind, f"{kind} {port}", {**settings, **recipients}, b"", Schedule(), Network.LOOPBACK)
        return channels.add(self.actor, new).no

    def add_asset(self, name: str, key: str | None = None) -> int:
        asset = assets.create(self.actor, name=name, external_key=key)
        scan = Scan(self.acme, asset.id, self.dock.id, None, None, self.now, self.now, Quality.HANDHELD)
        positions.record([scan], 0)
        return asset.id

    def work(self, after: int = 0) -> None:
        self.now += after
        send_due(self.messages)

    def files(self) -> list[tuple[str, str]]:
        parts = [part for mail in self.server.mails for part in mail.parsed.iter_attachments()]
        return [(str(part.get_filename()), part.get_content()) for part in parts]


@pytest.fixture
def stage(cast: Cast, server: MailServerOfTest, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(cast, server, monkeypatch)


def test_a_list_is_sent_every_day_as_csv(stage: Stage) -> None:
    stage.work(17 * HOUR)
    assert stage.files() == []
    stage.work(HOUR)
    stage.work(HOUR)
    ((name, content),) = stage.files()
    assert name == "All-of-it-2026-03-03.csv"
    heading, row = content.lstrip("\ufeff").splitlines()
    assert heading.startswith("external_key,name")
    assert "Cage" in row
    assert "Dock 1" in row
    assert stage.server.mails[0].parsed["Subject"] == "All of it: 1 asset"
    stage.work(DAY)
    assert len(stage.files()) == 2


def test_a_list_waits_for_the_mail_server_and_is_marked_as_late(stage: Stage) -> None:
    saved_filters.send_by_mail(stage.actor, stage.no, stage.add_channel("email", 1), SIX, None, UTC)
    stage.work(18 * HOUR)
    assert (stage.files(), execute("SELECT count(*) FROM channel_file").fetchone()) == ([], (1,))
    execute(
        "UPDATE message SET destination_id = (SELECT id FROM destination WHERE no = ?)", (stage.channel,)
    )  # the server is back
    stage.work(3 * HOUR)
    assert "This message is late" in stage.server.mails[0].parsed.get_body().get_content()  # type: ignore[union-attr]
    assert len(stage.files()) == 1
    assert execute("SELECT count(*) FROM channel_file").fetchone() == (0,)


def test_a_list_is_sent_again_after_the_clock_was_ahead(stage: Stage) -> None:
    stage.work(365 * DAY)
    stage.work(-365 * DAY)
    sent = len(stage.files())
    stage.work(18 * HOUR)
    assert len(stage.files()) == sent + 1


def test_a_list_that_fails_does_not_keep_back_others(stage: Stage) -> None:
    other = saved_filters.save(stage.actor, "Other", BoardFilter())
    saved_filters.send_by_mail(stage.actor, other, stage.channel, SIX, None, UTC)
    execute('UPDATE saved_filter SET filter = \'{"loan": "of a later release"}\' WHERE no = ?', (stage.no,))
    stage.work(18 * HOUR)
    assert [name for name, _ in stage.files()] == ["Other-2026-03-03.csv"]


def test_a_list_is_a_mail_of_its_own_between_alerts(stage: Stage) -> None:
    stage.now += 18 * HOUR
    saved_filters.enqueue_due(stage.now, UTC)
    stage.work()
    stage.work()
    assert len(stage.server.mails) == 1


def test_people_are_left_out_unless_the_api_has_them(stage: Stage) -> None:
    stage.add_asset("Ada", "BADGE-1")
    tracked_people.save(stage.actor, PeopleSetting(key_prefix="BADGE-"))
    stage.work(18 * HOUR)
    tracked_people.save(stage.actor, PeopleSetting(key_prefix="BADGE-", is_in_api=True))
    stage.work(DAY)
    (_, hidden), (_, shown) = stage.files()
    assert [("Dock 1" in line) for line in hidden.splitlines() if "Ada" in line] == [False]
    assert [("Dock 1" in line) for line in shown.splitlines() if "Ada" in line] == [True]


def test_files_are_bounded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_filters, "MAX_BYTES", 200)
    for number in range(9):
        stage.add_asset(f"Pallet {number}")
    saved_filters.enqueue_due(stage.now + DAY, UTC)
    (content,) = execute("SELECT content FROM channel_file").fetchone()
    assert 100 < len(content) <= 200
    assert content.endswith(b"\n")
    for day in range(2, outbox.MOST_FILES + 5):
        saved_filters.enqueue_due(stage.now + day * DAY, UTC)
    assert execute("SELECT count(*) FROM channel_file").fetchone() == (outbox.MOST_FILES,)
    assert channels.get(stage.acme, stage.channel).lost == 4


def test_a_disabled_or_removed_channel_gets_nothing(stage: Stage) -> None:
    channels.disable(stage.actor, stage.channel)
    assert saved_filters.enqueue_due(stage.now + DAY, UTC) == 1
    channels.remove(stage.actor, stage.channel)
    assert saved_filters.enqueue_due(stage.now + 2 * DAY, UTC) == 0
    assert saved_filters.get(stage.acme, stage.no).channel_no is None
    assert execute("SELECT count(*) FROM message").fetchone() == (0,)


@pytest.mark.parametrize(
    ("after", "weekday", "expected"),
    [
        ("2026-03-02T05:59+01:00", None, "2026-03-02T06:00+01:00"),
        ("2026-03-02T06:00+01:00", None, "2026-03-03T06:00+01:00"),
        ("2026-03-02T06:00+01:00", 0, "2026-03-09T06:00+01:00"),
        ("2026-03-28T12:00+01:00", None, "2026-03-29T06:00+02:00"),
    ],
)
def test_lists_follow_the_local_clock(after: str, weekday: int | None, expected: str) -> None:
    micros = [clock.to_micros(datetime.fromisoformat(text)) for text in (after, expected)]
    assert saved_filters.next_time(micros[0], SIX, weekday, ZoneInfo("Europe/Berlin")) == micros[1]


def test_only_channels_for_email_of_the_organization_send_lists(stage: Stage, cast: Cast) -> None:
    ntfy = stage.add_channel("ntfy", 9)
    with pytest.raises(Invalid):
        saved_filters.send_by_mail(stage.actor, stage.no, ntfy, SIX, None, UTC)
    with pytest.raises(NotFound):
        saved_filters.send_by_mail(shell(cast.rival), stage.no, None, SIX, None, UTC)
    with pytest.raises(NotFound):
        saved_filters.remove(shell(cast.rival), stage.no)
    with pytest.raises(Conflict):
        saved_filters.save(stage.actor, "ALL OF IT", BoardFilter())
    assert saved_filters.list_filters(cast.rival) == []


def test_a_filter_is_read_as_it_was_saved(cast: Cast) -> None:
    saved = BoardFilter("cage", 7, 24, "-seen", retired=True, site_id=3, loan=LoanFilter.OVERDUE)
    no = saved_filters.save(shell(cast.acme), "x", saved)
    assert saved_filters.get(cast.acme, no).filter == saved
    assert loans.CONDITIONS[LoanFilter.OVERDUE]
