"""Endpoints for monitoring: /healthz, /readyz and /metrics.

The status is public. Details require an address in `http.metrics_from`.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

from flask import Blueprint, Response, abort, jsonify, request

from edge import metrics
from edge.operations.health import Check, Health
from edge.services import services

probes = Blueprint("probes", __name__)


@probes.get("/healthz")
def is_alive() -> tuple[Response, int]:
    """Answer 503 if a failure requires a restart.

    Other checks are skipped. Each access to database or disk waits for the interpreter lock again, which takes more
    than a second in total next to eight slow requests.
    """
    return _answer(_health().checks(is_vital_only=True))


@probes.get("/readyz")
def is_ready() -> tuple[Response, int]:
    """Answer 503 if any check fails, including an unreachable broker."""
    return _answer(_health().checks())


@probes.get("/metrics")
def show_metrics() -> Response:
    """Return the metrics. Restricted, because they name readers of all organizations."""
    if not _may_know_more():
        abort(403, "Allow this address in the setting http.metrics_from.")
    return Response(metrics.exposition(), content_type=metrics.CONTENT_TYPE)


def _may_know_more() -> bool:
    return any(_is_in(network) for network in services().config.http_metrics_from)


def _is_in(network: str) -> bool:
    try:
        return ip_address(request.remote_addr or "") in ip_network(network)
    except ValueError:  # a proxy may send any name for its client
        return False


def _health() -> Health:
    return services().health


def _answer(checks: list[tuple[Check, bool]]) -> tuple[Response, int]:
    ok = all(check.ok or check.is_outside for check, _ in checks)
    content: dict[str, Any] = {"status": "ok" if ok else "failing"}
    if _may_know_more():
        content["version"] = services().version
        content["checks"] = [
            {"name": check.name, "ok": check.ok, "vital": is_vital, "detail": check.detail}
            for check, is_vital in checks
        ]
    response = jsonify(content)
    response.headers["Cache-Control"] = "no-store"
    return response, 200 if ok else 503
