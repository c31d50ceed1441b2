"""Settings of mosquitto on this box, sized by its memory."""

from __future__ import annotations

import re
from pathlib import Path

from edge.operations.root.https_settings import filled
from edge.operations.root.places import EDGE, UNITS, VENV
from edge.operations.root.programs import must, say

_MOSQUITTO = Path("/etc/mosquitto")
_LEAST, _MOST = 128_000_000, 1_000_000_000  # bytes


def memory_limit(meminfo: str) -> int:
    """Return a quarter of the memory in bytes, within limits, from the text of /proc/meminfo."""
    total = re.search(r"^MemTotal: *([0-9]+) kB", meminfo, re.MULTILINE)
    return min(max(int(total[1] if total else 0) * 1024 // 4, _LEAST), _MOST)


def settings(template: str, port: str, memory: int) -> str:
    """Return mosquitto's settings. A full queue stays below the limit, at which mosquitto refuses all clients."""
    return filled(
        template,
        mqtt_port=port,
        memory_limit=str(memory),
        queued_bytes=str(memory * 2 // 5),
        queued_messages=str(memory // 1000),
    )


def is_local(broker: str) -> bool:
    return bool(re.search(r"[@/](127\.0\.0\.1|localhost):", broker))


def configure(scripts: Path, broker: str) -> None:
    """Set mosquitto up for edge, unless edge uses another broker."""
    if not is_local(broker):
        say(f"{broker} is not on this box, so mosquitto on this box is not changed")
        return
    port = broker.rpartition(":")[2]
    memory = memory_limit(Path("/proc/meminfo").read_text("utf-8"))
    conf = settings((scripts / "mosquitto.conf").read_text("utf-8"), port, memory)
    (_MOSQUITTO / "conf.d/edge.conf").write_text(conf, "utf-8")
    drop_in = UNITS / "mosquitto.service.d"
    must("install", "-d", drop_in)
    must("install", "-m", "0644", scripts / "mosquitto-check.conf", drop_in / "edge.conf")
    for name in ("edge.passwd", "edge.acl"):
        if not (_MOSQUITTO / name).is_file():
            must("install", "-o", "mosquitto", "-g", "mosquitto", "-m", "0600", "/dev/null", _MOSQUITTO / name)
    must(EDGE, "accounts", is_quiet=True)
    must("systemctl", "daemon-reload")
    must("systemctl", "enable", "--quiet", "mosquitto")
    must(VENV / "systemd/edge-accounts")
    must("systemctl", "restart", "mosquitto")
    say(f"mosquitto on port {port}")
