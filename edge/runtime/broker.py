"""The broker of ingest: that of the settings, or the embedded one."""

from __future__ import annotations

from contextlib import ExitStack

from edge.config import settings
from edge.config.settings import Config
from edge.errors import SetupError
from edge.ingest.sessions import Broker


def broker_of(config: Config, stack: ExitStack) -> Broker:
    """Return the broker, after starting it if it is embedded. Raises SetupError."""
    if config.mqtt_broker != "embedded":
        password_file, authority = config.mqtt_password_file, config.mqtt_ca_file
        settings.check_authority(authority, "mqtt.ca_file")
        password = settings.read_secret(password_file, "mqtt.password_file") if password_file else None
        return Broker(config.mqtt_broker, config.mqtt_client_id, password, str(authority) if authority else None)
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
