"""What the pages know of the installation: one value, put into the application when it is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

from flask import Flask, current_app

if TYPE_CHECKING:
    from edge.limits import ConcurrencyLimit
    from edge.operations.health import Health
    from edge.pages.box_facts import BoxFacts
    from edge.pages.broker_facts import BrokerFacts
    from edge.pages.formats import Formats
    from edge.pages.static_files import Files


class Installation(NamedTuple):
    """The settings that pages depend on, and what the runtime passes to them."""

    environment: str
    version: str
    session_hours: int
    pin_required: bool
    public_url: str  # without the slash at its end; empty where none is set
    own_address: str | None  # by which other devices reach this box; None where they do not
    zone: ZoneInfo  # of the times on the pages
    sighting_gap: int  # microseconds, see `tracking.positions.record`
    metrics_from: tuple[str, ...]  # networks
    authority_file: Path | None  # the certificate of the authority behind HTTPS
    formats: Formats
    broker: BrokerFacts
    health: Health
    box: BoxFacts
    concurrency: ConcurrencyLimit
    files: Files
    api_document: Callable[[], dict[str, Any]]


def change(app: Flask, **values: Any) -> None:
    """From the next request on."""
    changed = app.extensions["installation"]._replace(**values)
    app.extensions["installation"] = app.jinja_env.globals["site"] = changed


def installation() -> Installation:
    found: Installation = current_app.extensions["installation"]
    return found
