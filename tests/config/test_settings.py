"""Settings: one table, four sources, and nothing misspelt gets by."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from edge.config.settings import Config, load
from edge.errors import SetupError


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "edge.toml"
    file.write_text(text, "utf-8")
    return file


def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(tmp_path: Path) -> None:
    file = write(tmp_path, '[http]\nlisten = "1.1.1.1:1"\nthreads = 3\n[rate]\nburst = 7\n')
    environment = {"EDGE_HTTP_LISTEN": "2.2.2.2:2", "EDGE_HTTP_THREADS": "5", "PATH": "/bin"}
    config, shown = load(file, environment, ["http.listen=3.3.3.3:3"])
    assert (config.http_listen, config.http_threads, config.rate_burst) == ("3.3.3.3:3", 5, 7)
    sources = {value.name: value.source for value in shown}
    assert sources["http.listen"] == "flag"
    assert sources["http.threads"] == "environment"
    assert sources["rate.burst"] == f"file {file}"
    assert sources["rate.per_second"] == "default"


def test_every_setting_is_shown_with_its_help() -> None:
    _, shown = load(None, {})
    assert len(shown) == len(fields(Config))
    assert all(value.help for value in shown)


@pytest.mark.parametrize("name", ["http.port", "mqtt", "nonsense"])
def test_an_unknown_setting_is_refused_by_name(name: str, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=f"^{name} "):
        load(None, {}, [f"{name}=1"])


def test_an_unknown_key_in_the_file_or_the_environment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"http\.prot"):
        load(write(tmp_path, "[http]\nprot = 1\n"), {})
    with pytest.raises(SetupError, match="EDGE_HTTP_PROT"):
        load(None, {"EDGE_HTTP_PROT": "1"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("http.listen", "8080"),
        ("http.listen", "0.0.0.0:70000"),
        ("http.threads", "0"),
        ("http.threads", "many"),
        ("http.threads", "1.5"),
        ("environment", "staging"),
        ("mqtt.broker", "localhost"),
        ("mqtt.broker", "http://localhost"),
        ("mqtt.broker", "mqtt://host:99999"),
        ("mqtt.broker", "mqtt://user:secret@host"),
        ("ingest.sighting_gap_seconds", "-1"),
        ("pages.pin_required", "yes"),
        ("security.contact", "javascript:alert(1)"),
        ("security.contact", "https://edge.example/\nExpires: never"),
        ("security.supported_until", "2029"),
    ],
)
def test_a_bad_value_is_refused_with_its_name_and_what_to_write(name: str, value: str) -> None:
    with pytest.raises(SetupError, match=rf"^{name} \(flag\) is .* Write "):
        load(None, {}, [f"{name}={value}"])


def test_a_password_in_an_address_is_refused_without_being_shown() -> None:
    with pytest.raises(SetupError, match=r"mqtt\.password_file") as refused:
        load(None, {}, ["mqtt.broker=mqtt://user:secret@host"])
    assert "secret" not in str(refused.value)


def test_a_boolean_in_the_file_is_not_a_number(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"http\.threads"):
        load(write(tmp_path, "[http]\nthreads = true\n"), {})


def test_an_unreadable_or_broken_file_is_refused_with_the_line(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="cannot be read"):
        load(tmp_path / "missing.toml", {})
    with pytest.raises(SetupError, match=r"not valid TOML: .*line 2"):
        load(write(tmp_path, "# fine\nhttp = \n"), {})
    (tmp_path / "edge.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SetupError, match="Save it as UTF-8"):
        load(tmp_path / "edge.toml", {})


def test_contact_and_period_of_security_updates(tmp_path: Path) -> None:
    for written, contact in (
        ("safe@edge.example", "mailto:safe@edge.example"),
        ("tel:+49-30-1", "tel:+49-30-1"),
        ("", ""),
    ):
        config, _ = load(write(tmp_path, f'[security]\ncontact = "{written}"\nsupported_until = 2029-12-31\n'), {})
        assert (config.security_contact, config.security_supported_until) == (contact, "2029-12-31")


def test_a_flag_without_a_value_is_refused() -> None:
    with pytest.raises(SetupError, match="write --set NAME=VALUE"):
        load(None, {}, ["http.threads"])


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("[http]\nthreads = [1]", "whole number"),
        ("[ingest]\nqueue = {}", "whole number"),
        ("[http]\nthreads = 2026-01-01", "whole number"),
        ("[http]\npublic_url = 'http://['", "an address like"),
        ("[http]\npublic_url = 'http://box:99999'", "an address like"),
        ("[mqtt]\nbroker = 'mqtt://['", '"embedded", or an address'),
        ("[pages]\ntime_zone = false", "a text"),
        ("data_dir = '~nobody-of-that-name/data'", "a path"),
    ],
)
def test_an_odd_value_is_refused_with_what_to_write(tmp_path: Path, written: str, told: str) -> None:
    with pytest.raises(SetupError, match=f"Write .*{told}"):
        load(write(tmp_path, written), {})
