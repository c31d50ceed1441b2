/**
 * The bodies of the specification, written out by hand, held against what was generated from the document: whoever
 * relies on these types and finds them changed has found a break of v1, and this no longer compiles.
 */
import type { components } from "./schema.js";

type Generated = components["schemas"];

/** Every named field is read as this type, neither wider nor narrower; fields beyond it are ignored. */
type Read<Made extends Told, Told extends Partial<Made>> = Made;
/** Every named field can be sent, and none that may be left out is asked for. */
type Sent<Made, Told extends Made> = Told & Made;

type Timestamp = string;
type Metadata = { [key: string]: unknown };
type TagType = "rfid" | "ble" | "barcode";

interface Described {
  id: number;
  external_key: string;
  name: string;
  description: string | null;
  is_active: boolean;
  valid_from: Timestamp;
  valid_to: Timestamp | null;
  created_at: Timestamp;
  updated_at: Timestamp;
  deleted_at: Timestamp | null;
  tags: Tag[];
}
type Placed = { parent_id: number | null; parent_external_key: string | null };

export type Tag = Read<Generated["Tag"], { id: number; tag_type: TagType; value: string }>;
export type Asset = Read<Generated["AssetView"], Described & { metadata: Metadata }>;
export type Location = Read<Generated["LocationView"], Described & Placed>;
export type AssetLocationItem = Read<
  Generated["AssetLocationItem"],
  {
    asset_id: number;
    asset_external_key: string;
    location_id: number | null;
    location_external_key: string | null;
    asset_deleted_at: Timestamp | null;
    asset_last_seen: Timestamp;
  }
>;
export type AssetHistoryItem = Read<
  Generated["AssetHistoryItem"],
  {
    event_observed_at: Timestamp;
    location_id: number;
    location_external_key: string;
    duration_seconds: number | null;
  }
>;
export type Organization = Read<
  Generated["OrgView"],
  { id: number; name: string; scopes: string[]; api_key_id: string }
>;

type One<Data> = { data: Data };
type Renamed<Data> = { data: Data; descendant_count_affected: number };
type Page<Item> = { data: Item[]; limit: number; offset: number; total_count: number };

export type Answers = [
  Read<Generated["GetAssetResponse"], One<Asset>>,
  Read<Generated["GetLocationResponse"], One<Location>>,
  Read<Generated["AddAssetTagResponse"], One<Tag>>,
  Read<Generated["GetCurrentOrgResponse"], One<Organization>>,
  Read<Generated["RenameAssetResponse"], Renamed<Asset>>,
  Read<Generated["RenameLocationResponse"], Renamed<Location>>,
  Read<Generated["ListAssetsResponse"], Page<Asset>>,
  Read<Generated["ListLocationsResponse"], Page<Location>>,
  Read<Generated["AssetLocationsResponse"], Page<AssetLocationItem>>,
  Read<Generated["AssetHistoryResponse"], Page<AssetHistoryItem>>,
];
export type TokenPair = Read<
  Generated["TokenResponse"],
  { access_token: string; refresh_token: string; token_type: "Bearer"; expires_in: number }
>;

interface Params {
  min_length?: number;
  max_length?: number;
  min?: number;
  max?: number;
  allowed_values?: string[];
  expected_type?: "boolean" | "number" | "string" | "array" | "object" | "null";
  received_type?: "boolean" | "number" | "string" | "array" | "object" | "null";
  pattern?: string;
}
/** `type` and `code` may grow: they are read as strings. */
export type Fault = { field: string; code: string; message: string; params?: Params };
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  instance: string;
  request_id: string;
  fields?: Fault[];
}
type Widened<Made extends Told, Told> = Made & Told;
export type ApiError = Widened<Generated["ErrorResponse"], { error: Problem }>;

interface Writable {
  description?: string | null;
  is_active?: boolean;
  valid_from?: Timestamp;
  valid_to?: Timestamp | null;
}
type NewTag = { tag_type: TagType; value: string };
type New = Writable & { name: string; external_key?: string; tags?: NewTag[] };

export type Requests = [
  Sent<Generated["TokenRequest"], { grant_type: "client_credentials"; client_id: string; client_secret: string }>,
  Sent<Generated["TokenRequest"], { grant_type: "refresh_token"; refresh_token: string }>,
  Sent<Generated["TagRequest"], NewTag>,
  Sent<Generated["RenameAssetRequest"], { external_key: string }>,
  Sent<Generated["CreateAssetWithTagsRequest"], New & { metadata?: Metadata }>,
  Sent<Generated["CreateLocationWithTagsRequest"], New & Partial<Placed>>,
  Sent<Generated["UpdateAssetRequest"], Writable & { name?: string; metadata?: Metadata }>,
  Sent<Generated["UpdateLocationRequest"], Writable & Partial<Placed> & { name?: string }>,
  // What was read can be sent back as it is.
  Sent<Generated["UpdateAssetRequest"], Asset>,
  Sent<Generated["UpdateLocationRequest"], Location>,
];
