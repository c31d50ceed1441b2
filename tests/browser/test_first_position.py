"""From nothing to the first position, as a technician with a browser and a reader that already sends goes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from paho.mqtt import client as mqtt
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import expect

from tests.browser.conftest import PASSWORD, new_context
from tests.mosquitto import free_port
from tests.service import ROOT, START_SECONDS, Service, wait_for

pytestmark = pytest.mark.browser
MOST_STEPS = 8
TAG = "E28011700000020A7B2C3D4E"


def publish(port: int) -> None:
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", port)
    client.loop_start()
    client.publish("hall/portal", f'{{"reads": [{{"tag": "{TAG}"}}]}}', qos=1).wait_for_publish(10)
    client.disconnect()
    client.loop_stop()


@pytest.mark.long
def test_it_takes_at_most_eight_steps(tmp_path: Path, chromium: Chromium) -> None:
    """A step is a command, or a page on which something is entered or pressed."""
    steps = []
    port = free_port()
    init = ["init", "--org", "Nordhafen", "--email", "ada@nord.example"]
    command = [sys.executable, "-m", "edge", f"--set=data_dir={tmp_path}", *init]
    subprocess.run(command, cwd=ROOT, input=f"{PASSWORD}\n", text=True, check=True, capture_output=True)
    steps.append("edge init")
    with Service(tmp_path, "embedded", mqtt__listen=f"127.0.0.1:{port}") as service:
        service.start()
        wait_for(lambda: service.has_logged("Serving pages"), START_SECONDS, service.read_log)
        service.wait_until_connected()
        steps.append("edge serve")
        page = new_context(chromium, base_url=service.http).new_page()
        page.goto("/")
        page.fill("#email", "ada@nord.example")
        page.fill("#password", PASSWORD)
        page.click("button:has-text('Sign in')")
        steps.append("sign in")

        page.click("a:has-text('Connect a reader')")
        expect(page.get_by_text("Waiting for the first message")).to_be_visible()
        steps.append("to the readers, where its address and topic are")
        publish(port)
        page.click("a[aria-label='Set up hall/portal']")
        steps.append("the topic that was heard")
        page.fill("#name", "Portal")
        page.fill("#location_name", "Dock 1")
        page.click("main button:has-text('Save')")
        steps.append("its name and its location")

        expect(page.get_by_text(TAG)).to_be_visible()
        page.click(f"a[aria-label='New asset with {TAG}']")
        steps.append("the tag it saw")
        page.fill("#name", "Roll cage")
        page.click("main button:has-text('Save')")
        steps.append("the asset")
        expect(page.locator(".where")).to_contain_text("Dock 1")
        page.context.close()
        service.stop()
    assert len(steps) <= MOST_STEPS, steps
