"""A generated Python client completes a round trip against the real server."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from edge import clock
from edge.audit.actors import shell
from edge.database import migrate
from edge.people import api_keys, organizations
from edge.people.secrets import hash_secret
from edge.tracking.positions import record
from edge.tracking.stays import Quality, Scan
from tests.api.conftest import AGENT
from tests.api.contract import DOCUMENT
from tests.bench import api as bench

pytestmark = pytest.mark.slow

PACKAGE = "generated_client"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that imports a module of the generated package."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_text(json.dumps(DOCUMENT))
    # only the generated code matters; formatting it would need another program
    (folder / "config.yml").write_text("post_hooks: []\n")
    command = ["openapi_python_client", "generate", "--path", "openapi.json", "--output-path", PACKAGE, "--meta=none"]
    subprocess.run(
        [sys.executable, "-m", *command, "--config", "config.yml", "--fail-on-warning"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    sys.path.insert(0, str(folder))
    yield lambda name: importlib.import_module(f"{PACKAGE}.{name}")
    sys.path.remove(str(folder))


def test_a_generated_client_does_a_full_round_trip(generated: Any, tmp_path: Path) -> None:
    migrate.migrate(tmp_path)
    organization_id = organizations.add_organization(shell(), "Acme").id
    key = api_keys.add_key(shell(organization_id), "generated", api_keys.SCOPES, hash_secret("secret"))
    models = generated("models")
    with (
        bench.running("edge", tmp_path) as address,
        sign_in(generated, address, key.id) as client,
    ):

        def call(module: str, *ids: int, **arguments: Any) -> Any:
            answer = generated(f"api.{module}").sync_detailed(*ids, client=client, **arguments)
            assert answer.status_code < 300, answer.content
            return answer.parsed

        assert call("access.get_current_org").data.api_key_id == uuid.UUID(key.id)
        dock = call("locations.create_location", body=models.CreateLocationWithTagsRequest(name="Dock")).data
        gate = models.CreateLocationWithTagsRequest(name="Gate", parent_external_key=dock.external_key)
        gate = call("locations.create_location", body=gate).data
        tag = models.TagRequest(tag_type=models.TagRequestTagType.RFID, value="E2001")
        asset = call("assets.create_asset", body=models.CreateAssetWithTagsRequest(name="Pallet", tags=[tag])).data

        assert call("assets.get_asset", asset.id).data == asset
        assert call("assets.list_assets", external_key=[asset.external_key], q="pal").data == [asset]
        echoed = call("assets.update_asset", asset.id, body=models.UpdateAssetRequest.from_dict(asset.to_dict())).data
        assert echoed.updated_at > asset.updated_at
        moved = models.UpdateLocationRequest.from_dict(gate.to_dict() | {"name": "Gate 1"})
        assert call("locations.update_location", gate.id, body=moved).data.name == "Gate 1"
        renamed = call("locations.rename_location", dock.id, body=models.RenameLocationRequest(external_key="DOCK-1"))
        assert (renamed.data.external_key, renamed.descendant_count_affected) == ("DOCK-1", 1)
        second = models.TagRequest(tag_type=models.TagRequestTagType.BLE, value="AA:BB")
        attached = call("assets.add_asset_tag", asset.id, body=second).data
        call("assets.remove_asset_tag", asset.id, attached.id)
        assert [row.id for row in call("locations.list_location_ancestors", gate.id).data] == [dock.id]
        assert [row.id for row in call("locations.list_location_children", dock.id).data] == [gate.id]
        assert [row.id for row in call("locations.list_location_descendants", dock.id).data] == [gate.id]

        now = clock.now()
        for seconds, place in ((0, dock), (60, gate)):
            at = now + seconds * clock.SECOND
            record([Scan(organization_id, asset.id, place.id, None, None, at, at, Quality.HANDHELD)], 0)
        assert [row.location_id for row in call("tracking.list_asset_locations", asset_id=[asset.id]).data] == [gate.id]
        history = call("tracking.list_asset_history", asset.id).data
        assert [(row.location_id, row.duration_seconds) for row in history] == [(gate.id, 60), (dock.id, None)]
        call("assets.delete_asset", asset.id)
        missing = generated("api.assets.get_asset").sync_detailed(asset.id, client=client)
        assert (missing.status_code, missing.parsed.error.type_.value) == (404, "not_found")


def sign_in(generated: Any, address: str, client_id: str) -> Any:
    """Get tokens with the secret, then with the refresh token."""
    models = generated("models")
    anonymous = generated("client").Client(address, headers={"User-Agent": AGENT}, raise_on_unexpected_status=True)
    body = models.TokenRequestClientCredentials(
        models.TokenRequestClientCredentialsGrantType.CLIENT_CREDENTIALS, uuid.UUID(client_id), "secret"
    )
    with closing(anonymous.get_httpx_client()):
        pair = generated("api.access.create_token").sync(client=anonymous, body=body)
        body = models.TokenRequestRefreshToken(
            models.TokenRequestRefreshTokenGrantType.REFRESH_TOKEN, refresh_token=pair.refresh_token
        )
        pair = generated("api.access.create_token").sync(client=anonymous, body=body)
    return generated("client").AuthenticatedClient(
        address, pair.access_token, headers={"User-Agent": AGENT}, raise_on_unexpected_status=True
    )
