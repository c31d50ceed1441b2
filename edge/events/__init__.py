"""Outbound events: delivered to webhooks and brokers, and streamed to whoever listens."""
