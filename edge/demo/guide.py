"""Text that the demo prints: addresses, sign-in, and commands to copy."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote

from edge.demo.run import HOST, USUAL_HTTP_PORT, USUAL_MQTT_PORT, Demo
from edge.records import assets
from edge.records.assets import AssetRow
from edge.records.record import RecordFilter
from edge.validation import json_text

MOVES = "FORK-001"  # a forklift moves most
STANDS_STILL = "MESH-001"  # the simulation does not move it, so a message published by hand has a lasting effect
BY_HAND = "demo/by-hand/reads"


def guide(demo: Demo) -> str:
    """Return the text to print while the demo runs."""
    moving, still = _find(demo, MOVES), _find(demo, STANDS_STILL)
    return "\n\n".join(part for part in (_welcome(demo), _api(demo, moving), _by_hand(demo, still), _end(demo)) if part)


def token_command(demo: Demo) -> str:
    """Return a shell command that sets TOKEN."""
    body = {
        "grant_type": "client_credentials",
        "client_id": demo.access.client_id,
        "client_secret": demo.access.client_secret,
    }
    asked = f"curl -sS -A demo -H 'Content-Type: application/json' -d {quote(json_text.text(body))}"
    picked = """sed 's/.*"access_token":"\\([^"]*\\)".*/\\1/'"""
    return f"TOKEN=$({asked} {demo.address}/api/v1/oauth/token | {picked})"


def get_command(demo: Demo, path: str) -> str:
    return f'curl -sS -A demo -w "\\n" -H "Authorization: Bearer $TOKEN" {quote(demo.address + path)}'


def publish_command(demo: Demo, message: str) -> str:
    """Return a command that publishes a message to the broker of the demo."""
    edge = Path(sys.executable).with_name("edge")
    return f"{quote(str(edge))} demo publish --port {demo.mqtt_port} {BY_HAND} {quote(message)}"


def _welcome(demo: Demo) -> str:
    count = sum(item.key is not None for item in demo.plan.items)
    return (
        f"The demo site is running: {len(demo.plan.simulated)} simulated readers report how {count} assets move. "
        "The last 30 minutes are already recorded.\n\n"
        f"  Pages       {demo.address}{_not(USUAL_HTTP_PORT, demo)}\n"
        f"  Sign in as  {demo.access.email}\n"
        f"  Password    {demo.access.password}\n"
        f"  MQTT        {HOST}:{demo.mqtt_port}{_not(USUAL_MQTT_PORT, demo)}"
    )


def _not(usual: int, demo: Demo) -> str:
    return f"  (port {usual} is taken)" if usual in demo.taken else ""


def _api(demo: Demo, asset: AssetRow | None) -> str:
    commands = [token_command(demo), get_command(demo, "/api/v1/reports/asset-locations?limit=5")]
    if asset:
        commands.append(get_command(demo, f"/api/v1/assets/{asset.id}/history?limit=5"))
    return "Call the API (a token is valid for 15 minutes):\n\n" + "\n".join(f"  {command}" for command in commands)


def _by_hand(demo: Demo, asset: AssetRow | None) -> str:
    epc = next((tag.value for tag in asset.tags if tag.tag_type == "rfid"), None) if asset else None
    if asset is None or epc is None:
        return ""
    message = json_text.text({"tag": epc})
    return (
        f"Publish a read yourself: this moves {asset.name} to the returns desk.\n\n"
        f"  {publish_command(demo, message)}\n\n"
        f"See it at {demo.address}/assets/{asset.id}"
    )


def _end(demo: Demo) -> str:
    if demo.kept_in:
        return f"Ctrl-C stops it. The site is kept in {demo.kept_in}"
    return "Ctrl-C stops the demo and deletes its data."


def _find(demo: Demo, key: str) -> AssetRow | None:
    """Return the asset, or None if somebody has removed it from a kept site."""
    rows = assets.list_page(demo.access.organization_id, RecordFilter(external_keys=[key]), limit=1).rows
    return rows[0] if rows else None
