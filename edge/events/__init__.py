"""Outbound events: delivered to webhooks and MQTT brokers, and streamed to connected clients."""
