"""All checks of a site. The doctor makes those with a function, the service those that it registers in `Health`."""

from __future__ import annotations

from typing import NamedTuple

from edge.texts import N_


class Known(NamedTuple):
    """`name` is for people. `function`: of the doctor, in a module next to this one that the service does not load."""

    name: str
    function: str = ""


# The ids are stable: monitoring may rely on them.
CHECKS = {
    "permissions": Known(N_("File permissions"), "box.permissions"),
    "disk": Known(N_("Disk space"), "box.disk"),
    "inodes": Known(N_("Files on the disk"), "box.inodes"),
    "disk-errors": Known(N_("Disk errors"), "box.disk_errors"),
    "memory": Known(N_("Memory"), "box.memory"),
    "clock": Known(N_("Clock"), "box.clock_correct"),
    "clock-kept": Known(N_("Time server"), "box.clock_synchronized"),
    "time-zone": Known(N_("Time zone"), "surroundings.time_zone"),
    "journal": Known(N_("System log"), "surroundings.journal"),
    "service": Known(N_("Service"), "box.service"),
    "units": Known(N_("System services"), "units.units"),
    "restarts": Known(N_("Restarts"), "units.restarts"),
    "upgrade": Known(N_("Upgrade"), "units.upgrade"),
    "settings": Known(N_("Settings"), "units.settings_in_force"),
    "pages": Known(N_("Pages and API"), "box.pages"),
    "https": Known(N_("HTTPS"), "https.https"),
    "http-listen": Known(N_("HTTP without encryption"), "surroundings.http_behind_https"),
    "certificates": Known(N_("Certificates"), "https.certificates"),
    "name": Known(N_("Network name"), "units.name_in_network"),
    "public-url": Known(N_("Public address"), "box.public_url"),
    "version": Known(N_("Version"), "box.version"),
    "database": Known(N_("Database"), "data.database"),
    "write-ahead-log": Known(N_("Write-ahead log"), "data.write_ahead_log"),
    "schema": Known(N_("Database schema"), "data.schema"),
    "records": Known(N_("Records"), "data.records"),
    "record-limits": Known(N_("Number of records"), "data.record_limits"),
    "administrators": Known(N_("Administrators"), "data.administrators"),
    "audit-outside": Known(N_("Audit outside of this box"), "data.audit_outside"),
    "backup": Known(N_("Backup"), "data.backup_recent"),
    "backup-sound": Known(N_("Backup check"), "data.backup_sound"),
    "backup-second": Known(N_("Backup on a second disk"), "data.backup_second"),
    "backup-continuous": Known(N_("Continuous backup"), "data.backup_continuous"),
    "restore-drill": Known(N_("Restore drill"), "data.restore_drill"),
    "history": Known(N_("History"), "data.history"),
    "warnings": Known(N_("Warnings"), "data.warnings"),
    "broker": Known(N_("Broker"), "readers.broker"),
    "broker-reachable": Known(N_("Broker address"), "surroundings.broker_reachable"),
    "firewall": Known(N_("Firewall"), "surroundings.firewall"),
    "broker-tls": Known(N_("Broker with TLS"), "https.mqtts"),
    "broker-accounts": Known(N_("Broker accounts"), "readers.broker_accounts"),
    "broker-limits": Known(N_("Broker queue"), "readers.broker_limits"),
    "broker-dropped": Known(N_("Messages dropped by the broker"), "readers.broker_dropped"),
    "broker-retained": Known(N_("Retained messages"), "readers.broker_retained"),
    "readers": Known(N_("Readers"), "readers.readers_seen"),
    "reader-qos": Known(N_("Reader QoS"), "readers.readers_qos"),
    "reader-clock": Known(N_("Reader clocks"), "readers.readers_clock"),
    "antennas": Known(N_("Antennas"), "readers.antennas"),
    "topics": Known(N_("Topics without a reader"), "readers.topics"),
    "reader-formats": Known(N_("Reader formats"), "readers.formats"),
    "reader-mappings": Known(N_("Reader mappings"), "readers.mappings"),
    "dead-letters": Known(N_("Unreadable messages"), "readers.dead_letters"),
    "events": Known(N_("Events and webhooks"), "outgoing.events_delivered"),
    "channels": Known(N_("Channels"), "outgoing.channels_send"),
    "outputs": Known(N_("Outputs"), "outgoing.outputs_switch"),
    "dns": Known(N_("Name resolution"), "outgoing.names_resolved"),
    "hub": Known(N_("Connection to the hub"), "sync.upstream"),
    "sites": Known(N_("Sites"), "sync.downstream"),
    "upstream": Known(N_("The upstream service"), "upstream.upstream_equal"),
    "upstream-bridge": Known(N_("Bridge to another broker"), "upstream.bridge_connected"),
    "history-database": Known(N_("Database of the history"), "sync.history_database"),
    # Only the running service makes these.
    "audit_export": Known(N_("Audit outside of this box")),
    "bulk_changes": Known(N_("Changes of many assets")),
    "continuous_backup": Known(N_("Continuous backup")),
    "housekeeping": Known(N_("Housekeeping")),
    "ingest": Known(N_("Recording of reads")),
    "integrity": Known(N_("Database check")),
    "partners": Known(N_("Connections to other programs")),
    "reader_encryption": Known(N_("Reader encryption")),
    "round_trip": Known(N_("Messages through the broker")),
    "sign_ins": Known(N_("Sign-ins at the broker")),
    "sync": Known(N_("Sync")),
}
