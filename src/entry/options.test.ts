// What the runtime says of itself is what the package says.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { VERSION } from './options.ts';

test('its version is that of the package', () => {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  assert.equal(VERSION, (JSON.parse(text) as { version: string }).version);
});
