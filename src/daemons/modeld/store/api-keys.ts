// Stores API keys, and of each secret only its hash. A key that was revoked keeps its row: its name
// stays in the sums of usage.
import type { Sql } from '../../../platform/sql/database.ts';
import type { KeyScope } from '../../../wire/caller.ts';

export const API_KEYS = `
CREATE TABLE api_keys (
  name TEXT PRIMARY KEY,
  scopes TEXT NOT NULL,
  owner TEXT,
  models TEXT,
  requests_per_min INTEGER,
  created_by TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  expires_ms INTEGER,
  revoked_ms INTEGER
) WITHOUT ROWID;
CREATE TABLE api_key_secrets (
  id TEXT PRIMARY KEY,
  key_name TEXT NOT NULL,
  hash BLOB NOT NULL,
  created_ms INTEGER NOT NULL,
  ends_ms INTEGER
) WITHOUT ROWID;`;

export type StoredSecret = {
  id: string;
  keyName: string;
  hash: Uint8Array;
  createdMs: number;
  /** When a rotation ends it. */
  endsMs: number | null;
};

export type StoredKey = {
  name: string;
  scopes: KeyScope[];
  owner: string | null;
  /** Patterns of model names; null for every model. */
  models: string[] | null;
  requestsPerMin: number | null;
  createdBy: string;
  createdMs: number;
  expiresMs: number | null;
  revokedMs: number | null;
};

type KeyRow = {
  name: string;
  scopes: string;
  owner: string | null;
  models: string | null;
  requests_per_min: number | null;
  created_by: string;
  created_ms: number;
  expires_ms: number | null;
  revoked_ms: number | null;
};

export async function readKeys(sql: Sql): Promise<StoredKey[]> {
  const rows = await sql.all<KeyRow>('SELECT * FROM api_keys ORDER BY name');
  return rows.map((row) => ({
    name: row.name,
    scopes: JSON.parse(row.scopes) as KeyScope[],
    owner: row.owner,
    models: row.models === null ? null : (JSON.parse(row.models) as string[]),
    requestsPerMin: row.requests_per_min,
    createdBy: row.created_by,
    createdMs: row.created_ms,
    expiresMs: row.expires_ms,
    revokedMs: row.revoked_ms,
  }));
}

export async function readSecrets(sql: Sql): Promise<StoredSecret[]> {
  const rows = await sql.all<{
    id: string;
    key_name: string;
    hash: Uint8Array;
    created_ms: number;
    ends_ms: number | null;
  }>('SELECT * FROM api_key_secrets ORDER BY created_ms, id');
  return rows.map((row) => ({
    id: row.id,
    keyName: row.key_name,
    hash: row.hash,
    createdMs: row.created_ms,
    endsMs: row.ends_ms,
  }));
}

export async function writeKey(sql: Sql, key: StoredKey): Promise<void> {
  await sql.run(
    `INSERT INTO api_keys (name, scopes, owner, models, requests_per_min, created_by, created_ms,
       expires_ms, revoked_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    key.name,
    JSON.stringify(key.scopes),
    key.owner,
    key.models === null ? null : JSON.stringify(key.models),
    key.requestsPerMin,
    key.createdBy,
    key.createdMs,
    key.expiresMs,
    key.revokedMs,
  );
}

export async function writeSecret(sql: Sql, secret: StoredSecret): Promise<void> {
  await sql.run(
    `INSERT INTO api_key_secrets (id, key_name, hash, created_ms, ends_ms) VALUES (?, ?, ?, ?, ?)`,
    secret.id,
    secret.keyName,
    Buffer.from(secret.hash),
    secret.createdMs,
    secret.endsMs,
  );
}

export async function markRevoked(sql: Sql, name: string, revokedMs: number): Promise<void> {
  await sql.run('UPDATE api_keys SET revoked_ms = ? WHERE name = ?', revokedMs, name);
}

export async function endSecret(sql: Sql, id: string, endsMs: number): Promise<void> {
  await sql.run('UPDATE api_key_secrets SET ends_ms = ? WHERE id = ?', endsMs, id);
}
