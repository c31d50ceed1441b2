"""Starts all threads of the service in order and stops them in reverse order."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from waitress.server import BaseWSGIServer, MultiSocketServer

from edge import clock, conversations, listeners, metrics
from edge.app import create_app
from edge.audit import quotas
from edge.bulk import bulk_jobs, slices
from edge.clock import DAY, HOUR
from edge.config import settings
from edge.config.live import LiveSettings
from edge.config.settings import Config
from edge.database.connection import checkpoint, close_database
from edge.database.instance import fingerprint, use_signing_key
from edge.database.migrate import migrate
from edge.epcis import subscriptions
from edge.errors import SetupError, Unavailable
from edge.events.detection import silence_of
from edge.events.mqtt import OutputCommands
from edge.events.mqtt_session import Address
from edge.events.stream import Streams
from edge.events.worker import Epcis, EventsPace, EventsWorker
from edge.feed import cursors
from edge.handhelds import accepted_scans
from edge.ingest import broker_probe
from edge.ingest.broker_log import BrokerLog
from edge.ingest.pipeline import Pipeline
from edge.ingest.subscriber import Subscriber, Use
from edge.logs import set_up_log
from edge.memory_budget import forget_forward_references, return_freed_memory
from edge.operations import audit_export, integrity, own_health, retention, saved_state
from edge.operations import metrics as stats
from edge.operations.audit_export import AuditExport
from edge.operations.continuous_backup import ContinuousBackup
from edge.operations.counted_time import CountedTime
from edge.operations.doctor import findings
from edge.operations.doctor.machine import Machine
from edge.operations.files import hold
from edge.operations.health import Check, Health, Notifier, Watchdog, persisted_warnings
from edge.operations.jobs import Housekeeper, Job
from edge.operations.own_address import own_address
from edge.operations.stats import reader_figures
from edge.operations.upgrade.pending_upgrade import StartedAfterUpgrade, is_pending
from edge.people import sessions
from edge.rate_limits import FileLimit
from edge.readers import broker_files, broker_state, ledger
from edge.readers.broker_accounts import (
    SESSIONS,
    assign_sessions,
    count_settled,
    is_assignment_due,
    list_accounts,
    names_of_sessions,
)
from edge.readers.kept_messages import Window
from edge.readers.sign_ins import SIGN_INS, unheard
from edge.rules import box_faults, saved_filters
from edge.rules.channels.worker import Messages
from edge.rules.engine import Engine
from edge.rules.outputs.worker import OutputsWorker
from edge.runtime import readiness
from edge.runtime.broker import broker_of, own_broker
from edge.runtime.stop_signal import stop_on_signal
from edge.server import server as http
from edge.services import Services
from edge.sync.store import digests, site_quotas
from edge.sync.worker import SyncPace, SyncWorker
from edge.tracking import history_engine, past_index
from edge.upstream.standby import UpstreamStandby

log = logging.getLogger(__name__)

SWEEP_SECONDS = 600.0
ACCOUNTS_SECONDS = 60.0
DRAIN_SECONDS = 2.0  # wait for the messages of session 0
BROKER_SECONDS = 60.0
LOG_SECONDS = 2.0
QUOTAS_SECONDS = 300.0
FAULTS_SECONDS = 60.0
PAST_INDEX_SECONDS = 300.0
FOLLOW_SECONDS = 1.0
CHANNELS_SECONDS = 1.0  # maximum delay until a first channel, output, upstream or bulk change works
BULK_SECONDS = 1.0  # maximum delay until a later bulk change begins
SETTINGS_SECONDS = 1.0  # maximum delay until a change made in the shell takes effect
STEP_PAUSE_SECONDS = 0.05
OUTPUTS_CLIENT = "edge-outputs"
MANY_READS = 200  # sync pauses while more messages are queued
COLLECT_AFTER = 50_000  # objects; a batch of ingest allocates half as many, almost none of them in cycles


Notifies = OutputsWorker | UpstreamStandby | Housekeeper  # started when there is something to do


def serve(config: Config, on_ready: Callable[[str], None] = lambda _: None) -> None:
    """Run until SIGTERM or SIGINT. `on_ready` receives the URL of the pages once everything has started."""
    stop = stop_on_signal()
    with running(config) as address:
        on_ready(address)
        stop.wait()
        log.info("Stopping")


@contextmanager
def running(config: Config) -> Iterator[str]:
    """Run the service while the block runs. Yields the URL of the pages.

    Raises SetupError if the installation cannot run: no database, data in use, or address in use.
    """
    set_up_log(config.log_level)
    return_freed_memory()
    forget_forward_references()
    with ExitStack() as stack:
        stack.enter_context(hold(config.data_dir))
        integrity.check_at_start(config.data_dir, config.backup_folder)
        migrate(config.data_dir, keeps_copy=not is_pending(config.data_dir))  # edge-upgrade has made a copy
        stack.callback(_close_store)
        history_engine.use_engine(config.hub_history)
        stack.callback(history_engine.close)
        listeners.connect()
        live = LiveSettings.load(config)
        config = live.config
        use_signing_key(config.signing_key_file)
        health = Health()
        health.register(readiness.check_database)
        if folder := os.environ.get("RUNTIME_DIRECTORY"):
            conversations.begin(Path(folder))
            health.register(readiness.check_partners, is_vital=False)
        if history_engine.is_remote():
            health.register(readiness.check_history, is_vital=False)

        subscriber = _start_ingest(live, health, stack)
        health.register(lambda: readiness.check_destinations("channels"), is_vital=False)
        outputs = _start_outputs(config, subscriber, health, stack)
        upstream = _start_upstream(config, subscriber, health, stack)
        _start_upkeep(live, subscriber, [outputs, upstream], health, stack)
        _start_continuous_backup(config, health, stack)
        _start_sync(config, subscriber, health, stack)
        address = own_address(config.http_listen, Machine())
        streams = _start_events(live, outputs, address, health, stack)
        services = Services(
            live,
            health,
            FileLimit(config.http_threads),
            address,
            streams,
            subscriber.requeue,
        )
        server = _serve_http(services)
        health.register(server.check)
        stack.callback(server.stop)
        stack.callback(streams.stop)  # first, because the streams write to connections of the server
        stack.callback(conversations.end)
        log.info("Serving pages and API on %s", server.address)

        _notify_systemd(health, stack)
        close_database()  # from here on this thread waits; the connection is opened again at the end
        gc.collect()
        gc.freeze()  # everything allocated so far is permanent
        gc.set_threshold(COLLECT_AFTER)
        yield server.address


def _start_ingest(live: LiveSettings, health: Health, stack: ExitStack) -> Subscriber:
    """Start the embedded broker if configured, and the subscriber."""
    config = live.config
    pipeline = Pipeline(
        config.sighting_gap,
        config.ingest_replay_days,
        config.bounds,
        window=Window(config.retention_raw_mb << 20, config.retention_raw_hours * HOUR)
        if config.retention_raw_mb
        else None,
        is_smoothing=config.ingest_smoothing == "auto",
        is_vouched=partial(clock.is_vouched, config.data_dir),
        confirmed_at=partial(clock.confirmed_at, config.data_dir),
    )
    live.follow(lambda changed: pipeline.use_gap(changed.sighting_gap))
    subscriber = Subscriber(
        broker_of(config, stack),
        config.mqtt_topics,
        pipeline.handle_some,
        queue_size=config.ingest_queue,
        batch_size=config.ingest_batch,
        catch_up=pipeline.catch_up,
        sessions=SESSIONS if _has_sessions(config) else 1,
    )
    if _has_sessions(config):
        subscriber.use_sessions(_use_of_sessions())
    ingest = StartedAfterUpgrade(config.data_dir, subscriber.start, subscriber.stop)
    health.register(lambda: readiness.check_ingest(subscriber) if ingest.is_started else readiness.WAITS_FOR_UPGRADE)
    health.register(lambda: readiness.check_round_trip(subscriber))
    health.register(lambda: readiness.check_broker(subscriber), is_vital=False)
    health.register(readiness.check_sign_ins, is_vital=False)
    SIGN_INS.tls_port = config.mqtt_tls_port
    is_accepted = config.mqtt_accept_unencrypted
    health.register(lambda: readiness.check_encryption(is_accepted=is_accepted), is_vital=False)
    health.register(lambda: readiness.check_clock(pipeline), is_vital=False)
    ingest.start()
    stack.callback(ingest.stop)
    return subscriber


def _start_upkeep(
    live: LiveSettings, subscriber: Subscriber, notifiers: Sequence[Notifies], health: Health, stack: ExitStack
) -> None:
    """Start retention, the broker files of readers, and metrics that are computed on demand."""
    config = live.config
    stack.enter_context(
        metrics.sampling(
            lambda: stats.sample(config.data_dir, config.backup_folder, lambda: subscriber.state().figures)
        )
    )
    background = integrity.BackgroundCheck(config.data_dir, config.backup_folder)
    health.register(background.check, is_vital=False)
    # In its own thread, because it takes minutes.
    checker = Housekeeper("integrity", [Job("integrity", integrity.EVERY_SECONDS, background.run)])
    checker.start_if_needed()
    stack.callback(checker.stop)
    _use_limits(config)
    live.follow(_use_limits)
    stack.callback(quotas.keep_free, 0)
    stack.callback(site_quotas.set_limits, 0, 0)
    saved_state.load(config.data_dir)
    stack.callback(saved_state.save, config.data_dir)
    if config.audit_syslog:
        export = AuditExport(config.data_dir, config.audit_syslog, config.events_authority_file)
        sender = Housekeeper("audit_export", [Job("syslog", audit_export.EVERY_SECONDS, export.run)])
        health.register(lambda: sender.check()._replace(is_outside=True), is_vital=False)
        sender.start_if_needed()
        stack.callback(sender.stop)
    faults = Job("faults", FAULTS_SECONDS, lambda _: _record_faults(config, health))
    # In its own thread, because a job takes seconds to minutes. It continues jobs that a crash interrupted.
    changes = Job("bulk changes", BULK_SECONDS, slices.run_jobs)
    released = Job("accepted scans", BULK_SECONDS, accepted_scans.record_rest)
    bulk_worker = Housekeeper(
        "bulk_changes", [changes, released], lambda: bool(bulk_jobs.running_jobs() or accepted_scans.has_rest())
    )
    housekeeper = Housekeeper("housekeeping", [*_jobs(live, subscriber, [*notifiers, bulk_worker]), faults])
    health.register(housekeeper.check, is_vital=False)
    health.register(lambda: persisted_warnings(config.data_dir), is_vital=False)
    health.register(lambda: readiness.check_disk(config.data_dir, live.config.retention_low_disk_mb), is_vital=False)
    housekeeper.start_if_needed()
    stack.callback(housekeeper.stop)
    health.register(bulk_worker.check, is_vital=False)
    stack.callback(bulk_worker.stop)


def _use_limits(config: Config) -> None:
    """Apply limits of sessions, records, and what sites add to this hub.

    Its reserve is at least the space below which retention deletes history.
    """
    quotas.keep_free(config.retention_low_disk_mb << 20)
    quotas.set_limits(config.record_limits)
    sessions.use_idle_minutes(config.pages_idle_minutes)
    reserve = max(config.sync_reserve_mb, config.retention_low_disk_mb) if config.sync_reserve_mb else 0
    site_quotas.set_limits(config.sync_megabytes_of_site << 20, reserve << 20)


def _start_continuous_backup(config: Config, health: Health, stack: ExitStack) -> None:
    if config.backup_continuous_dir is None:
        return
    backup = ContinuousBackup(config.data_dir, config.backup_continuous_dir)
    health.register(backup.check, is_vital=False)
    stack.enter_context(metrics.sampling(backup.sample))
    backup.start()
    stack.callback(backup.stop)


def _start_sync(config: Config, subscriber: Subscriber, health: Health, stack: ExitStack) -> None:
    """Start the sync worker. It starts without a hub, too, because `edge sync join` must not need a restart."""
    pace = SyncPace(config.sync_interval_seconds, config.sync_megabytes_a_day << 20, config.sync_keep_days)
    worker = SyncWorker(
        config.data_dir,
        pace,
        lambda: subscriber.state().queued > MANY_READS,
        lambda organization_id: own_health.read(config.data_dir, config.backup_folder, organization_id),
    )
    health.register(readiness.check_sync, is_vital=False)
    worker.start_if_needed()
    stack.callback(worker.stop)


def _start_events(
    live: LiveSettings, outputs: OutputsWorker, address: str | None, health: Health, stack: ExitStack
) -> Streams:
    """Start the event worker. It starts without destinations, too, because adding one must not need a restart."""
    config = live.config
    settings.check_authority(config.events_authority_file, "events.authority_file")
    engine = Engine(clock.zone(config.pages_time_zone), outputs.wake)
    live.follow(lambda changed: engine.use_zone(clock.zone(changed.pages_time_zone)))

    def zone() -> ZoneInfo:
        return clock.zone(live.config.pages_time_zone)

    base = config.http_public_url or address or f"http://{config.http_listen}"
    worker = EventsWorker(
        _events_pace(config),
        config.events_authority_file,
        engine,
        Epcis(subscriptions.log_changes, lambda row, event: subscriptions.body(row, event, base, zone())),
        Messages(zone, config.events_authority_file, saved_filters.enqueue_due).due,
    )
    live.follow(lambda changed: worker.use_pace(_events_pace(changed)))
    streams = Streams()
    health.register(lambda: readiness.check_destinations("events", worker), is_vital=False)
    worker.start()
    stack.callback(worker.stop)
    streams.start_if_needed()
    return streams


def _start_upstream(config: Config, subscriber: Subscriber, health: Health, stack: ExitStack) -> UpstreamStandby:
    """Prepare the thread of upstreams. Housekeeping starts it once there is one."""
    worker = UpstreamStandby(config.events_authority_file, lambda: subscriber.state().queued > MANY_READS)
    health.register(lambda: readiness.check_upstream(worker), is_vital=False)
    stack.callback(worker.stop)
    return worker


def _start_outputs(config: Config, subscriber: Subscriber, health: Health, stack: ExitStack) -> OutputsWorker:
    """Prepare the worker of the outputs. Housekeeping starts its thread once there are some."""

    def connect() -> OutputCommands:
        if config.mqtt_broker == "embedded":
            return OutputCommands(Address(f"mqtt://{config.mqtt_listen}", OUTPUTS_CLIENT), is_version_5=False)
        own = own_broker(config, broker_files.outputs_name, f"{OUTPUTS_CLIENT}-{fingerprint()}")
        return OutputCommands(own.address)

    worker = OutputsWorker(connect)
    subscriber.ignore(worker.is_topic)
    health.register(lambda: readiness.check_destinations("outputs", worker), is_vital=False)
    stack.callback(worker.stop)
    return worker


def _events_pace(config: Config) -> EventsPace:
    silence = silence_of(config.events_unseen_hours, config.events_reader_offline_minutes)
    return EventsPace(silence, config.events_keep_days * DAY)


def _notify_systemd(health: Health, stack: ExitStack) -> None:
    notifier = Notifier(os.environ)
    notifier.ready()
    watchdog = Watchdog(health, notifier)
    watchdog.start_if_needed()
    stack.callback(watchdog.stop)
    stack.callback(notifier.stopping)


def _jobs(live: LiveSettings, subscriber: Subscriber, notifiers: Sequence[Notifies]) -> list[Job]:
    config = live.config
    counted = CountedTime(config.data_dir, lambda: clock.is_vouched(config.data_dir))

    def sweep(pause: Callable[[float], bool]) -> None:
        free = shutil.disk_usage(config.data_dir).free

        def step() -> bool:
            follow_log(None)  # deletions fill it
            return pause(STEP_PAUSE_SECONDS)

        retention.sweep(live.config, counted.now(), free, step)
        cursors.forget_silent(clock.now())
        accepted_scans.find_rest()

    def follow_log(_: object) -> None:
        past_index.catch_up()
        digests.catch_up()

    def start_notifiers(_: object) -> None:
        for worker in notifiers:
            worker.start_if_needed()

    jobs = [
        Job("settings", SETTINGS_SECONDS, lambda _: live.refresh()),
        Job("notifiers", CHANNELS_SECONDS, start_notifiers),
        Job("retention", SWEEP_SECONDS, sweep),
        Job("log of changes", FOLLOW_SECONDS, follow_log),
        Job("index of past positions", PAST_INDEX_SECONDS, past_index.maintain),
        Job("quotas", QUOTAS_SECONDS, lambda _: saved_state.save(config.data_dir)),
    ]
    if history_engine.is_remote():
        jobs.append(Job("names for reports", PAST_INDEX_SECONDS, history_engine.labels.refresh))
    if config.mqtt_accounts_dir and config.mqtt_password_file:
        folder = config.mqtt_accounts_dir
        own = broker_files.own_account(
            config.mqtt_broker, settings.read_secret(config.mqtt_password_file, "mqtt.password_file")
        )

        def update(_: object) -> None:
            _assign_sessions(subscriber)
            broker_files.write_files(folder, own)

        log_reader = own_broker(config, broker_files.log_name)
        reader_of_log = BrokerLog(log_reader, names_of_sessions(own.name), SIGN_INS)
        jobs.append(Job("log of the broker", LOG_SECONDS, lambda _: reader_of_log.read()))
        jobs.append(Job("accounts of readers", ACCOUNTS_SECONDS, update))
        jobs.append(Job("state of the broker", BROKER_SECONDS, lambda _: _check_broker(config)))
    return jobs


def _record_faults(config: Config, health: Health) -> None:
    """Let rules know the faults on the Status page and the problems of the last run of the doctor."""
    if not box_faults.is_needed():
        return
    failed = [f"{check.name}: {check.detail}" for check, _ in health.checks() if not (check.ok or check.is_outside)]
    levels = findings.last(config.data_dir).levels
    faults = sorted(name for name, level in levels.items() if level == findings.LEVELS[findings.Level.PROBLEM])
    box_faults.record("; ".join([*failed, *(f"edge doctor: {name}" for name in faults)]))


def _check_broker(config: Config) -> None:
    """Count messages that the broker has dropped, and have its memory cleared if readers fill it.

    Ignores an unreachable broker, which has a check of its own.
    """
    asked = own_broker(config, broker_files.doctor_name)
    SIGN_INS.unheard = unheard(list_accounts(), {row.reader_id: row.last_received_at for row in reader_figures()})
    values: dict[str, str] = {}
    with suppress(Unavailable):
        values = broker_probe.ask(asked, [broker_state.DROPPED, *broker_state.MEMORY])
    dropped = values.get(broker_state.DROPPED, "")
    more = ledger.note_dropped(int(dropped)) if dropped.isdecimal() else 0
    if more:
        log.warning("The broker has dropped %d messages because its queue was full. Run: edge doctor", more)
    folder = config.mqtt_accounts_dir
    is_full = broker_state.is_filled_by_readers(values, broker_state.settings(broker_state.MOSQUITTO))
    if is_full and folder and broker_files.ask_for_restart(folder):
        log.warning("A reader fills the memory of the broker, which restarts to free it. Run: edge doctor")


def _has_sessions(config: Config) -> bool:
    """Return True if edge has more than one session at the broker.

    Also if `mqtt.accounts_dir` was removed: the permissions at the broker still deny session 0 the readers' topics, so
    without the other sessions their reads would be lost. The doctor reports it.
    """
    if config.mqtt_broker == "embedded":
        return False
    return config.has_reader_accounts or (config.mqtt_password_file is not None and count_settled() > 0)


def _assign_sessions(subscriber: Subscriber) -> None:
    """Reassign readers to sessions. Only while session 0 is drained: changed subscriptions could lose messages, see
    `ingest.sessions`.
    """
    ready = subscriber.state().sessions
    if is_assignment_due(ready) and subscriber.drain(DRAIN_SECONDS) and assign_sessions(ready):
        subscriber.use_sessions(_use_of_sessions())


def _use_of_sessions() -> Use:
    rows = [row for row in list_accounts() if row.session]
    ignored: dict[int, list[str]] = {}
    for row in rows:
        if not row.is_settled:
            ignored.setdefault(row.session, []).extend(row.topics)
    return Use(frozenset(row.session for row in rows), ignored)


class _Server:
    """waitress in its own thread."""

    def __init__(self, server: BaseWSGIServer | MultiSocketServer, host: str, port: int) -> None:
        self._server = server
        self.address = f"http://{host}:{port}"
        self._thread = threading.Thread(target=server.run, name="http", daemon=True)
        self._thread.start()

    def check(self) -> Check:
        return readiness.check_pages(http.stuck_seconds(self._server), is_alive=self._thread.is_alive())

    def stop(self) -> None:
        http.stop(self._server, seconds=2)
        self._thread.join(0.5)  # open connections of browsers end with the process


def _serve_http(services: Services) -> _Server:
    config = services.config
    app = create_app(services)
    host, _, port = config.http_listen.rpartition(":")
    try:
        server = http.create(app, host, int(port), config.http_threads, **_proxy_options(config))
    except OSError as error:
        raise SetupError(f"http.listen {config.http_listen} cannot be used: {error}. Use a free port.") from error
    return _Server(server, host, getattr(server, "effective_port", int(port)))


def _proxy_options(config: Config) -> dict[str, Any]:
    """Trust forwarded headers of the configured proxy only."""
    if not config.http_trusted_proxy:
        return {}
    return {
        "trusted_proxy": config.http_trusted_proxy,
        "trusted_proxy_headers": {"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"},
    }


def _close_store() -> None:
    checkpoint("TRUNCATE")
    close_database()
