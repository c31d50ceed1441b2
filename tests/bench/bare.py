"""Upper bound for ingest: a bare paho subscriber that parses each message as JSON and acknowledges it.

Prints the messages per second and the processor seconds per message, from the first to the last of COUNT.
Usage: bare.py PORT CLIENT_ID COUNT
"""

from __future__ import annotations

import sys
import time
from typing import Any

import msgspec
import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion


def main(port: int, client_id: str, count: int) -> None:
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=client_id, clean_session=False, manual_ack=True)
    seen = 0
    began = worked = 0.0

    def on_connect(client: mqtt.Client, *_: Any) -> None:
        client.subscribe("site/#", 1)
        if not count:
            client.disconnect()

    def on_message(client: mqtt.Client, _data: Any, message: mqtt.MQTTMessage) -> None:
        nonlocal seen, began, worked
        if not began:
            began, worked = time.perf_counter(), time.process_time()
        msgspec.json.decode(message.payload)
        client.ack(message.mid, message.qos)
        seen += 1
        if seen == count:
            print((count - 1) / (time.perf_counter() - began), (time.process_time() - worked) / (count - 1))
            client.disconnect()

    client.on_connect = on_connect
    client.on_message = on_message
    client.connect("127.0.0.1", port)
    client.loop_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
