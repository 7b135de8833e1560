// A manifest may name a tool that an operator declared, as soon as toold knows it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '../../platform/log.ts';
import { fault } from '../../wire/errors.ts';
import { makeManifestReader } from './declared-tools.ts';

const manifest = (word: string) =>
  `apiVersion: agentd/v1\nkind: Agent\nmetadata: { name: ops }\nspec: { tools: { allow: [${word}] } }\n`;

function setUp(names: string[] | undefined) {
  let asked = 0;
  const listTools = async () => {
    asked++;
    if (names === undefined) throw fault('unavailable', 'toold is away');
    return { tools: names.map((name) => ({ name }) as never) };
  };
  const read = makeManifestReader({ toold: { listTools }, log: silentLog });
  return { read, asked: () => asked };
}

test('toold is asked only for a word that nobody knows', async () => {
  const { read, asked } = setUp(['service.restart']);
  assert.ok((await read(manifest('git.read'), 'a.yaml')).ok);
  assert.equal(asked(), 0);
  const found = await read(manifest('service.restart'), 'a.yaml');
  assert.ok(found.ok);
  assert.ok(found.agent.tools.includes('service.restart'));
  assert.ok((await read(manifest('service.restart'), 'a.yaml')).ok);
  assert.equal(asked(), 1);
});

test('a word that is no tool stays a problem, with and without toold', async () => {
  for (const names of [['service.restart'], undefined]) {
    const found = await setUp(names).read(manifest('service.restrat'), 'a.yaml');
    assert.ok(!found.ok);
    assert.match(found.problems[0]!.message, /unknown capability service\.restrat/);
  }
});
