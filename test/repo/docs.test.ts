// The reference pages are generated from the contract, and the check detects outdated ones.
import assert from 'node:assert/strict';
import { readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { addFiles, makeTree, projectRoot, runTool } from './fixture.ts';

function makeContract(t: TestContext): string {
  const root = makeTree(t, {
    'package.json': '{ "type": "module", "version": "1.2.3" }',
    'src/wire/errors.ts': [
      'export const FAULTS = {',
      "  not_found: { http: 404, exit: 5, retry: false, hint: 'List what exists.' },",
      '};',
    ],
    'docs/architecture.md': [
      'Before.',
      '<!-- daemons: made by tools/docs.ts from src/wire. Change that, then run: make docs -->',
      'Old.',
      '<!-- end of daemons -->',
      'After.',
    ],
    'src/wire/daemons.ts': [
      'export const DAEMON_TABLE = {',
      "  agentd: { owns: 'tasks', calls: ['thingd'] }, thingd: { owns: 'things', calls: [] },",
      '};',
    ],
    'src/wire/contracts.ts': [
      "import { thingdRoutes } from './thingd.ts';",
      'export const CONTRACTS = { thingd: thingdRoutes };',
    ],
    'src/wire/thingd.ts': [
      "import { z } from 'zod';",
      'export const Limits = z.strictObject({ steps: z.int().min(1).default(3) });',
      'export const Thing = z.object({ id: z.string(), limits: Limits });',
      'export const thingdRoutes = {',
      "  make: { method: 'POST', path: '/v1/things', callers: ['operator'], creates: true,",
      '    body: z.strictObject({ limits: Limits.optional() }), output: Thing },',
      "  show: { method: 'GET', path: '/v1/things/{id}', callers: ['run'],",
      '    params: z.strictObject({ id: z.string() }), output: Thing },',
      "  sync: { method: 'PUT', path: '/v1/sync', callers: ['agentd'], output: z.object({}) },",
      '};',
    ],
  });
  symlinkSync(join(projectRoot, 'node_modules'), join(root, 'node_modules'));
  return root;
}

test('missing pages fail, written pages pass, a changed contract fails again', (t) => {
  const root = makeContract(t);
  const missing = runTool('docs.ts', '--check', '--root', root);
  assert.match(missing.output, /docs\/errors\.md: is missing/);
  assert.equal(missing.status, 1);
  assert.equal(runTool('docs.ts', '--write', '--root', root).status, 0);
  assert.deepEqual(runTool('docs.ts', '--check', '--root', root), { status: 0, output: '' });
  addFiles(root, { 'src/wire/errors.ts': 'export const FAULTS = {};' });
  const changed = runTool('docs.ts', '--check', '--root', root);
  assert.match(changed.output, /docs\/errors\.md: differs from the code/);
  assert.equal(changed.status, 1);
});

test('the pages match the contract', (t) => {
  const root = makeContract(t);
  runTool('docs.ts', '--write', '--root', root);
  const page = (name: string): string => readFileSync(join(root, 'docs', name), 'utf8');
  assert.match(
    page('errors.md'),
    /\| `not_found` \| List what exists\. \| 404 Not Found \| 5 \| no \|/,
  );
  assert.match(
    page('api.md'),
    /### POST \/v1\/things\n\n`make` · for operator \(role operator\) · takes an/,
  );
  assert.match(page('api.md'), /### PUT \/v1\/sync/);
  const tables = page('architecture.md');
  assert.match(tables, /^Before\.\n<!-- daemons: [\s\S]+<!-- end of daemons -->\nAfter\.\n$/);
  assert.match(tables, /\| \[thingd\]\(\.\.\/src\/daemons\/thingd\/README\.md\) \| things \|/);
  assert.match(tables, /\| agentd \| thingd: sync \|\n\| thingd \| none \|/);
  assert.doesNotMatch(tables, /Old/);
  const api = JSON.parse(page('openapi.json'));
  assert.deepEqual(Object.keys(api.paths), ['/v1/things', '/v1/things/{id}'], 'public routes only');
  assert.deepEqual(api.paths['/v1/things/{id}'].get.parameters, [
    { name: 'id', in: 'path', required: true, schema: { type: 'string' } },
  ]);
  const { schemas } = api.components;
  assert.deepEqual(schemas.Limits.required, ['steps'], 'a response always has the default');
  assert.equal(schemas.LimitsInput.required, undefined, 'a request may omit it');
});

test('the picture of the demo must exist and show the current steps', (t) => {
  const root = makeContract(t);
  const svg = '<svg xmlns="x"><desc>1. Start</desc></svg>';
  addFiles(root, { 'demo/steps.ts': "export const STEPS = { start: '1. Start' };" });
  runTool('docs.ts', '--write', '--root', root);
  const missing = runTool('docs.ts', '--check', '--root', root);
  assert.match(missing.output, /docs\/demo\.svg: is missing; run: make docs/);
  assert.equal(missing.status, 1);
  addFiles(root, { 'docs/demo.svg': svg });
  assert.deepEqual(runTool('docs.ts', '--check', '--root', root), { status: 0, output: '' });
  addFiles(root, { 'docs/demo.svg': svg.replace('Start', 'Begin') });
  assert.match(
    runTool('docs.ts', '--check', '--root', root).output,
    /demo\.svg: shows other steps/,
  );
});

test('the docs of this tree match its code', () => {
  const { status, output } = runTool('docs.ts', '--check');
  assert.equal(status, 0, output);
});
