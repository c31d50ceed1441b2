"""Outputs: lamps, horns and gates that rules switch over MQTT."""
