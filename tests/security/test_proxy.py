"""The limits of the reverse proxy equal those of the server."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from edge.server import connections, server

CADDYFILE = (Path(__file__).parents[2] / "systemd" / "Caddyfile").read_text("utf-8")


def bound(name: str) -> str:
    match = re.search(rf"^\s*{name} (\S+)$", CADDYFILE, re.M)
    assert match, f"the Caddyfile has no {name}"
    return match[1]


def test_the_limits_of_the_proxy_are_those_of_the_server() -> None:
    assert bound("max_size") == f"{server.MAX_READ // 2**20}MiB"
    assert bound("max_header_size") == f"{server.MAX_HEADERS // 1024}KB"
    assert bound("read_header") == f"{connections.HEAD_SECONDS:.0f}s"
    assert bound("idle") == f"{connections.IDLE_SECONDS / 60:.0f}m"
    assert bound("read_body") == "2m"


def test_the_command_of_the_manual_makes_hsts_last_a_year() -> None:
    manual = (Path(__file__).parents[2] / "web" / "manual" / "installation.md").read_text("utf-8")
    command = re.search(r"sudo (sed -i 's/.*) /etc/caddy/Caddyfile", manual)
    assert command
    edit = shlex.split(command[1].replace(" -i", ""))
    changed = subprocess.run(edit, input=CADDYFILE, capture_output=True, text=True, check=True).stdout
    assert re.findall("@named .*max-age=([0-9]+)", changed) == [str(365 * 24 * 3600)]


def test_only_a_page_and_the_way_to_https_are_served_without_encryption() -> None:
    plain = CADDYFILE.partition("http://:@REDIRECT_PORT@")[2]
    assert re.findall(r"handle (/\S+) \{\s+reverse_proxy", plain) == [
        "/certificate*",
        "/static/*",
        "/scan/left",
    ]
    assert re.search(r"redir https://\{host\}@SUFFIX@\{uri\} 307$", plain, re.M), "no browser keeps it for good"
    assert "admin off" in CADDYFILE
    assert "reverse_proxy 127.0.0.1:" in CADDYFILE
