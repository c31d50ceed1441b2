"""Turn MQTT messages of readers into scans in the database."""
