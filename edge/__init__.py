"""Asset and location tracking for a warehouse that keeps working when the internet does not."""

__version__ = "0.2.0"
