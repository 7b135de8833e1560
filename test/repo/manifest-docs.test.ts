// The manifest in docs/manifest.md is valid, and the page describes every key.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { readManifest } from '../../src/daemons/agentd/manifests/read-manifest.ts';
import { buildLibrary } from '../../src/daemons/agentd/personas/library.ts';
import { readPersona } from '../../src/daemons/agentd/personas/persona-file.ts';
import { Manifest } from '../../src/wire/manifest.ts';
import { ROOT } from '../support/runtime.ts';

const page = readFileSync(join(ROOT, 'docs', 'manifest.md'), 'utf8');

it('the example loads', () => {
  const text = /```yaml\n([\s\S]*?)```/.exec(page)?.[1] ?? '';
  const readings = ['base', 'roles/coder'].map((ref) => {
    const file = join(ROOT, 'personas', `${ref}.md`);
    return { ref, result: readPersona(readFileSync(file, 'utf8'), 'package', file) };
  });
  const personas = buildLibrary(readings, { stray: [], version: '' });
  const read = readManifest(text, 'coder.yaml', { personas });
  assert.ok(read.ok, JSON.stringify(read));
});

it('every key of a spec is described', () => {
  for (const key of Object.keys(Manifest.shape.spec.shape))
    assert.match(page, new RegExp(`^\\| .*\`${key}[.\`]`, 'm'), key);
});
