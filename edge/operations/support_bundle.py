"""Support bundle: a zip with the state of the site, without its secrets."""

from __future__ import annotations

import re
import subprocess
import zipfile
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path

_COMMANDS = {
    "journal.txt": ["journalctl", "-u", "edge", "-u", "edge-backup", "-u", "mosquitto", "-n", "2000", "--no-pager"],
    "units.txt": ["systemctl", "status", "edge", "edge-backup.timer", "mosquitto", "caddy", "--no-pager"],
    "disk.txt": ["df", "-h"],
    "memory.txt": ["free", "-m"],
    "listening.txt": ["ss", "-ltn"],
    "system.txt": ["uname", "-a"],
}

# Secrets first, then personal data. Each takes linear time: it begins at the start of a word, or has a bounded length.
_HIDDEN = [
    (re.compile(r"edge_[0-9a-f]{64}"), "<secret>"),
    (re.compile(r"(?<![\w-])(?=[\w-]*eyJ)[\w-]++\.[\w-]++\.[\w-]*"), "<token>"),
    (re.compile(r"(?:whsec_|AGE-SECRET-KEY-1)[\w+/=-]+"), "<secret>"),
    (
        re.compile(
            r"(?i)((?:password|passwd|secret|token|authorization|cookie)\S{0,40}?\s{0,40}[=:]\s*)"
            r"""(?:(?:Bearer|Basic)\s+)?(?:"[^"]*+"|'[^']*+'|\S+)"""
        ),
        r"\1<hidden>",
    ),
    (re.compile(r"://[^/\s:@]*:[^/\s]+@"), "://<hidden>@"),
    (re.compile(r"(://[^\s?:]*+(?::[0-9]{1,5}[^\s?:]*+)?\?)\S+"), r"\1<hidden>"),  # webhooks have secrets there
    (re.compile(r"(://hooks\.[^\s/]{1,100}/)\S+"), r"\1<hidden>"),  # or in the path
    (re.compile(r"\$(?:7|6|argon2\w*|scrypt)\$\S+"), "<hash>"),
    (re.compile(r"scrypt:\S+"), "<hash>"),
    (re.compile(r"\bedge-[0-9a-f]{16}\b"), "<client>"),  # client id of edge at the broker
    (re.compile(r"\b(edge_(?:session|device|form|known)=)[\w-]+"), r"\1<cookie>"),
    (re.compile(r"edge-join-[\w-]+"), "<join code>"),
    (re.compile(r"/enrol/[\w-]+"), "/enrol/<code>"),
    (re.compile(r"/w/[\w-]+"), "/w/<code>"),
    (re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), "<email>"),
]

_LONGEST_LINE = 2_000  # logs contain outside input


def redact(text: str) -> str:
    return "\n".join(_redact_line(line) for line in text.split("\n"))


def _redact_line(line: str) -> str:
    """Redact one line. A cut may leave half of a secret, so the last word before it is removed too."""
    if len(line) > _LONGEST_LINE:
        line = line[:_LONGEST_LINE].rpartition(" ")[0] + " <cut>"
    for pattern, replacement in _HIDDEN:
        line = pattern.sub(replacement, line)
    return line


def write_bundle(file: Path, texts: Mapping[str, str]) -> None:
    """Write `texts` (by file name) and the output of system commands to `file`, all redacted."""
    packages = sorted(f"{item.name}=={item.version}" for item in distributions())
    contents = {
        **texts,
        "packages.txt": "\n".join(packages),
        **{name: _output_of(command) for name, command in _COMMANDS.items()},
    }
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, text in contents.items():
            bundle.writestr(name, redact(text))
    file.chmod(0o600)


def _output_of(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)  # noqa: S603  our own list
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]}: {error}"
    return done.stdout + done.stderr
