"""From a reader message on MQTT to scans in the store."""
