"""Builds the parts of the running service, starts them in order and stops them in reverse."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from waitress.server import BaseWSGIServer, MultiSocketServer

from edge import clock, listeners, metrics
from edge.app import create_app
from edge.audit import quotas
from edge.budget import return_freed_memory
from edge.clock import DAY, HOUR, SECOND
from edge.config import settings
from edge.config.live import LiveSettings
from edge.config.settings import Config
from edge.database.bounds import Bounds
from edge.database.connection import checkpoint, close_database
from edge.database.instance import use_signing_key
from edge.database.migrate import migrate
from edge.errors import SetupError, Unavailable
from edge.events.detection import Silence
from edge.events.stream import Streams
from edge.events.worker import Pace as EventsPace
from edge.events.worker import Worker as EventsWorker
from edge.ingest import broker_probe
from edge.ingest.pipeline import Pipeline
from edge.ingest.sessions import Broker
from edge.ingest.subscriber import State, Subscriber, Use
from edge.limits import ConcurrencyLimit
from edge.logs import set_up_log
from edge.operations import integrity, retention
from edge.operations import metrics as stats
from edge.operations.continuous_backup import ContinuousBackup
from edge.operations.counted_time import CountedTime
from edge.operations.doctor.machine import Machine
from edge.operations.files import hold
from edge.operations.health import Check, Health, Watchdog, persisted_warnings
from edge.operations.jobs import Housekeeper, Job
from edge.operations.own_address import own_address
from edge.operations.systemd import Notifier
from edge.operations.upgrade.pending_upgrade import StartedAfterUpgrade, is_pending
from edge.readers import broker_files, ledger
from edge.readers.broker_accounts import SESSIONS, assign_sessions, list_accounts
from edge.readers.kept_messages import Window
from edge.runtime import readiness
from edge.runtime.stop_signal import stop_on_signal
from edge.server import server as http
from edge.services import Services
from edge.sync.worker import Pace
from edge.sync.worker import Worker as SyncWorker

log = logging.getLogger(__name__)

SWEEP_SECONDS = 600.0
HTTP_STUCK_SECONDS = 60.0
ACCOUNTS_SECONDS = 60.0
DROPS_SECONDS = 300.0
SETTINGS_SECONDS = 1.0  # until a change made in the shell takes effect
STEP_PAUSE_SECONDS = 0.05
MANY_READS = 200  # waiting to be recorded: above it, sync yields
COLLECT_AFTER = 50_000  # objects; a batch of ingest makes half as many, and hardly any of them in a cycle


def serve(config: Config, on_ready: Callable[[str], None] = lambda _: None) -> None:
    """Run until SIGTERM or SIGINT. `on_ready` gets the address of the pages once everything has started."""
    stop = stop_on_signal()
    with running(config) as address:
        on_ready(address)
        stop.wait()
        log.info("Stopping")


@contextmanager
def running(config: Config) -> Iterator[str]:
    """The whole service while the block runs; gives the address of the pages.

    Raises SetupError when the installation is not usable: no database, data in use, address taken.
    """
    set_up_log(config.log_level)
    return_freed_memory()
    with ExitStack() as parts:
        parts.enter_context(hold(config.data_dir))
        integrity.check_at_start(config.data_dir, config.backup_folder)
        migrate(config.data_dir, keeps_copy=not is_pending(config.data_dir))  # edge-upgrade has made one
        parts.callback(_close_store)
        listeners.connect()
        live = LiveSettings.load(config)
        config = live.config
        use_signing_key(config.signing_key_file)
        health = Health()
        health.register(readiness.check_database)

        subscriber = _start_ingest(live, health, parts)
        _start_upkeep(live, subscriber, health, parts)
        _start_continuous_backup(config, health, parts)
        _start_sync(config, subscriber, health, parts)
        streams = _start_events(live, health, parts)
        services = Services(
            live,
            health,
            ConcurrencyLimit(config.http_threads),
            own_address(config.http_listen, Machine()),
            streams,
            subscriber.requeue,
        )
        server = _serve_http(services)
        health.register(server.check)
        parts.callback(server.stop)
        parts.callback(streams.stop)  # before the server, whose connections they write to
        log.info("Serving pages and API on %s", server.address)

        _tell_systemd(health, parts)
        gc.freeze()  # what exists now stays, so the collector need not look at it again
        gc.set_threshold(COLLECT_AFTER)
        yield server.address


def _start_ingest(live: LiveSettings, health: Health, parts: ExitStack) -> Subscriber:
    """From the broker to the database; with a broker of our own, where the settings say so."""
    config = live.config
    broker = _broker(config, parts)
    pipeline = Pipeline(
        config.sighting_gap,
        config.replay_days,
        _bounds(config),
        window=Window(config.raw_mb << 20, config.raw_hours * HOUR) if config.raw_mb else None,
        is_smoothing=config.smoothing == "auto",
        is_vouched=lambda: clock.is_vouched(config.data_dir),
    )
    live.follow(lambda changed: pipeline.use_gap(changed.sighting_gap))
    subscriber = Subscriber(
        broker,
        config.mqtt_topics,
        pipeline.handle_some,
        queue_size=config.ingest_queue,
        batch_size=config.ingest_batch,
        catch_up=pipeline.catch_up,
        sessions=SESSIONS if _has_accounts(config) else 1,
    )
    if _has_accounts(config):
        subscriber.use_sessions(_use_of_sessions())
    ingest = StartedAfterUpgrade(config.data_dir, subscriber.start, subscriber.stop)
    health.register(lambda: readiness.check_ingest(subscriber) if ingest.is_started else readiness.WAITS_FOR_UPGRADE)
    health.register(lambda: readiness.check_round_trip(subscriber))
    health.register(lambda: readiness.check_broker(subscriber), vital=False)
    health.register(lambda: readiness.check_clock(pipeline), vital=False)
    ingest.start()
    parts.callback(ingest.stop)
    return subscriber


def _broker(config: Config, parts: ExitStack) -> Broker:
    if config.mqtt_broker != "embedded":
        password_file = config.mqtt_password_file
        settings.check_authority(config.mqtt_ca_file, "mqtt.ca_file")
        return Broker(
            config.mqtt_broker,
            config.mqtt_client_id,
            settings.read_secret(password_file, "mqtt.password_file") if password_file else None,
            str(config.mqtt_ca_file) if config.mqtt_ca_file else None,
        )
    try:
        # Not at the top: it is an extra, and costs a site with mosquitto 30 MB of memory.
        from edge.ingest.embedded_broker import EmbeddedBroker
    except ImportError as error:
        raise SetupError(
            "mqtt.broker is embedded, which needs the extra: pip install 'edge[broker]'. "
            "Or write the address of a broker there, for example mqtt://localhost:1883."
        ) from error
    embedded = EmbeddedBroker(config.mqtt_listen)
    embedded.start()
    parts.callback(embedded.stop)
    return Broker(f"mqtt://{config.mqtt_listen}", config.mqtt_client_id)


def _start_upkeep(live: LiveSettings, subscriber: Subscriber, health: Health, parts: ExitStack) -> None:
    """Retention, the readers' accounts, and the metrics that are looked up on demand."""
    config = live.config
    parts.enter_context(
        metrics.sampling(
            lambda: stats.sample(config.data_dir, config.backup_folder, lambda: _ingest_figures(subscriber.state()))
        )
    )
    background = integrity.BackgroundCheck(config.data_dir, config.backup_folder)
    health.register(background.check, vital=False)
    # In a thread of its own: it takes minutes, and the other jobs must not wait.
    checker = Housekeeper([Job("integrity", integrity.EVERY_SECONDS, background.run)], name="integrity")
    checker.start()
    parts.callback(checker.stop)
    quotas.keep_free(config.low_disk_mb << 20)
    parts.callback(quotas.keep_free, 0)
    live.follow(lambda changed: quotas.keep_free(changed.low_disk_mb << 20))
    housekeeper = Housekeeper(_jobs(live, subscriber))
    health.register(housekeeper.check, vital=False)
    health.register(lambda: persisted_warnings(config.data_dir), vital=False)
    health.register(lambda: readiness.check_disk(config.data_dir, live.config.low_disk_mb), vital=False)
    housekeeper.start()
    parts.callback(housekeeper.stop)


def _start_continuous_backup(config: Config, health: Health, parts: ExitStack) -> None:
    if config.backup_continuous_dir is None:
        return
    backup = ContinuousBackup(config.data_dir, config.backup_continuous_dir)
    health.register(backup.check, vital=False)
    parts.enter_context(metrics.sampling(backup.sample))
    backup.start()
    parts.callback(backup.stop)


def _start_sync(config: Config, subscriber: Subscriber, health: Health, parts: ExitStack) -> None:
    """Always there, so that `edge sync join` needs no restart; without a hub it has nothing to do."""
    pace = Pace(config.sync_interval_seconds, config.sync_megabytes_a_day << 20, config.sync_keep_days)
    worker = SyncWorker(config.data_dir, pace, lambda: subscriber.state().queued > MANY_READS)
    health.register(lambda: readiness.check_sync(worker), vital=False)
    worker.start()
    parts.callback(worker.stop)


def _start_events(live: LiveSettings, health: Health, parts: ExitStack) -> Streams:
    """Always there, so that a destination needs no restart; without one it has nothing to do."""
    config = live.config
    settings.check_authority(config.events_authority_file, "events.authority_file")
    worker = EventsWorker(_events_pace(config), config.events_authority_file)
    live.follow(lambda changed: worker.use_pace(_events_pace(changed)))
    streams = Streams()
    health.register(lambda: readiness.check_events(worker, streams), vital=False)
    worker.start()
    parts.callback(worker.stop)
    streams.start()
    return streams


def _events_pace(config: Config) -> EventsPace:
    silence = Silence(config.events_unseen_hours * HOUR, config.events_reader_offline_minutes * 60 * SECOND)
    return EventsPace(silence, config.events_keep_days * DAY)


def _tell_systemd(health: Health, parts: ExitStack) -> None:
    notifier = Notifier(os.environ)
    watchdog = Watchdog(health, notifier)
    watchdog.start()
    parts.callback(watchdog.stop)
    parts.callback(notifier.stopping)
    notifier.ready()


def _bounds(config: Config) -> Bounds:
    return Bounds(
        unknown_tags=config.unknown_tags,
        dead_letters=config.dead_letters,
        unassigned_topics=config.unassigned_topics,
    )


def _limits(config: Config) -> retention.Limits:
    return retention.Limits(
        config.history_days, config.audit_days, config.audit_lines, _bounds(config), config.low_disk_mb << 20
    )


def _jobs(live: LiveSettings, subscriber: Subscriber) -> list[Job]:
    config = live.config
    counted = CountedTime(config.data_dir, lambda: clock.is_vouched(config.data_dir))

    def sweep(pause: Callable[[float], bool]) -> None:
        free = shutil.disk_usage(config.data_dir).free
        retention.sweep(_limits(live.config), counted.now(), free, lambda: pause(STEP_PAUSE_SECONDS))

    jobs = [Job("settings", SETTINGS_SECONDS, lambda _: live.refresh()), Job("retention", SWEEP_SECONDS, sweep)]
    if config.mqtt_accounts_dir and config.mqtt_password_file:
        folder = config.mqtt_accounts_dir
        own = broker_files.own_account(
            config.mqtt_broker, settings.read_secret(config.mqtt_password_file, "mqtt.password_file")
        )

        def update(_: object) -> None:
            _share_out_sessions(subscriber)
            broker_files.write_files(folder, own)

        jobs.append(Job("accounts of readers", ACCOUNTS_SECONDS, update))
        jobs.append(Job("drops of the broker", DROPS_SECONDS, lambda _: _note_drops(config, own.password)))
    return jobs


def _note_drops(config: Config, password: str) -> None:
    """A broker that is away is reported elsewhere."""
    ca_file = str(config.mqtt_ca_file) if config.mqtt_ca_file else None
    asked = Broker(broker_files.doctor_url(config.mqtt_broker), "", password, ca_file)
    dropped = ""
    with suppress(Unavailable):
        dropped = broker_probe.ask(asked, [broker_probe.DROPPED]).get(broker_probe.DROPPED, "")
    more = ledger.note_dropped(int(dropped)) if dropped.isdecimal() else 0
    if more:
        log.warning("The broker has dropped %d messages: its queue was full. See: edge doctor", more)


def _has_accounts(config: Config) -> bool:
    return config.has_reader_accounts and config.mqtt_broker != "embedded"


def _share_out_sessions(subscriber: Subscriber) -> None:
    """While nothing waits: only then has everything arrived that came before the last change, see `ingest.sessions`."""
    state = subscriber.state()
    if state.is_connected and not state.queued and not state.in_hand and assign_sessions(state.sessions):
        subscriber.use_sessions(_use_of_sessions())


def _use_of_sessions() -> Use:
    rows = [row for row in list_accounts() if row.session]
    ignored: dict[int, list[str]] = {}
    for row in rows:
        if not row.is_settled:
            ignored.setdefault(row.session, []).extend(row.topics)
    return Use(frozenset(row.session for row in rows), ignored)


class _Server:
    """waitress in a thread of its own, and whether it goes on."""

    def __init__(self, server: BaseWSGIServer | MultiSocketServer, host: str, port: int) -> None:
        self._server = server
        self.address = f"http://{host}:{port}"
        self._thread = threading.Thread(target=server.run, name="http", daemon=True)
        self._thread.start()

    def check(self) -> Check:
        if not self._thread.is_alive():
            return Check("pages", False, "the thread has ended; restart the service")
        stuck = http.stuck_seconds(self._server)
        if stuck > HTTP_STUCK_SECONDS:
            return Check("pages", False, f"no request was begun for {stuck:.0f} s; restart the service")
        return Check("pages", True, "served")

    def stop(self) -> None:
        http.stop(self._server, seconds=2)
        self._thread.join(0.5)  # longer only while a browser keeps its connection; then it ends with the process


def _serve_http(services: Services) -> _Server:
    config = services.config
    app = create_app(services)
    host, _, port = config.http_listen.rpartition(":")
    try:
        server = http.create(app, host, int(port), config.http_threads, **_proxy_options(config))
    except OSError as error:
        raise SetupError(f"http.listen {config.http_listen} cannot be used: {error}. Give it a free port.") from error
    return _Server(server, host, getattr(server, "effective_port", int(port)))


def _proxy_options(config: Config) -> dict[str, Any]:
    """Trust what one proxy says about its clients, and nobody else."""
    if not config.http_trusted_proxy:
        return {}
    return {
        "trusted_proxy": config.http_trusted_proxy,
        "trusted_proxy_headers": {"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"},
    }


def _ingest_figures(state: State) -> dict[str, float]:
    return {
        "connected": state.is_connected,
        "queued_messages": state.queued,
        "messages_in_hand": state.in_hand,
        "received_messages": state.received,
        "store_refuses": bool(state.store_problem),
    }


def _close_store() -> None:
    checkpoint("TRUNCATE")
    close_database()
