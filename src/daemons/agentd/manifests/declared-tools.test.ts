// Manifests may name operator-declared tools that toold knows.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '../../../platform/log.ts';
import { fault } from '../../../wire/errors.ts';
import { NO_PERSONAS } from '../personas/library.ts';
import { makeManifestReader } from './declared-tools.ts';

const manifest = (tool: string) =>
  `apiVersion: agentd/v1\nkind: Agent\nmetadata: { name: ops }\nspec: { tools: { allow: [${tool}] } }\n`;

function setUp(names: string[] | undefined) {
  let requests = 0;
  const listTools = async () => {
    requests++;
    if (names === undefined) throw fault('unavailable', 'toold is unavailable');
    return { tools: names.map((name) => ({ name }) as never) };
  };
  const read = makeManifestReader({
    closedDirs: new Map(),
    personas: () => NO_PERSONAS,
    toold: { listTools },
    log: silentLog,
  });
  return { read, requests: () => requests };
}

test('tools are listed only for an unknown capability', async () => {
  const { read, requests } = setUp(['service.restart']);
  assert.ok((await read(manifest('git.read'), 'a.yaml')).ok);
  assert.equal(requests(), 0);
  const found = await read(manifest('service.restart'), 'a.yaml');
  assert.ok(found.ok);
  assert.ok(found.agent.tools.includes('service.restart'));
  assert.ok((await read(manifest('service.restart'), 'a.yaml')).ok);
  assert.equal(requests(), 1);
});

test('a name that is no tool stays a problem, with and without toold', async () => {
  for (const names of [['service.restart'], undefined]) {
    const found = await setUp(names).read(manifest('service.restrat'), 'a.yaml');
    assert.ok(!found.ok);
    assert.match(found.problems[0]!.message, /unknown capability service\.restrat/);
  }
});
