"""Checks of the computer: disk, memory, clock, permissions, and whether the service runs and answers."""

from __future__ import annotations

import errno
import json
import os
import shutil
import statistics
import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from urllib.parse import urlsplit

from edge import __version__, clock
from edge.database.connection import FILE_NAME
from edge.operations.counted_time import CountedTime
from edge.operations.doctor.findings import Finding, Subject, ok, problem, some, warning
from edge.operations.doctor.https import ask_as, is_listening, trusting
from edge.operations.files import is_held
from edge.operations.own_address import local_address, own_address
from edge.operations.root.places import made_at
from edge.operations.upgrade.pending_upgrade import is_cut_off
from edge.rate_limits import is_loopback
from edge.tracking import report

LEAST_MEMORY_MB = 150
LEAP_DAYS = 4
FEWEST_FILES = 1000
FLUSHES = 20
SLOW_WRITE = 2.0  # seconds
FAST_FLUSH, SLOW_FLUSH = 0.003, 0.1  # seconds
ANSWER_SECONDS = 10.0
MAX_ANSWER = 1024 * 1024  # bytes
_ELSEWHERE = {  # checks of the service that the doctor makes, too, with a remedy
    *("broker", "channels", "clock", "continuous_backup", "disk", "events", "history", "outputs", "sync", "upstream"),
    "warnings",
}
TIME_TRACES = (
    *("/run/systemd/timesync/synchronized", "/run/chrony/chronyd.pid", "/run/ntpd.pid", "/run/ntpsec/ntpd.pid"),
)
PROGRAM_YEAR = 2026  # a clock before that has not been set


def permissions(subject: Subject) -> Finding:
    database = subject.data_dir / FILE_NAME
    modes = {path.name: path.stat().st_mode for path in (subject.data_dir, database)}
    if os.statvfs(subject.data_dir).f_flag & os.ST_RDONLY:
        return problem(
            f"the disk with {subject.data_dir} is read-only",
            "dmesg | tail says why; if the disk is well: mount -o remount,rw "
            f'"$(findmnt -no TARGET -T {subject.data_dir})", else replace it and restore a backup',
        )
    if not os.access(subject.data_dir, os.W_OK) or not os.access(database, os.W_OK):
        return problem(f"{database} cannot be written by this user", f"chown -R edge:edge {subject.data_dir}")
    if others := [name for name, mode in modes.items() if mode & 0o007]:
        return warning(
            f"other users of this box can read {', '.join(others)}", f"chmod o-rwx {subject.data_dir} {database}"
        )
    return ok(f"{subject.data_dir} is private to the service")


def disk(subject: Subject) -> Finding:
    free = shutil.disk_usage(subject.data_dir).free
    text = f"{free >> 20} MB free on the database disk"
    if free < (subject.config.retention_low_disk_mb << 20):
        return problem(
            f"{text}: the oldest history is being deleted",
            "free disk space or use a larger disk; see: "
            f'du -xh "$(findmnt -no TARGET -T {subject.data_dir})" | sort -h',
        )
    if free < 2 * (subject.config.retention_low_disk_mb << 20):
        low = subject.config.retention_low_disk_mb
        return warning(
            text,
            f"below {low} MB the oldest history is deleted: free space, or use a larger disk (in the "
            "manual: Installation, Another disk)",
        )
    return ok(text)


def inodes(subject: Subject) -> Finding:
    """Check for free inodes: a file system with free space may still be unable to hold more files."""
    state = os.statvfs(subject.data_dir)
    if not state.f_files:
        return ok("this file system has no file limit")
    text = f"room for {state.f_favail} more files on the database disk"
    advice = f"find / -xdev -type d -size +1M lists folders with many files; df -i {subject.data_dir}"
    if state.f_favail < FEWEST_FILES:
        return problem(text, advice)
    if state.f_favail < state.f_files // 20:
        return warning(text, advice)
    return ok(text)


def disk_errors(subject: Subject) -> Finding:
    """Check that the disk accepts writes, how fast, and whether its file system has recorded errors."""
    advice = "the disk is failing: make a backup on another disk now (edge backup), see dmesg, replace the disk"
    try:
        median, slowest = _seconds_to_write(subject.data_dir)
    except (PermissionError, FileNotFoundError):
        raise  # the disk is not mounted, or the folder belongs to somebody else
    except OSError as error:
        if error.errno == errno.EROFS:
            return problem(
                f"{subject.data_dir} cannot be written: {error.strerror}",
                f"dmesg | tail says why; systemctl stop edge; then unmount {subject.data_dir}'s disk, check it with "
                "fsck -p, mount it again, and systemctl start edge",
            )
        if error.errno == errno.ENOSPC:
            return problem(f"{subject.data_dir} cannot be written: {error.strerror}", "free disk space: df -h; df -i")
        return problem(f"{subject.data_dir} cannot be written: {error.strerror}", advice)
    count = _recorded_errors(subject)
    if count:
        return problem(f"the file system has recorded {count} errors", advice)
    text = f"the disk flushes 4 KB in {median * 1000:.1f} ms (median of {FLUSHES}, slowest {slowest * 1000:.0f} ms)"
    if slowest > SLOW_WRITE or median > SLOW_FLUSH:
        return warning(f"{text}, so each save takes that long", "find the cause: dmesg; ps aux. Or use an SSD")
    return ok(f"{text}, {'as an SSD' if median < FAST_FLUSH else 'as an SD card or hard disk'}; no errors recorded")


def _seconds_to_write(folder: Path) -> tuple[float, float]:
    """Return the median and the longest time of some flushes, as each commit of the database needs one."""
    seconds: list[float] = []
    with TemporaryFile(dir=folder) as file:
        while len(seconds) < FLUSHES and sum(seconds) < 2 * SLOW_WRITE:
            began = time.monotonic()
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            seconds.append(time.monotonic() - began)
    return statistics.median(seconds), max(seconds)


def _recorded_errors(subject: Subject) -> int:
    """Return the error count of ext4, or 0 if it is unknown."""
    device = subject.data_dir.stat().st_dev
    name = (subject.machine.devices / f"{os.major(device)}:{os.minor(device)}").resolve().name
    try:
        return int((subject.machine.file_systems / name / "errors_count").read_text("ascii"))
    except (OSError, ValueError):
        return 0


def memory(_: Subject) -> Finding:
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    free = int(lines["MemAvailable"].split()[0]) >> 10
    if free < LEAST_MEMORY_MB:
        return warning(f"only {free} MB of memory are free", "find the largest processes: ps aux --sort -rss | head")
    return ok(f"{free} MB of memory free")


def clock_correct(subject: Subject) -> Finding:
    now, newest = clock.now(), report.newest_scan() or None
    advice = "set the clock (timedatectl set-time) and keep it synchronized: timedatectl set-ntp true"
    if clock.to_datetime(now).year < PROGRAM_YEAR:
        return problem(f"this box's clock shows {clock.rfc3339(now)}", advice)
    if newest is not None and newest > now + clock.SECOND * 60:
        if clock.is_vouched(subject.data_dir, newest):
            return ok(
                f"{clock.rfc3339(now)}, confirmed; scans until {clock.rfc3339(newest)} are of a clock that was ahead"
            )
        return problem(
            f"this box's clock, {clock.rfc3339(now)}, is behind the newest scan of {clock.rfc3339(newest)}",
            f"if it is correct, it was ahead before: sudo edge trust-clock. If not: {advice}",
        )
    counted = CountedTime(subject.data_dir, lambda: False)
    if clock.to_datetime(now - counted.days_ahead() * clock.DAY).year < PROGRAM_YEAR and not clock.is_vouched(
        subject.data_dir
    ):
        return problem(
            "this box's clock was set after the service last ran, so nothing is deleted until confirmed",
            f"if {clock.rfc3339(now)} is correct: edge trust-clock. To keep it synchronized: timedatectl set-ntp true",
        )
    days = counted.days_ahead()
    if days > LEAP_DAYS and not clock.is_vouched(subject.data_dir):
        return problem(
            f"{clock.rfc3339(now)} is {days} days after the service last ran, so nothing is deleted until confirmed",
            "if it is correct: edge trust-clock. If not: timedatectl set-time, then timedatectl set-ntp true",
        )
    return ok(f"{clock.rfc3339(now)}, consistent with the recorded times")


def clock_synchronized(subject: Subject) -> Finding:
    """Check for traces of systemd-timesyncd, chrony or ntpd."""
    if any(Path(trace).exists() for trace in TIME_TRACES):
        return ok("the clock is synchronized by a time service")
    if (subject.machine.packaged_units / "systemd-timesyncd.service").is_file():
        return warning(
            "this box's clock is not synchronized, because no time server answers or the time service is off",
            "without internet, write NTP=ADDRESS of a time server into /etc/systemd/timesyncd.conf; then: timedatectl "
            "set-ntp false; timedatectl set-ntp true; timedatectl timesync-status shows whether it answers",
        )
    return warning(
        "this box's clock is not synchronized", "apt-get install systemd-timesyncd, or chrony with your own time source"
    )


def service(subject: Subject) -> Finding:
    if is_cut_off(subject.data_dir):
        return problem(
            "an upgrade stopped halfway, and reads are waiting at the broker", "systemctl start edge-upgrade"
        )
    if is_held(subject.data_dir):
        return ok("edge serve is running")
    return problem("edge serve is not running", "systemctl start edge; if it stops again: journalctl -u edge -n 50")


def pages(subject: Subject) -> Finding:
    """Check that the service is ready, or whether another program uses its port."""
    listen = subject.config.http_listen
    try:
        answer = _ask(subject, "/readyz")
    except (OSError, ValueError, HTTPException) as error:
        if not is_held(subject.data_dir) and is_listening(int(listen.rpartition(":")[2])):
            return problem(f"{listen} is used by another program", "ss -ltnp shows it; set http.listen")
        return problem(f"no response on {listen}: {error}", "systemctl status edge")
    failing = [check for check in answer.get("checks", []) if not check["ok"]]
    if answer["status"] == "ok" and not failing:
        return ok("all components are ok")
    own = [check for check in failing if check["vital"] or check["name"] not in _ELSEWHERE]
    text = "; ".join(f"{check['name']}: {check['detail']}" for check in own)
    if failing and not own:
        return warning(f"not all is well: {some([check['name'] for check in failing])}", "see the other findings")
    if own and not any(check["vital"] for check in own):
        return warning(text, "do what this says; details: Status page, and journalctl -u edge -n 50")
    return problem(text or "failing", "systemctl restart edge; if the problem remains: journalctl -u edge -n 50")


def public_url(subject: Subject) -> Finding:
    """Check that the address on labels leads to this box, because labels are used for years."""
    url = subject.config.http_public_url
    if not url:
        own = own_address(subject.config.http_listen, subject.machine)
        if own is None:
            return ok("not set, and other devices cannot reach this box: labels contain only keys")
        return ok(
            f'not set: each label links to the address its browser used; for one address set http.public_url = "{own}"'
        )
    if is_loopback(url):
        return problem(f"labels would link each phone to itself: {url}", "set http.public_url to the box's address")
    name = urlsplit(url).hostname or ""
    announced = subject.machine.network_name()
    if announced and name.endswith(".local") and name != f"{announced}.local":
        return problem(
            f"labels link to {name}, but this box is {announced}.local in the network",
            f"sudo edge-mdns name {name.removesuffix('.local')}, or fix http.public_url",
        )
    try:
        if announced and name == f"{announced}.local":
            ask_as(subject, url)
        else:
            with _open(f"{url}/healthz", subject) as response:
                json.load(response)
    except (OSError, ValueError, HTTPException) as error:
        return problem(
            f"labels link to {url}, which does not respond here: {error}",
            "fix http.public_url or the DNS name before printing labels",
        )
    return ok(f"labels link to {url}, which responds")


def version(subject: Subject) -> Finding:
    try:
        running = _ask(subject, "/healthz").get("version", __version__)  # only for addresses in http.metrics_from
    except (OSError, ValueError, HTTPException):
        return ok(f"{__version__} is installed")
    if running != __version__:
        return warning(f"{running} is running, {__version__} is installed", "systemctl restart edge")
    made = made_at(subject.machine.program / "venv")
    return ok(f"{running} of {made}" if made else running)


def _ask(subject: Subject, path: str) -> dict[str, Any]:
    try:
        with _open(local_address(subject.config.http_listen) + path, subject) as response:
            answer: dict[str, Any] = json.loads(response.read(MAX_ANSWER))
    except urllib.error.HTTPError as error:  # 503 has the same body
        answer = json.loads(error.read(MAX_ANSWER))
    return answer


def _open(url: str, subject: Subject) -> Any:
    """Open a URL, trusting the system's certificates and the authority of this box."""
    request = urllib.request.Request(url, headers={"User-Agent": "edge-doctor"})  # noqa: S310  http or https
    return urllib.request.urlopen(request, timeout=ANSWER_SECONDS, context=trusting(subject))  # noqa: S310  our own address
