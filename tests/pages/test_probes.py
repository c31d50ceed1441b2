import json
import re
from hashlib import sha256
from pathlib import Path

import pytest
from flask import Flask
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from edge import metrics
from edge.audit.actors import shell
from edge.operations import metrics as stats
from edge.operations.backup import Rotation, make_backup
from edge.operations.health import Check, Health
from edge.people.organizations import list_organizations
from edge.readers.readers import add_reader
from tests.application import make_app
from tests.operations.conftest import site

__all__ = ["site"]


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
def app(site: Path, health: Health) -> Flask:
    return make_app(version="1.0", http_authority_file=site / "authority.crt", health=health)


def test_liveness_and_readiness_differ(app: Flask, health: Health) -> None:
    client = app.test_client()
    assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
    health.register(lambda: Check("broker", False, "away"), is_vital=False)
    assert client.get("/healthz").status_code == 200
    ready = client.get("/readyz")
    assert ready.status_code == 503
    assert ready.json == {
        "status": "failing",
        "version": "1.0",
        "checks": [{"name": "broker", "ok": False, "vital": False, "detail": "away"}],
    }
    health.register(lambda: Check("writer", False, "stuck"))
    assert client.get("/healthz").status_code == 503


def test_liveness_depends_on_vital_parts_only(app: Flask, health: Health) -> None:
    """Next to slow requests, each further check takes time."""
    asked: list[str] = []
    health.register(lambda: asked.append("writer") or Check("writer", True, "goes on"))  # type: ignore[func-returns-value]
    health.register(lambda: asked.append("disk") or Check("disk", True, "free"), is_vital=False)  # type: ignore[func-returns-value]
    answer = app.test_client().get("/healthz").json
    assert answer
    assert asked == [check["name"] for check in answer["checks"]] == ["writer"]


def test_prometheus_reads_the_metrics(app: Flask, site: Path) -> None:
    add_reader(shell(list_organizations()[0].id), name='Dock "1"', topic="a", format="edge")
    make_backup(site, site / "backups", Rotation(1, 1))
    client = app.test_client()
    client.get("/healthz")
    metrics.count(metrics.messages, {(1, "recorded"): 3})
    with metrics.sampling(lambda: stats.sample(site, site / "backups", lambda: {"queued_messages": 7})):
        text = client.get("/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["edge_ingest_queued_messages"].samples[0].value == 7
    assert families["edge_database_bytes"].samples[0].value > 0
    assert families["edge_backup_timestamp_seconds"].samples[0].value > 1_600_000_000
    assert families["edge_reader_info"].samples[0].labels["name"] == 'Dock "1"'
    assert "/healthz" in {sample.labels["route"] for sample in families["edge_http_request_seconds"].samples}
    counted = {sample.labels["bucket"] for sample in families["edge_ingest_messages"].samples}
    assert "recorded" in counted  # other tests of this process may have increased the counters


def test_metrics_are_for_the_box_itself(app: Flask) -> None:
    away = app.test_client().get("/metrics", environ_base={"REMOTE_ADDR": "192.168.1.20"})
    assert away.status_code == 403


@pytest.mark.parametrize("address", ["unknown", "", "::1%x%y", "127.0.0.1, 192.168.1.20"])
def test_metrics_are_not_for_an_address_that_is_none(app: Flask, address: str) -> None:
    assert app.test_client().get("/metrics", environ_base={"REMOTE_ADDR": address}).status_code == 403


def test_unknown_addresses_create_no_series(app: Flask) -> None:
    client = app.test_client()
    client.get("/made/up/by/a/scanner")
    assert "made/up" not in client.get("/metrics").text


def test_the_certificate_is_there_for_everybody_once_https_is_on(app: Flask, site: Path) -> None:
    client = app.test_client()
    assert "edge-https on" in client.get("/certificate").text
    assert client.get("/certificate/edge-authority.crt").status_code == 404
    pem = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"
    (site / "authority.crt").write_text(pem)
    page = client.get("/certificate").text
    assert all(word in page for word in ("Android", "iPhone", "Windows"))
    fingerprint = sha256(b"0\0").hexdigest().upper()
    assert ":".join(re.findall("..", fingerprint)) in page
    answer = client.get("/certificate/edge-authority.crt")
    assert "https://[fd00::1]/" in client.get("/certificate", base_url="http://[fd00::1]:8080").text
    assert answer.text == pem
    assert answer.mimetype == "application/x-x509-ca-cert"


def test_the_dashboard_uses_existing_metrics_only(app: Flask, site: Path) -> None:
    make_backup(site, site / "backups", Rotation(1, 1))
    dashboard = json.loads((Path(__file__).parents[2] / "systemd" / "grafana-dashboard.json").read_text())
    state = dict.fromkeys(("queued_messages", "messages_in_hand"), 0.0)
    client = app.test_client()
    client.get("/healthz")
    with metrics.sampling(lambda: stats.sample(site, site / "backups", lambda: state)):
        text = client.get("/metrics").text
    known = {name for family in text_string_to_metric_families(text) for name in _names(family)}
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            asked = set(re.findall(r"\b(?:edge|process)_\w+", target["expr"]))
            assert asked
            assert asked <= known


def _names(family: Metric) -> set[str]:
    """Return all families, also without samples: the readers are unknown before the first message."""
    kinds = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("_total",)}
    return {family.name, *(family.name + ending for ending in kinds.get(family.type, ()))}


def test_a_fault_of_other_devices_is_listed_but_the_service_is_ready(app: Flask, health: Health) -> None:
    """A stranger with a wrong password must not cause the rollback of an upgrade, which asks /readyz."""
    health.register(lambda: Check("sign_ins", False, "refused", is_outside=True), is_vital=False)
    ready = app.test_client().get("/readyz")
    assert ready.json
    assert (ready.status_code, ready.json["status"]) == (200, "ok")
    assert [check["ok"] for check in ready.json["checks"]] == [False]
