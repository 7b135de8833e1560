// docs/config.md is written by hand: this compares its keys, defaults, limits and example with the
// schemas.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { z } from 'zod';
import { SECTIONS } from '../../src/entry/daemon-modules.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { projectRoot } from './fixture.ts';

type Schema = {
  type?: string;
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  items?: Schema;
  required?: string[];
  default?: unknown;
  enum?: string[];
  minimum?: number;
  exclusiveMinimum?: number;
  maximum?: number;
  maxLength?: number;
  maxItems?: number;
};
type Row = { default: string; limit: string };

const page = readFileSync(join(projectRoot, 'docs/config.md'), 'utf8');

/** Collects every value a file may set, by its path; NAME stands for a user-defined name. */
function flatten(path: string, schema: Schema, isRequired: boolean, rows: Map<string, Row>): void {
  const { properties, additionalProperties: named, items } = schema;
  if (properties !== undefined) {
    for (const [name, inner] of Object.entries(properties))
      flatten(`${path}.${name}`, inner, schema.required?.includes(name) === true, rows);
  } else if (typeof named === 'object') flatten(`${path}.NAME`, named, false, rows);
  else if (items?.properties !== undefined) flatten(`${path}[]`, items, false, rows);
  else rows.set(path, { default: defaultOf(schema, isRequired), limit: limitOf(schema) });
}

function defaultOf(schema: Schema, isRequired: boolean): string {
  const value = schema.default;
  if (value === undefined) return isRequired ? 'required' : '–';
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.join(', ');
  return String(value);
}

function limitOf(schema: Schema): string {
  const { type, minimum, exclusiveMinimum, maximum } = schema;
  if (schema.enum !== undefined) return schema.enum.join(', ');
  if (type === 'boolean') return 'true, false';
  if (type === 'array') return `at most ${schema.maxItems}`;
  if (type === 'string')
    return schema.maxLength === undefined ? 'text' : `at most ${schema.maxLength} characters`;
  const least = minimum ?? (exclusiveMinimum ?? 0) + 1;
  const isBounded = maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER;
  return isBounded ? `${least} to ${maximum}` : `${least} or more`;
}

function keysOfSchemas(): Map<string, Row> {
  const rows = new Map<string, Row>();
  for (const [name, schema] of Object.entries(SECTIONS))
    flatten(name, z.toJSONSchema(schema, { io: 'input' }) as Schema, false, rows);
  return rows;
}

/** Rows that look like: | `agentd.lease_s` | 60 | 5 to 3600 | s | what it is | */
function keysOfPage(): Map<string, Row> {
  const rows = new Map<string, Row>();
  for (const line of page.split('\n')) {
    const [, key, fallback, limit] = /^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|/.exec(line) ?? [];
    if (key === undefined || !key.includes('.')) continue;
    assert.ok(!rows.has(key), `${key} is documented twice`);
    rows.set(key, { default: fallback!.trim(), limit: limit!.trim() });
  }
  return rows;
}

test('every key of the configuration is in docs/config.md with its default and limit', () => {
  const documented = keysOfPage();
  for (const [key, row] of keysOfSchemas()) {
    assert.ok(documented.has(key), `${key} is missing in docs/config.md`);
    assert.deepEqual(documented.get(key), row, `docs/config.md says something else of ${key}`);
  }
});

test('docs/config.md names no unknown key', () => {
  const known = keysOfSchemas();
  assert.deepEqual(
    [...keysOfPage().keys()].filter((key) => !known.has(key)),
    [],
  );
});

test('the example in docs/config.md is valid', (t) => {
  const [, example] = /```yaml\n([\s\S]+?)```/.exec(page) ?? [];
  assert.ok(example !== undefined, 'there is an example');
  const dir = mkdtempSync(join(tmpdir(), 'agentd-config-'));
  t.after(() => rmSync(dir, { recursive: true }));
  const file = join(dir, 'agentd.yaml');
  writeFileSync(file, example);
  const config = loadConfig(file, SECTIONS, { mustExist: true });
  assert.ok(Object.keys(config.modeld.providers).length > 0);
  assert.ok(Object.keys(config.modeld.models).length > 0);
});
