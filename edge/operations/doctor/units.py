"""Checks of systemd units, of the announced network name, and of upgrades that did not finish."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from edge.errors import Unavailable
from edge.operations.doctor.findings import INSTALLER, Finding, Subject, ok, problem, some, warning
from edge.operations.doctor.https import https_port
from edge.operations.doctor.machine import Machine

MANY_RESTARTS = 3
RECENT_SECONDS = 24 * 3600
UPGRADE_SECONDS = 20 * 60

_PROPERTIES = "Id,LoadState,ActiveState,UnitFileState,Result,NRestarts,ControlGroup,MemoryHigh,ActiveEnterTimestamp"
_JOBS = ("edge-backup", "edge-drill", "edge-doctor", "edge-accounts", "edge-upgrade")
_WAITING = ("edge-backup.timer", "edge-drill.timer", "edge-doctor.timer", "edge-accounts.path")

_MISSING, _NOT_INSTALLED = "is missing", "is not installed: its package was removed"

Unit = dict[str, str]


def units(subject: Subject) -> Finding:
    """Check every service, timer and job of the site."""
    try:
        shown = _shown(subject, [*_running(subject), *_WAITING, *_jobs(subject)])
    except Unavailable as error:
        return problem(f"systemd does not respond: {error}", "systemctl --failed")
    faults = dict(_faults(subject, shown))
    if not faults:
        return ok(f"{len(shown)} units are ok")
    return problem("; ".join(f"{name} {fault}" for name, fault in faults.items()), _remedy(*next(iter(faults.items()))))


def _remedy(name: str, fault: str) -> str:
    if name == "edge-upgrade.service":  # nothing is left to start, and it may have failed long ago
        return (
            f"journalctl -u {name} -n 20 says when and why, and whether a release was rolled back; "
            f"then: systemctl reset-failed {name}"
        )
    if fault == _MISSING:
        return INSTALLER
    if fault == _NOT_INSTALLED:
        package = name.partition(".")[0]
        return f"apt-get install {package}; systemctl unmask {name}; systemctl enable --now {name}"
    return (
        f"systemctl reset-failed {name}; systemctl unmask {name}; systemctl enable --now {name}; "
        f"if it fails: journalctl -u {name} -n 20"
    )


def restarts(subject: Subject) -> Finding:
    """Check for a service that failed repeatedly, the last time within a day, or is about to reach its memory limit.

    The page cache does not count: the kernel takes it back before it slows the service down.
    """
    try:
        shown = _shown(subject, [name for name in _running(subject) if not name.startswith("avahi")])
    except Unavailable:
        return ok("systemd does not respond")
    for name, unit in shown.items():
        is_recent = time.time() - _number(unit, "ActiveEnterTimestamp") < RECENT_SECONDS
        if _number(unit, "NRestarts") >= MANY_RESTARTS and is_recent:
            return warning(f"{name} failed and was restarted {unit['NRestarts']} times", f"journalctl -u {name} -n 100")
        high, current = _number(unit, "MemoryHigh"), _memory_without_cache(subject, unit)
        if high and current > high * 9 // 10:
            return warning(
                f"{name} uses {current >> 20} MB and is throttled at {high >> 20} MB",
                f"systemctl restart {name}; if it happens again, send a support bundle: edge doctor --bundle FILE",
            )
    return ok("no service fails repeatedly")


def settings_in_force(subject: Subject) -> Finding:
    """Check whether the settings file was changed after the service read it."""
    if not subject.machine.settings.is_file():
        return ok("no installed settings file")
    try:
        unit = _shown(subject, ["edge.service"])["edge.service"]
    except (Unavailable, KeyError):
        return ok("systemd does not respond")
    began = unit.get("ActiveEnterTimestamp", "").removeprefix("@")
    if began.isdigit() and subject.machine.settings.stat().st_mtime > int(began) + 1:
        return warning(
            f"{subject.machine.settings} was changed, but the service still uses the previous settings",
            "check with edge config, then: systemctl restart edge",
        )
    return ok("the service uses the current settings file")


def name_in_network(subject: Subject) -> Finding:
    """Ask avahi whether the box is announced by its name with .local."""
    folder = subject.machine.avahi
    if not folder.is_dir():
        return ok("not announced in the network; use the address")
    if not (folder / "services" / "edge.service").is_file():
        return warning("the box is not announced in the network", "sudo edge-mdns on")
    name = subject.machine.network_name()
    try:
        answer = subject.machine.run(_ASK_AVAHI).partition('"')[2].rstrip('"\n')
    except Unavailable:
        return warning(f"avahi does not respond, so devices cannot resolve {name or 'the box'}.local", _RESTART_AVAHI)
    if name and answer != f"{name}.local":
        return warning(
            f"the box is {answer} in the network: another box is {name}.local and receives its requests",
            "give this box another name: sudo edge-mdns name NAME",
        )
    return ok(f"the box is {answer} in the network")


_ASK_AVAHI = (
    *("busctl", "--system", "--timeout=5", "call", "org.freedesktop.Avahi", "/"),
    *("org.freedesktop.Avahi.Server", "GetHostNameFqdn"),
)
_RESTART_AVAHI = "systemctl restart avahi-daemon; systemctl status avahi-daemon"


def _is_upgrading(machine: Machine) -> bool:
    """Return whether an upgrade holds its lock. The service's user may neither open the lock nor see processes."""
    try:
        lock = machine.upgrade_lock.stat()
    except FileNotFoundError:
        return False
    name = f"{os.major(lock.st_dev):02x}:{os.minor(lock.st_dev):02x}:{lock.st_ino}"
    return name in Path("/proc/locks").read_text("ascii").split()


def upgrade(subject: Subject) -> Finding:
    """Check for an interrupted upgrade: it leaves a file, or only a release that nothing uses.

    With the file, the box rolls back at its next start.
    """
    program = subject.machine.program
    try:
        seconds = time.time() - (program / "upgrade").stat().st_mtime
    except FileNotFoundError:
        if unused := list(_unused_releases(program)):
            return warning(
                f"a killed upgrade left {some(unused)} in {program / 'releases'}",
                "systemctl start edge-upgrade removes it",
            )
        return ok("no upgrade is running")
    if seconds < UPGRADE_SECONDS and _is_upgrading(subject.machine):
        return ok("an upgrade is running")
    since = f"{seconds / 3600:.1f} hours" if seconds > 3600 else f"{seconds / 60:.0f} minutes"
    return problem(
        f"an upgrade started {since} ago and did not finish",
        "systemctl start edge-upgrade, which restores the previous release; then upgrade again",
    )


def _unused_releases(program: Path) -> Iterator[str]:
    """Yield the releases of upgrades that were killed before the switch. An upgrade may still build a young one."""
    used = {(program / "venv").resolve().name}
    for note in (program / "probation", program / "previous"):
        if note.is_file():
            used.add(note.read_text("utf-8").partition("OLD=")[2].partition("\n")[0].rpartition("/")[2])
    for release in sorted((program / "releases").glob("*")):
        if release.name not in used and time.time() - release.stat().st_mtime > UPGRADE_SECONDS:
            yield release.name


def _shown(subject: Subject, names: list[str]) -> dict[str, Unit]:
    text = subject.machine.run(["systemctl", "show", "--timestamp=unix", f"--property={_PROPERTIES}", *names])
    blocks = [dict(line.partition("=")[::2] for line in block.splitlines()) for block in text.split("\n\n")]
    return {block["Id"]: block for block in blocks if "Id" in block}


def _running(subject: Subject) -> Iterator[str]:
    yield "edge.service"
    if (subject.machine.mosquitto / "conf.d" / "edge.conf").is_file():
        yield "mosquitto.service"
    if https_port(subject):
        yield from ("caddy.service", "edge-https.timer")
    if (subject.machine.avahi / "services" / "edge.service").is_file():
        yield "avahi-daemon.service"


def _jobs(subject: Subject) -> Iterator[str]:
    yield from (f"{name}.service" for name in _JOBS)
    if https_port(subject):
        yield "edge-https.service"


def _faults(subject: Subject, shown: dict[str, Unit]) -> Iterator[tuple[str, str]]:
    jobs = set(_jobs(subject))
    for name, unit in shown.items():
        if unit.get("LoadState") == "masked":  # Debian masks the units of a package when it removes it
            is_installed = name.startswith("edge") or (subject.machine.packaged_units / name).is_file()
            yield name, "is masked" if is_installed else _NOT_INSTALLED
        elif unit.get("LoadState") == "not-found" and not name.startswith("edge"):
            yield name, _NOT_INSTALLED
        elif unit.get("LoadState") != "loaded":
            yield name, _MISSING
        elif unit.get("ActiveState") == "failed" or (name in jobs and unit.get("Result") not in ("success", None)):
            yield name, f"has failed ({unit.get('Result')})"
        elif name in jobs:
            continue
        elif unit.get("ActiveState") not in ("active", "activating", "reloading"):
            yield name, "is not running"
        elif unit.get("UnitFileState") == "disabled":
            yield name, "does not start at boot"


def _memory_without_cache(subject: Subject, unit: Unit) -> int:
    """Return the memory of a unit's processes in bytes, or 0 if it is unknown."""
    group = unit.get("ControlGroup", "").lstrip("/")
    if not group:  # not running
        return 0
    for folder, name in (("", "anon"), ("memory", "total_rss")):  # version 2 and 1 of control groups
        try:
            text = (subject.machine.control_groups / folder / group / "memory.stat").read_text("ascii")
        except OSError:
            continue
        values = dict(line.split(" ", 1) for line in text.splitlines())
        return int(values.get(name, 0))
    return 0


def _number(unit: Unit, name: str) -> int:
    """Return a property as a number, or 0 if systemd does not know it or does not limit it."""
    value = unit.get(name, "").removeprefix("@")
    return int(value) if value.isdigit() and len(value) < 16 else 0
