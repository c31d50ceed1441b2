"""Settings that an administrator changes at runtime."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from edge.audit import trail
from edge.audit.actors import shell
from edge.config import changed_settings
from edge.config.live import LiveSettings
from edge.config.settings import Config
from edge.people.people import Role
from tests.application import make_app
from tests.conftest import Cast
from tests.pages.conftest import Browser
from tests.pages.test_operations import alone

ZONE = "/status/settings/pages.time_zone"


@pytest.fixture
def live(cast: Cast, store: Path) -> LiveSettings:
    return LiveSettings.load(Config(data_dir=store, pages_time_zone="Europe/Berlin"))


@pytest.fixture
def app(live: LiveSettings) -> Flask:
    return make_app(settings=live)


@pytest.fixture
def admin(cast: Cast, sign_in_as: Callable[..., Browser]) -> Browser:
    alone(cast)
    return sign_in_as(Role.ADMINISTRATOR)


def test_a_change_takes_effect_immediately_and_names_its_author(admin: Browser, cast: Cast) -> None:
    assert 'data-zone="Europe/Berlin"' in admin.get("/status").text
    assert admin.post(ZONE, {"value": "America/Lima"}).status_code == 303
    assert 'data-zone="America/Lima"' in admin.get("/status").text
    assert "changed by administrator 1" in admin.get("/status").text
    assert "by administrator 1" in admin.get(ZONE).text
    line = trail.recent(cast.acme, 1)[0]
    assert (line.actor_label, line.action_label, line.changes) == (
        "administrator 1", "Setting changed", ["value: Europe/Berlin → America/Lima"],
    )  # fmt: skip


def test_a_setting_is_given_back_to_the_settings_file(admin: Browser, cast: Cast) -> None:
    admin.post(ZONE, {"value": "America/Lima"})
    assert "Europe/Berlin" in admin.get(ZONE).text
    admin.post(f"{ZONE}/reset")
    assert 'data-zone="Europe/Berlin"' in admin.get("/status").text
    assert trail.recent(cast.acme, 1)[0].action_label == "Setting reset"
    assert changed_settings.changed_settings() == {}


def test_an_invalid_value_is_refused_with_an_example(admin: Browser, live: LiveSettings) -> None:
    answer = admin.post("/status/settings/retention.history_days", {"value": "-1"})
    assert answer.status_code == 400
    assert "Write a whole number from 1 to 36500" in answer.text
    assert live.config.retention_history_days == 400


def test_settings_that_need_a_restart_are_marked(admin: Browser) -> None:
    path = "/status/settings/ingest.smoothing"
    assert "restart required" not in admin.get(path).text
    admin.post(path, {"value": "off"})
    assert "restart required" in admin.get(path).text
    assert "restart required" in admin.get("/status").text
    admin.post(f"{path}/reset")
    assert "restart required" not in admin.get("/status").text


@pytest.mark.parametrize("name", ["http.listen", "data_dir", "mqtt.client_id", "nonsense"])
def test_settings_that_could_lock_out_are_only_in_the_settings_file(admin: Browser, name: str) -> None:
    assert admin.get(f"/status/settings/{name}").status_code == 404
    assert admin.post(f"/status/settings/{name}", {"value": "x"}).status_code == 404
    assert admin.post(f"/status/settings/{name}/reset").status_code == 404


def test_on_a_shared_box_no_organization_changes_common_settings(sign_in_as: Callable[..., Browser]) -> None:
    assert sign_in_as(Role.ADMINISTRATOR).post(ZONE, {"value": "America/Lima"}).status_code == 403


def test_changes_by_another_process_are_applied_and_logged_once(live: LiveSettings) -> None:
    seen: list[Config] = []
    live.follow(seen.append)
    changed_settings.change_setting(shell(), "ingest.sighting_gap_seconds", "60", "300")
    live.refresh()
    live.refresh()
    assert [config.ingest_sighting_gap_seconds for config in seen] == [60]


def test_a_value_that_this_release_rejects_is_reported_and_ignored(
    store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    changed_settings.change_setting(shell(user="root"), "pages.session_hours", "9000", "12")
    changed_settings.change_setting(shell(user="root"), "http.listen", "0.0.0.0:1", "0.0.0.0:8080")
    assert LiveSettings.load(Config(data_dir=store)).config == Config(data_dir=store)
    assert "value '9000' of the setting pages.session_hours, saved by root" in caplog.text
    assert "http.listen" in caplog.text


def test_settings_are_explained_and_refused_in_the_language_of_the_person(admin: Browser) -> None:
    admin.send("/language", {"language": "de"})
    page = admin.post("/status/settings/retention.history_days", {"value": "<0>"})
    assert page.status_code == 400
    assert '<main id="main" lang="de"' in page.text
    assert "Erwartet: eine ganze Zahl von 1 bis 36500" in page.text
    assert "Tage, die Verlauf, Inventuren und Soll-Listen aufbewahrt werden" in page.text
    assert "Gilt sofort." in page.text
    admin.post(ZONE, {"value": "America/Lima"})
    assert re.search(r"Geändert <time [^>]*>[^<]*</time> von administrator 1\.", admin.get(ZONE).text)


def test_a_setting_has_a_title_that_people_understand(admin: Browser) -> None:
    page = admin.get("/status/settings/ingest.sighting_gap_seconds").text
    assert "<h1>A read after a gap of at least this many seconds starts a new row of history</h1>" in page
    assert '<span class="below mono">ingest.sighting_gap_seconds</span>' in page
    assert 'aria-label="Change days to keep alerts"' in admin.get("/status").text
