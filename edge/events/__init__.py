"""Outbound events: delivered to webhooks and brokers, and streamed to clients that listen."""
