"""Names that people know for the checks of the service and of `edge doctor`."""

from __future__ import annotations

from edge.pages.translation import gettext
from edge.texts import N_

NAMES = {
    "administrators": N_("Administrators"),
    "antennas": N_("Antennas"),
    "backup": N_("Backup"),
    "backup-continuous": N_("Continuous backup"),
    "backup-second": N_("Backup on a second disk"),
    "backup-sound": N_("Backup check"),
    "broker": N_("Broker"),
    "broker-accounts": N_("Broker accounts"),
    "broker-dropped": N_("Messages dropped by the broker"),
    "broker-limits": N_("Broker queue"),
    "broker-retained": N_("Retained messages"),
    "broker-tls": N_("Broker with TLS"),
    "bulk_changes": N_("Changes of many assets"),
    "certificates": N_("Certificates"),
    "channels": N_("Channels"),
    "clock": N_("Clock"),
    "clock-kept": N_("Time server"),
    "continuous_backup": N_("Continuous backup"),
    "database": N_("Database"),
    "dead-letters": N_("Unreadable messages"),
    "disk": N_("Disk space"),
    "disk-errors": N_("Disk errors"),
    "events": N_("Events and webhooks"),
    "history": N_("History"),
    "history-database": N_("Database of the history"),
    "housekeeping": N_("Housekeeping"),
    "https": N_("HTTPS"),
    "hub": N_("Connection to the hub"),
    "ingest": N_("Recording of reads"),
    "inodes": N_("Files on the disk"),
    "integrity": N_("Database check"),
    "memory": N_("Memory"),
    "name": N_("Network name"),
    "outputs": N_("Outputs"),
    "pages": N_("Pages and API"),
    "permissions": N_("File permissions"),
    "public-url": N_("Public address"),
    "reader-clock": N_("Reader clocks"),
    "reader-formats": N_("Reader formats"),
    "reader-mappings": N_("Reader mappings"),
    "reader-qos": N_("Reader QoS"),
    "readers": N_("Readers"),
    "record-limits": N_("Number of records"),
    "records": N_("Records"),
    "restarts": N_("Restarts"),
    "restore-drill": N_("Restore drill"),
    "round_trip": N_("Messages through the broker"),
    "schema": N_("Database schema"),
    "service": N_("Service"),
    "settings": N_("Settings"),
    "sites": N_("Sites"),
    "sync": N_("Sync"),
    "topics": N_("Topics without a reader"),
    "units": N_("System services"),
    "upgrade": N_("Upgrade"),
    "upstream": N_("The upstream service"),
    "upstream-bridge": N_("Bridge to another broker"),
    "version": N_("Version"),
    "warnings": N_("Warnings"),
}


def check_name(name: str) -> str:
    """Return the name to show. A newer release may have a check that this one does not know."""
    return gettext(NAMES[name]) if name in NAMES else name
