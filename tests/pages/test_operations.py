"""The status of the box, for administrators."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from flask import Flask

from edge import clock
from edge.config.live import LiveSettings
from edge.config.settings import Config
from edge.database.connection import execute
from edge.logs import HANDLER, KEPT, RecentLog
from edge.operations.health import Check, Health
from edge.people.people import Role
from edge.texts import fill
from edge.tracking import deletion
from tests.application import change, make_app
from tests.conftest import Cast
from tests.pages.conftest import Browser


def test_dropped_messages_are_shown(sign_in_as: Callable[..., Browser]) -> None:
    editor = sign_in_as(Role.EDITOR)
    assert "Dropped" not in editor.get("/status").text
    deletion.record_dropped("only 3 MB of disk space were free", {"history": 120, "dead_letters": 2})
    page = editor.get("/status").text
    assert "120 history, 2 dead letters" in page
    assert "only 3 MB of disk space were free" in page
    german = editor.get("/status", headers={"Accept-Language": "de"}).text
    assert "Verlauf: 120, unlesbare Nachrichten: 2" in german
    assert "nur 3 MB Speicherplatz waren frei" in german


def test_findings_are_in_the_language_of_the_person_and_escaped(app: Flask, sign_in_as: Callable[..., Browser]) -> None:
    health = Health()
    health.register(lambda: Check("ingest", False, fill("messages wait at the broker: %(problem)s", problem="<b>full")))
    health.register(lambda: Check("clock", False, "<i>of a plugin"), is_vital=False)
    change(app, health=health)
    page = sign_in_as(Role.EDITOR).get("/status", headers={"Accept-Language": "fr"}).text
    assert "2 problèmes" in page
    assert "<b>Enregistrement des lectures</b>" in page
    assert "les messages attendent au broker\xa0: &lt;b&gt;full" in page
    assert "&lt;i&gt;of a plugin" in page


BACKUP = b"what was recorded"


@pytest.fixture
def app(cast: Cast, tmp_path: Path) -> Flask:
    (tmp_path / "edge-20260302T081530Z.db.gz").write_bytes(BACKUP)
    return make_app(backup_dir=tmp_path)


def alone(cast: Cast) -> None:
    """The box of one organization."""
    execute("DELETE FROM audit WHERE organization_id = ?", (cast.rival,))
    execute("DELETE FROM organization WHERE id = ?", (cast.rival,))


def test_an_administrator_sees_backups_settings_and_the_log(sign_in_as: Callable[..., Browser], cast: Cast) -> None:
    alone(cast)
    HANDLER.handle(logging.LogRecord("edge", logging.WARNING, "", 0, "The <disk> is slow", None, None))
    text = sign_in_as(Role.ADMINISTRATOR).get("/status").text
    for expected in ("edge-20260302T081530Z.db.gz", "http.threads", "The &lt;disk&gt; is slow", "Running since"):
        assert expected in text
    assert "edge-20260302" not in sign_in_as(Role.EDITOR).get("/status").text


MANUAL = "http://localhost/manual/security#vulnerability-reports"


@pytest.mark.parametrize(
    ("settings", "lines", "shown"),
    [
        ({}, [f"Contact: {MANUAL}", f"Policy: {MANUAL}"], ["how the manual says", "not known"]),
        (
            {"security_contact": "mailto:safe@edge.example", "security_supported_until": "2029-12-31"},
            [
                "Contact: mailto:safe@edge.example",
                f"Policy: {MANUAL}",
                "# Security updates until 2029-12-31",
            ],
            ['<a href="mailto:safe@edge.example">safe@edge.example</a>', "<dd>2029-12-31</dd>"],
        ),
    ],
)
def test_whom_to_tell_about_vulnerabilities(
    app: Flask, sign_in_as: Callable[..., Browser], settings: dict[str, str], lines: list[str], shown: list[str]
) -> None:
    """RFC 9116: a contact, and when the file expires."""
    change(app, settings=LiveSettings.load(Config(**settings)))  # type: ignore[arg-type]
    answer = app.test_client().get("/.well-known/security.txt")
    assert answer.content_type == "text/plain; charset=utf-8"
    said = answer.text.splitlines()
    expires = next(line for line in said if line.startswith("Expires: "))
    at = datetime.fromisoformat(expires.removeprefix("Expires: "))
    assert timedelta(0) < at - datetime.fromtimestamp(clock.now() / clock.SECOND, UTC) < timedelta(days=365)
    assert [line for line in said if line != expires] == lines
    page = sign_in_as(Role.EDITOR).get("/status").text
    assert all(text in page for text in shown)


def test_the_headline_names_what_fails(app: Flask, sign_in_as: Callable[..., Browser]) -> None:
    health = Health()
    change(app, health=health)
    editor = sign_in_as(Role.EDITOR)
    assert "Not checked yet" in editor.get("/status").text
    health.register(lambda: Check("database", True, "writable"))
    assert "Everything works" in editor.get("/status").text
    health.register(lambda: Check("disk", False, "3 MB free"), is_vital=False)
    health.register(lambda: Check("broker", False, "no answer"))
    text = editor.get("/status").text
    headline = text[text.index("2 problems") : text.index("All checks")]
    assert headline.index("no answer") < headline.index("3 MB free")
    assert "Database" not in headline


def test_settings_are_grouped_and_changeable_ones_first(sign_in_as: Callable[..., Browser], cast: Cast) -> None:
    alone(cast)
    text = sign_in_as(Role.ADMINISTRATOR).get("/status").text
    group = text[text.index(">How long data is kept</h3>") :].split("</section>")[0]
    assert "retention.history_days" in group
    assert group.rindex(">Change</a>") < group.index("in the settings file")
    assert "http.threads" not in group


def test_a_backup_is_downloaded_and_that_is_in_the_audit(sign_in_as: Callable[..., Browser], cast: Cast) -> None:
    alone(cast)
    path = "/status/backups/edge-20260302T081530Z.db.gz"
    admin = sign_in_as(Role.ADMINISTRATOR)
    answer = admin.post(path)
    assert answer.data == BACKUP
    assert "attachment" in answer.headers["Content-Disposition"]
    answer.close()
    assert execute("SELECT action FROM audit ORDER BY no DESC LIMIT 1").fetchone() == ("backup.downloaded",)
    assert admin.post("/status/backups/..%2fedge.db").status_code == 404
    assert admin.post("/status/backups/edge.db").status_code == 404
    assert sign_in_as(Role.EDITOR).post(path).status_code == 403


def test_on_a_shared_box_no_organization_gets_common_data(sign_in_as: Callable[..., Browser]) -> None:
    admin = sign_in_as(Role.ADMINISTRATOR)
    assert "edge-20260302" not in admin.get("/status").text
    assert "Several organizations" in admin.get("/status").text
    assert admin.post("/status/backups/edge-20260302T081530Z.db.gz").status_code == 403


def test_the_log_keeps_the_last_hour_bounded() -> None:
    recent = RecentLog()
    for number in range(2 * KEPT):
        recent.handle(logging.LogRecord("edge", logging.INFO, "", 0, "line %d", (number,), None))
    lines = recent.lines()
    assert len(lines) == KEPT
    assert lines[0].text == f"line {2 * KEPT - 1}"


def test_no_secret_is_among_the_settings_that_are_shown(store: Path) -> None:
    shown = LiveSettings.load(Config(mqtt_client_id="kept-to-itself", data_dir=store)).states()
    assert "kept-to-itself" not in repr(shown)
    assert {setting.name for setting in shown} >= {"data_dir", "http.listen", "backup.dir"}
