// A declared tool that breaks its declaration again and again is suspended by itself, for every
// run, over a restart, until a person lets it go on.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { openTestBox, type TestBox } from '../../../test/support/test-box.ts';
import {
  hostToold,
  isCode,
  makeWorld,
  publishPolicy,
  settled,
  type TestHost,
  type TestRun,
  type World,
} from './testing/host.ts';
import { fakeSandboxd } from './testing/sandboxd.ts';

const tool = (name: string, more: string, script: string) => `name: site.${name}
description: For tests.
argv: [/bin/sh, -c, '${script}', sh, '{n}']
input: { n: { type: integer } }
risk: low
reversibility: reversible
${more}
`;
const JSON_OUT = 'idempotent: true\noutput: { format: json, fields: { ok: { type: boolean } } }';
const DECLARED = {
  good: tool('good', JSON_OUT, 'echo "{\\"ok\\": true}"'),
  chatty: tool('chatty', JSON_OUT, 'echo hello'),
  wrong: tool('wrong', JSON_OUT, 'echo "{\\"ok\\": 1}"'),
  fails: tool('fails', 'idempotent: true', 'exit 3'),
  slow: tool('slow', 'idempotent: true\ntimeout_s: 1', 'sleep 30'),
};
const NAMES = Object.keys(DECLARED).map((name) => `site.${name}`);

let world: World;
let box: TestBox;
let host: TestHost;
let run: TestRun;
const MAX = 3;
const config = { violations_max: MAX, violations_within_s: 600 };
async function start(): Promise<void> {
  host = await hostToold(world, { config, sandboxd: fakeSandboxd(box.box) });
  run = await host.admit('one', { tools: NAMES });
}
beforeEach(async () => {
  [world, box] = [makeWorld(), await openTestBox()];
  const filesystem = { write: [box.workspace] };
  publishPolicy(world.dir, {
    coder: { tools: { allow: [...NAMES, 'shell.exec'] }, filesystem },
  });
  mkdirSync(join(world.dir, 'state/tools'));
  for (const [name, text] of Object.entries(DECLARED))
    writeFileSync(join(world.dir, `state/tools/${name}.yaml`), text, { mode: 0o600 });
  await start();
});
afterEach(async () => {
  await host.stop();
  world.remove();
  await box.close();
});

let n = 0;
const ask = async (name: string, by = run) => {
  const { status, error } = await by.ask(n++, `site.${name}`, { n });
  return error?.code ?? status;
};
const suspensionOf = async (name: string) => {
  const { tools } = await host.operator.listTools({});
  return tools.find((one) => one.name === `site.${name}`)?.suspended;
};

describe('a declared tool', () => {
  for (const [name, code, why] of [
    ['chatty', 'bad_output', /something else than it declares/],
    ['wrong', 'bad_output', /something else than it declares/],
    ['slow', 'limit', /into its limits/],
  ] as const)
    it(`${name}: is suspended after it broke its word so often, and no other is`, async () => {
      for (let i = 0; i < MAX; i++) assert.equal(await ask(name), code);
      assert.equal(await ask(name), 'suspended');
      const other = await host.admit('two', { tools: NAMES });
      assert.equal(await ask(name, other), 'suspended', 'for everybody');
      assert.equal(await ask('good'), 'completed');
      const held = await suspensionOf(name);
      assert.equal(held?.by, 'service:toold');
      assert.match(held!.reason, why);
      await settled(world);
      const told = world.audit.events.filter(({ event }) => event === 'tool.suspended');
      assert.deepEqual(
        told.map((event) => [event.tool, event.data?.violations]),
        [[`site.${name}`, MAX]],
      );
    });

  it('that fails, or keeps to its word, goes on', async () => {
    for (let i = 0; i < MAX + 2; i++) assert.equal(await ask('fails'), 'command_failed');
    for (let i = 0; i < MAX + 2; i++) assert.equal(await ask('good'), 'completed');
    assert.equal(await suspensionOf('fails'), undefined);
  });

  it('is not suspended for what is long ago', async () => {
    for (let i = 0; i < MAX - 1; i++) await ask('chatty');
    world.clock.advance(601_000);
    for (let i = 0; i < MAX - 1; i++) assert.equal(await ask('chatty'), 'bad_output');
    assert.equal(await suspensionOf('chatty'), undefined);
  });

  it('stays suspended over a restart, until a person resumes it', async () => {
    for (let i = 0; i < MAX; i++) await ask('chatty');
    await host.stop();
    await start();
    assert.equal(await ask('chatty'), 'suspended');
    const params = { name: 'site.chatty' };
    const { tool: view } = await host.operator.resumeTool({ params });
    assert.equal(view.suspended, undefined);
    assert.equal(await ask('chatty'), 'bad_output', 'counted from the beginning');
    assert.equal(await suspensionOf('chatty'), undefined);
    await assert.rejects(host.operator.resumeTool({ params }), isCode('conflict'));
    await settled(world);
    const resumed = world.audit.events.find(({ event }) => event === 'tool.resumed');
    assert.deepEqual([resumed?.principal, resumed?.tool], ['person:alice', 'site.chatty']);
  });

  it('is suspended and resumed by people, as any other tool is', async () => {
    const params = { name: 'site.good' };
    await host.operator.suspendTool({ params, body: { reason: 'looks odd' } });
    assert.equal(await ask('good'), 'suspended');
    assert.deepEqual(await suspensionOf('good'), {
      ...{ since: '2026-06-29T18:00:00.000Z', by: 'person:alice', reason: 'looks odd' },
    });
    await host.operator.resumeTool({ params });
    assert.equal(await ask('good'), 'completed');
    for (const [name, code] of [
      ['no.such', 'not_found'],
      ['task.finish', 'bad_request'],
    ] as const) {
      const body = { reason: 'x' };
      await assert.rejects(host.operator.suspendTool({ params: { name }, body }), isCode(code));
    }
  });
});
