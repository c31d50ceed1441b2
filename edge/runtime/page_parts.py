"""What the pages need from parts they do not import, as plain values and functions."""

from __future__ import annotations

import json
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from edge import clock, logs
from edge.audit.actors import Actor
from edge.config.live import LiveSettings, SettingState
from edge.config.settings import Config
from edge.formats.examples import examples
from edge.formats.registry import FORMATS, filter_for, recognise
from edge.ingest.routing import CUSTOM, check_format
from edge.ingest.subscriber import Subscriber
from edge.ingest.try_out import try_out
from edge.operations import backup
from edge.operations.upgrade.pending_upgrade import is_pending
from edge.pages.box_facts import BackupFile, BoxFacts, SettingInForce
from edge.pages.broker_facts import BrokerFacts, NewAccount
from edge.pages.formats import Formats
from edge.readers import broker_files

NOT_SHOWN = {"mqtt.client_id"}  # known to nobody else


def formats(subscriber: Subscriber) -> Formats:
    """What the pages, which know no ingest, need to set readers up."""
    titles = {row.name: row.title for row in FORMATS.values()} | {CUSTOM: "Described by a mapping"}
    shown = {row.title: json.dumps(row.mapping, indent=2) for row in examples().values()}
    return Formats(titles, CUSTOM, filter_for, recognise, check_format, subscriber.requeue, try_out, shown)


def broker(config: Config) -> BrokerFacts:
    """What the pages show of the broker, and how they give a reader its account."""
    is_embedded = config.mqtt_broker == "embedded"
    where = urlsplit(f"mqtt://{config.mqtt_listen}" if is_embedded else config.mqtt_broker)
    make_account = partial(_make_account, config) if config.mqtt_accounts_dir and config.mqtt_password_file else None
    port = where.port or (8883 if where.scheme == "mqtts" else 1883)
    return BrokerFacts(
        where.hostname or "localhost", port, config.mqtt_tls_port, config.mqtt_topics, is_embedded, make_account
    )


def _make_account(config: Config, actor: Actor, reader_id: int) -> NewAccount:
    """The files of the broker follow within a minute, see `_jobs`."""
    made, password = broker_files.give_account(actor, reader_id, config.mqtt_broker)
    return NewAccount(made.name, password, made.topic)


def box(live: LiveSettings) -> BoxFacts:
    """For administrators: backups, settings, the log, and whether an upgrade is under way."""
    config = live.config

    def backups() -> list[BackupFile]:
        found = backup.list_backups(config.backup_folder)
        return [BackupFile(one.path, clock.to_micros(one.made_at), one.size) for one in found]

    return BoxFacts(
        backups=backups,
        settings=lambda: [_shown(state) for state in live.states() if state.name not in NOT_SHOWN],
        change_setting=live.change,
        reset_setting=live.reset,
        log_lines=logs.HANDLER.lines,
        is_upgrading=lambda: is_pending(config.data_dir),
        started_at=clock.now(),
    )


def live_values(config: Config) -> dict[str, Any]:
    """The settings of the pages that may change while the service runs, by their names in `Installation`."""
    return {
        "session_hours": config.session_hours,
        "pin_required": config.pin_required,
        "public_url": config.http_public_url,
        "zone": clock.zone(config.time_zone),
        "sighting_gap": config.sighting_gap_seconds * clock.SECOND,
    }


def _shown(state: SettingState) -> SettingInForce:
    changeable = state.changeable
    return SettingInForce(
        state.name,
        state.value,
        state.help,
        is_default=state.value == state.default,
        is_changeable=changeable is not None,
        words=changeable.words if changeable else (),
        counts_at_once=changeable is not None and changeable.counts_at_once,
        waits_for_restart=state.waits_for_restart,
        base=state.base,
        changed=state.changed,
    )
