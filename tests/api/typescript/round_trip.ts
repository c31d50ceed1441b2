/** What an integrator writes with the generated types: each step once, each kind of refusal once. */
import assert from "node:assert/strict";

import createClient, { type Client, type Middleware } from "openapi-fetch";

import type { paths } from "./schema.js";
import type { Asset, Location, Problem, ApiError, TokenPair } from "./specified.js";

/** Where the server is, whose key it is, and an asset that was scanned at two places a minute apart, the later first. */
interface Site {
  address: string;
  client_id: string;
  client_secret: string;
  seen: { external_key: string; location_ids: [number, number] };
}
type Api = Client<paths>;
type Answer<Data> =
  | { data: Data; error?: never; response: Response }
  | { data?: never; error: ApiError | string; response: Response };

const ASSETS = "/api/v1/assets";
const ASSET = "/api/v1/assets/{asset_id}";
const LOCATIONS = "/api/v1/locations";
const LOCATION = "/api/v1/locations/{location_id}";

async function main(site: Site): Promise<void> {
  const { access_token } = await signIn(site);
  const api = connect(site, access_token);
  const { data: me } = await done(api.GET("/api/v1/orgs/me"));
  assert.deepEqual([me.api_key_id, me.scopes.includes("tracking:read")], [site.client_id, true]);
  const asset = await keepAssets(api);
  await keepLocations(api);
  await follow(api, site);
  await takeRefusals(api, site, asset);
}

/** With the secret first, then with the refresh token. */
async function signIn({ address, client_id, client_secret }: Site): Promise<TokenPair> {
  const token = (body: paths["/api/v1/oauth/token"]["post"]["requestBody"]["content"]["application/json"]) =>
    done(connect({ address }).POST("/api/v1/oauth/token", { body }));
  const { refresh_token } = await token({ grant_type: "client_credentials", client_id, client_secret });
  return token({ grant_type: "refresh_token", refresh_token });
}

function connect({ address }: Pick<Site, "address">, token?: string, agent = "acme-wms/1.4"): Api {
  const authorization = token === undefined ? {} : { Authorization: `Bearer ${token}` };
  const api = createClient<paths>({ baseUrl: address, headers: { "User-Agent": agent, ...authorization } });
  api.use(mergePatch);
  return api;
}

/** openapi-fetch says `application/json` unless told otherwise. */
const mergePatch: Middleware = {
  onRequest({ request }) {
    if (request.method === "PATCH") request.headers.set("Content-Type", "application/merge-patch+json");
  },
};

async function keepAssets(api: Api): Promise<Asset> {
  const made = await api.POST(ASSETS, {
    body: { name: "Pallet", metadata: { weight: [1.5, "kg"] }, tags: [{ tag_type: "rfid", value: "E2001" }] },
  });
  const { data: asset } = await done(made);
  assert.equal(made.response.headers.get("Location"), `${ASSETS}/${asset.id}`);
  const path = { asset_id: asset.id };
  assert.deepEqual(await done(api.GET(ASSET, { params: { path } })), { data: asset });
  const query = { external_key: [asset.external_key, "NONE"], q: "pal", limit: 5, sort: "-name", is_active: true };
  const page = { data: [asset], limit: 5, offset: 0, total_count: 1 };
  assert.deepEqual(await done(api.GET(ASSETS, { params: { query } })), page);

  const { data: echoed } = await done(api.PATCH(ASSET, { params: { path }, body: asset }));
  assert.deepEqual({ ...echoed, updated_at: asset.updated_at }, asset);
  assert.ok(echoed.updated_at > asset.updated_at);
  const change = { description: null, valid_to: "2100-01-01T00:00:00Z", metadata: {}, updated_at: echoed.updated_at };
  const { data: changed } = await done(api.PATCH(ASSET, { params: { path }, body: change }));
  assert.deepEqual([changed.description, changed.valid_to, changed.metadata], [null, "2100-01-01T00:00:00.000Z", {}]);
  const body = { external_key: "PALLET-1" };
  const renamed = await done(api.POST(`${ASSET}/rename`, { params: { path }, body }));
  assert.deepEqual([renamed.data.external_key, renamed.descendant_count_affected], ["PALLET-1", 0]);

  const second = { tag_type: "ble", value: "AA:BB" } as const;
  const { data: tag } = await done(api.POST(`${ASSET}/tags`, { params: { path }, body: second }));
  assert.deepEqual(tag, { id: tag.id, ...second });
  const detached = api.DELETE(`${ASSET}/tags/{tag_id}`, { params: { path: { ...path, tag_id: tag.id } } });
  assert.equal(await done(detached), undefined);
  return (await done(api.GET(ASSET, { params: { path } }))).data;
}

async function keepLocations(api: Api): Promise<void> {
  const { data: dock } = await done(api.POST(LOCATIONS, { body: { name: "Dock", external_key: "DOCK" } }));
  const below = { name: "Gate", parent_external_key: dock.external_key };
  const { data: gate } = await done(api.POST(LOCATIONS, { body: below }));
  const ofDock = { params: { path: { location_id: dock.id } } };
  const ofGate = { params: { path: { location_id: gate.id } } };
  const ids = async (answer: Promise<Answer<{ data: Location[] }>>) => (await done(answer)).data.map(({ id }) => id);

  const { data: echoed } = await done(api.PATCH(LOCATION, { ...ofGate, body: { ...gate, name: "Gate 1" } }));
  assert.deepEqual({ ...echoed, updated_at: gate.updated_at }, { ...gate, name: "Gate 1" });
  const renamed = await done(api.POST(`${LOCATION}/rename`, { ...ofDock, body: { external_key: "DOCK-1" } }));
  assert.deepEqual([renamed.data.external_key, renamed.descendant_count_affected], ["DOCK-1", 1]);
  assert.deepEqual(await ids(api.GET(`${LOCATION}/ancestors`, ofGate)), [dock.id]);
  assert.deepEqual(await ids(api.GET(`${LOCATION}/children`, ofDock)), [gate.id]);
  assert.deepEqual(await ids(api.GET(`${LOCATION}/descendants`, ofDock)), [gate.id]);

  assert.deepEqual(await refused(api.DELETE(LOCATION, ofDock)), ["conflict"]);
  const { data: root } = await done(api.PATCH(LOCATION, { ...ofGate, body: { parent_id: null } }));
  assert.deepEqual([root.parent_id, root.parent_external_key], [null, null]);
  assert.equal(await done(api.DELETE(LOCATION, ofDock)), undefined);
}

async function follow(api: Api, { seen }: Site): Promise<void> {
  const [place, before] = seen.location_ids;
  const query = { location_id: [place, before] };
  const report = await done(api.GET("/api/v1/reports/asset-locations", { params: { query } }));
  const last = report.data.map((row) => [row.asset_external_key, row.location_id, row.asset_deleted_at]);
  assert.deepEqual([last, report.total_count], [[[seen.external_key, place, null]], 1]);

  const path = { asset_id: report.data[0]?.asset_id ?? 0 };
  const history = await done(api.GET(`${ASSET}/history`, { params: { path, query: { from: "2020-01-01T00:00:00Z" } } }));
  const stays = history.data.map((row) => [row.location_id, row.duration_seconds]);
  const expected = [
    [place, 60],
    [before, null],
  ];
  assert.deepEqual(stays, expected);
  assert.equal(history.data[0]?.event_observed_at, report.data[0]?.asset_last_seen);
}

async function takeRefusals(api: Api, site: Site, asset: Asset): Promise<void> {
  const of = { params: { path: { asset_id: asset.id } } };
  const { name, external_key } = asset;
  const long = await problem(api.POST(ASSETS, { body: { name: "x".repeat(256) } }));
  assert.deepEqual([told(long), long.fields?.[0]?.params?.max_length], [["name too_long"], 255]);
  const stale = { ...asset, updated_at: asset.created_at };
  assert.deepEqual(await refused(api.PATCH(ASSET, { ...of, body: stale })), ["updated_at read_only"]);
  const others = { ...asset, tags: [] };
  assert.deepEqual(await refused(api.PATCH(ASSET, { ...of, body: others })), ["tags invalid_context"]);
  assert.deepEqual(await refused(api.POST(ASSETS, { body: { name, external_key } })), ["conflict"]);
  const { value, tag_type } = asset.tags[0] ?? { value: "", tag_type: "rfid" };
  assert.deepEqual(await refused(api.POST(`${ASSET}/tags`, { ...of, body: { value, tag_type } })), ["conflict"]);
  assert.deepEqual(await refused(connect(site, "stale").GET(ASSET, of)), ["unauthorized"]);
  assert.equal(await done(api.DELETE(ASSET, of)), undefined);
  assert.deepEqual(await refused(api.GET(ASSET, of)), ["not_found"]);

  const filtered = await connect(site, "any", "curl/8.0").GET(ASSET, of);
  assert.equal(filtered.response.status, 403);
  assert.ok(typeof filtered.error === "string", "the front-line filter answers in plain text");
}

/** The body of a success. */
async function done<Data>(answer: Answer<Data> | Promise<Answer<Data>>): Promise<Data> {
  const { data, error, response } = await answer;
  assert.ok(error === undefined, `${response.status} ${response.url}: ${JSON.stringify(error)}`);
  return data;
}

async function problem(answer: Promise<Answer<unknown>>): Promise<Problem> {
  const { error, response } = await answer;
  assert.ok(error !== undefined && typeof error !== "string", `${response.status} ${response.url} has no envelope`);
  assert.equal(error.error.status, response.status);
  assert.equal(error.error.request_id, response.headers.get("X-Request-ID"));
  return error.error;
}

async function refused(answer: Promise<Answer<unknown>>): Promise<string[]> {
  return told(await problem(answer));
}

/** What a program acts on: field and code of each fault, or the type where there is none. */
function told({ type, fields = [] }: Problem): string[] {
  return type === "validation_error" ? fields.map(({ field, code }) => `${field} ${code}`) : [type];
}

await main(JSON.parse(process.argv[2] ?? "") as Site);
