"""Channels: how people are notified of alerts, by email, push message or web request."""
