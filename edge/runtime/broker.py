"""The broker of the settings, or the embedded one, and edge's accounts there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from edge.config import settings
from edge.config.settings import Config
from edge.errors import SetupError
from edge.ingest.sessions import Broker
from edge.readers import broker_files


def own_broker(config: Config, name: Callable[[str], str] | None = None, client_id: str = "") -> Broker:
    """Return the broker of the settings, with an account of edge such as `doctor_name` if edge manages accounts."""
    url, file = config.mqtt_broker, config.mqtt_password_file
    if name and config.has_reader_accounts:
        url = broker_files.url_of(name, url)
    password = settings.read_secret(file, "mqtt.password_file") if file else None
    return Broker(url, client_id, password, str(config.mqtt_ca_file) if config.mqtt_ca_file else None)


def broker_of(config: Config, stack: ExitStack) -> Broker:
    """Return the broker, after starting it if it is embedded. Raises SetupError."""
    if config.mqtt_broker != "embedded":
        settings.check_authority(config.mqtt_ca_file, "mqtt.ca_file")
        return own_broker(config, client_id=config.mqtt_client_id)
    try:
        # Imported here because it is an optional extra that takes 30 MB of memory.
        from edge.ingest.embedded_broker import EmbeddedBroker
    except ImportError as error:
        raise SetupError(
            "mqtt.broker is embedded, which needs an extra: pip install 'edge[broker]'. "
            "Or set it to the address of a broker, for example mqtt://localhost:1883."
        ) from error
    embedded = EmbeddedBroker(config.mqtt_listen)
    embedded.start()
    stack.callback(embedded.stop)
    return Broker(f"mqtt://{config.mqtt_listen}", config.mqtt_client_id)
