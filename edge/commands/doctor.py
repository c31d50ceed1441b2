"""`edge doctor`: run all checks of this site and print their findings."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

import click

from edge.commands.config import shown
from edge.commands.context import Setup, in_force, open_file, require_database
from edge.commands.sync import state_rows
from edge.config.settings import Config, Value
from edge.database import migrate
from edge.database.connection import FILE_NAME
from edge.errors import EdgeError, Unavailable
from edge.ingest import broker_probe
from edge.operations.doctor import doctor as examination
from edge.operations.doctor import findings as last_findings
from edge.operations.doctor import https
from edge.operations.doctor.box import permissions
from edge.operations.doctor.findings import INSTALLER, Level, Subject, problem
from edge.operations.doctor.machine import Machine
from edge.operations.support_bundle import write_bundle
from edge.readers import broker_files, broker_state
from edge.runtime.broker import own_broker
from edge.sync.store import state as sync_state
from edge.upstream import bridges
from edge.validation.topics import DOCTOR_TOPIC

BROKER_TOPICS = ("$SYS/broker/version", broker_state.DROPPED, *broker_state.MEMORY)
_LOST_SECRET = (
    f"put it back from a disaster file. Without one, {INSTALLER} makes a new one; after a new signing key, tokens, "
    "badges and authenticator apps must be set up again"
)
_SIGNS = {Level.OK: "ok     ", Level.WARNING: "WARNING", Level.PROBLEM: "PROBLEM"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For machines.")
@click.option("--bundle", type=click.Path(path_type=Path), help="Also write a support bundle without secrets.")
@click.option(
    "--publish",
    "is_published",
    is_flag=True,
    help="Also write results for /metrics and the topic edge/doctor; skip slow checks.",
)
@click.pass_obj
def doctor(setup: Setup, as_json: bool, bundle: Path | None, is_published: bool) -> None:
    """Examine this site. The exit code is 0 when all is well, 1 for warnings, 2 for problems."""
    subject = _subject(setup.config, is_open=False)
    examined, cause = [], _cause(setup, subject)
    if not cause:
        subject = _subject(_settings_in_force(setup), is_open=True)
    for item in examination.examine(subject, examination.SLOW if is_published else (), cause, _possible(setup)):
        examined.append(item)
        if not as_json:
            _print(item)
    if as_json:
        click.echo(examination.as_json(examined))
    if bundle:
        texts = {
            "doctor.json": examination.as_json(examined),
            "settings.txt": setup.fault or _settings(shown(setup)),
            "sync.txt": cause.finding.text if cause else _sync(),
        }
        write_bundle(bundle, texts)
        click.echo(f"Wrote {bundle}", err=True)
    if is_published and not cause:
        _publish(setup.config, examination.as_json(examined), https.first_end(subject))
    sys.exit(examination.exit_code(examined))


def _cause(setup: Setup, subject: Subject) -> examination.Examined | None:
    """Open the database. Returns why that failed, from which other faults follow, or None."""
    if setup.fault:
        return examination.Examined("settings", problem(setup.fault, _remedy_of_settings(subject.machine.settings)))
    if subject.machine.is_site and not setup.config.data_dir.is_absolute():
        file = subject.machine.settings
        text = f"{file} does not say where the data is: data_dir is missing"
        advice = f"put it back from a copy, or: sudo rm {file}; {INSTALLER}"
        return examination.Examined("settings", problem(text, advice))
    for secret in (setup.config.signing_key_file, setup.config.mqtt_password_file):
        if secret and not os.access(secret, os.R_OK):
            return examination.Examined(
                "settings", problem(f"{secret} cannot be read", _remedy_of(secret, _LOST_SECRET))
            )
    advice = f"then, if it is not enough: ls -la {subject.data_dir}; journalctl -u edge -n 20"
    finding = None
    try:
        require_database(setup)
        finding = permissions(subject)
        open_file(setup)
        migrate.present_schema()
    except PermissionError as error:
        text = f"{error.filename or subject.data_dir} cannot be used: {error.strerror}"
        remedy = f"sudo chown -R edge:edge {subject.data_dir}; folders above it: namei -l {subject.data_dir}"
        return examination.Examined("permissions", problem(text, remedy))
    except (EdgeError, OSError) as error:
        if finding is None or finding.level is not Level.PROBLEM:
            return examination.Examined("cause", problem(str(error), advice))
    return examination.Examined("permissions", finding) if finding and finding.level is Level.PROBLEM else None


def _possible(setup: Setup) -> Collection[str]:
    """Return the checks that do not need what is missing."""
    if setup.fault:
        return examination.WITHOUT_SETTINGS
    if not os.access(setup.config.data_dir / FILE_NAME, os.F_OK):
        return examination.WITHOUT_SETTINGS | examination.WITHOUT_DATA
    return examination.CHECKS


def _remedy_of_settings(file: Path) -> str:
    if os.access(file, os.R_OK):
        return (
            f"correct what it says in {file}, or put back a copy; edge config shows what else is wrong; "
            "then: sudo systemctl restart edge"
        )
    return _remedy_of(file, f"put it back from a copy. Without one, mount the disk of the data, then: {INSTALLER}")


def _remedy_of(unreadable: Path, lost: str) -> str:
    if not unreadable.exists():
        return lost
    return f"sudo chown root:edge {unreadable}; sudo chmod 640 {unreadable}; sudo systemctl restart edge"


def _publish(config: Config, findings: str, certificate_ends_at: int | None) -> None:
    """Publish to this box's broker. An unreachable broker is a finding of its own, so it does not fail here."""
    last_findings.keep(config.data_dir, findings, certificate_ends_at)
    try:
        broker_probe.publish(own_broker(config, broker_files.doctor_name), DOCTOR_TOPIC, findings.encode(), retain=True)
    except Unavailable as error:
        click.echo(f"edge: not published: {error}", err=True)


def _print(item: examination.Examined) -> None:
    click.echo(f"{_SIGNS[item.finding.level]} {item.name:16} {item.finding.text}")
    if item.finding.advice:
        click.echo(f"{'':25}→ {item.finding.advice}")


def _sync() -> str:
    try:
        state = sync_state.site_state()
        lines = [*state_rows(state)] if state else []
        lines += [
            (row.site.code, f"{sync_state.waiting(row.waiting)}; {row.trouble}")
            for row in sync_state.site_statuses(None)
        ]
    except EdgeError as error:  # a damaged file must not prevent the rest of the bundle
        return str(error)
    return "".join(f"{name}: {value}\n" for name, value in lines) or "neither a site nor a hub\n"


def _settings(shown: list[Value]) -> str:
    return "".join(f"{value.name} = {value.value} [{value.source}]\n" for value in shown)


def _settings_in_force(setup: Setup) -> Config:
    try:
        migrate.check_schema(setup.config.data_dir)
        return in_force(setup)
    except EdgeError:  # a damaged database, or one of another release, is when the bundle is needed
        return setup.config


def _subject(config: Config, *, is_open: bool) -> Subject:
    @cache  # two checks use the answer, and an unreachable broker takes long
    def ask_broker() -> Mapping[str, str]:
        return broker_probe.ask(
            own_broker(config, broker_files.doctor_name),
            [*BROKER_TOPICS, *(_bridge_topics(config.data_dir) if is_open else ())],
        )

    return Subject(config, ask_broker, Machine(), os.environ.get("FIREWALL_RULES"))


def _bridge_topics(data_dir: Path) -> list[str]:
    try:
        migrate.check_schema(data_dir)
        return [row.state_topic for row in bridges.all_bridges()]
    except EdgeError:  # a damaged database, or one of another release, is a finding of its own
        return []
