// A declared tool that breaks its declaration repeatedly is suspended automatically, in the task
// tree that made it do so and, when that is not the only one, for every run; over a restart, until
// a person resumes it.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it, test } from 'node:test';
import fc from 'fast-check';
import { openTestBox, type TestBox } from '../../../../test/support/test-box.ts';
import { deriveId } from '../../../platform/ids.ts';
import type { TaskId } from '../../../wire/primitives.ts';
import {
  allSent,
  hostToold,
  isCode,
  makeWorld,
  publishPolicy,
  type TooldTestHost,
  type TooldTestRun,
  type TooldWorld,
} from '../testing/host.ts';
import { fakeSandboxd } from '../testing/sandboxd.ts';
import { shouldSuspendForAll } from './containment.ts';

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

let world: TooldWorld;
let box: TestBox;
let host: TooldTestHost;
let run: TooldTestRun;
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
const callFull = (name: string, by = run) => by.ask(n++, `site.${name}`, { n });
const ask = async (name: string, by = run) => {
  const { status, error } = await callFull(name, by);
  return error?.code ?? status;
};
const violate = async (times: number, by = run) => {
  for (let i = 0; i < times; i++) assert.equal(await ask('chatty', by), 'bad_output');
};
/** Admits a run of another tree. */
const other = (name: string) => host.admit(name, { tools: NAMES });
const TREE = deriveId<TaskId>('task', deriveId('run', 'one'));
const viewOf = async (name: string, by = host.operator) => {
  const { tools } = await by.listTools({});
  const view = tools.find((one) => one.name === `site.${name}`)!;
  return { suspended: view.suspended, suspended_in: view.suspended_in };
};
const FREE = { suspended: undefined, suspended_in: undefined };
const scopes = async () => {
  await allSent(world);
  const suspensions = world.audit.events.filter(({ event }) => event === 'tool.suspended');
  return suspensions.map(({ tool: name, data }) => [name, data?.scope, data?.violations]);
};

test('violations in one task tree never suspend a tool for all runs, in two they do', () => {
  const kind = fc.constantFrom('output', 'limit', 'network');
  const of = (tree: string) => fc.array(fc.record({ tree: fc.constant(tree), kind }));
  fc.assert(
    fc.property(
      of('a'),
      of('b'),
      fc.boolean(),
      fc.integer({ min: 1, max: 5 }),
      (a, b, isHeld, max) => {
        const held = new Set(isHeld ? ['a'] : []);
        assert.equal(shouldSuspendForAll(a, held, max), false);
        const [isA, isB] = [a.length >= max || (isHeld && a.length > 0), b.length >= max];
        assert.equal(shouldSuspendForAll([...a, ...b], held, max), isA && isB);
      },
    ),
  );
});

describe('a declared tool', () => {
  for (const [name, code, why] of [
    ['chatty', 'bad_output', /does not match its declaration/],
    ['wrong', 'bad_output', /does not match its declaration/],
    ['slow', 'limit', /exceeded its limits/],
  ] as const)
    it(`${name}: is suspended after repeated violations, and no other tool is`, async () => {
      for (let i = 0; i < MAX; i++) assert.equal(await ask(name), code);
      const { error } = await callFull(name);
      assert.equal(error?.code, 'suspended');
      assert.match(error!.message, /suspended in this task and its subtasks .*: 3 violations: /);
      assert.match(error!.message, why);
      assert.match(error!.hint!, new RegExp(`agentctl tool resume site\\.${name}`));
      assert.equal(await ask('good'), 'completed');
      const { suspended, suspended_in } = await viewOf(name);
      assert.equal(suspended, undefined);
      assert.deepEqual(
        suspended_in!.map(({ task_id }) => task_id),
        [TREE],
      );
      assert.match(suspended_in![0]!.reason, why);
      assert.deepEqual(await scopes(), [[`site.${name}`, 'task_tree', MAX]]);
    });

  it('is not suspended for others by one task tree, but by two', async () => {
    await violate(MAX);
    const second = await other('two');
    await violate(MAX - 1, second);
    assert.deepEqual([await ask('chatty'), await ask('chatty')], ['suspended', 'suspended']);
    assert.deepEqual(await viewOf('chatty', second.client), FREE, 'others do not see whose');
    assert.equal((await viewOf('chatty', run.client)).suspended_in?.length, 1);

    await violate(1, second);
    const third = await other('three');
    assert.equal(await ask('chatty', third), 'suspended');
    const { error } = await callFull('chatty');
    assert.match(error!.message, /suspended for all agents: 6 violations in 2 task trees: /);
    const { suspended, suspended_in } = await viewOf('chatty');
    assert.equal(suspended?.by, 'service:toold');
    assert.equal(suspended_in?.length, 2);
    assert.equal(await ask('good', third), 'completed');
    assert.deepEqual(await scopes(), [
      ['site.chatty', 'task_tree', MAX],
      ['site.chatty', 'everybody', 2 * MAX],
    ]);
  });

  it('is not suspended for others by calls a task tree had in progress when it was suspended there', async () => {
    const calls = Array.from({ length: 3 * MAX }, () => ask('chatty'));
    const codes = new Set(await Promise.all(calls));
    assert.ok(codes.has('bad_output'));
    assert.equal(await ask('chatty'), 'suspended');
    await violate(1, await other('two'));
    assert.equal((await viewOf('chatty')).suspended, undefined);
  });

  it('is suspended for all when many task trees each make it violate a little', async () => {
    for (let i = 0; i < 2 * MAX; i++) await violate(1, await other(`tree ${i}`));
    assert.equal(await ask('chatty'), 'suspended');
    assert.match((await viewOf('chatty')).suspended!.reason, /6 violations in 6 task trees/);
    assert.deepEqual(await scopes(), [['site.chatty', 'everybody', 2 * MAX]]);
  });

  it('is suspended for subtasks and later runs of their task tree', async () => {
    const task_id = deriveId<TaskId>('task', 'below');
    const below = { task_id, root_task_id: TREE, tools: NAMES };
    const child = await host.admit('child', below);
    await violate(MAX - 1);
    await violate(1, child);
    const again = await host.admit('again', { ...below, task_id: TREE });
    for (const one of [run, child, again]) assert.equal(await ask('chatty', one), 'suspended');
    const { suspended, suspended_in } = await viewOf('chatty');
    assert.equal(suspended, undefined);
    assert.deepEqual(
      suspended_in!.map((held) => held.task_id),
      [TREE],
    );
    const elsewhere = { ...below, root_task_id: deriveId<TaskId>('task', 'elsewhere') };
    await violate(1, await host.admit('elsewhere', elsewhere));
  });

  it('that fails, or keeps to its declaration, goes on', async () => {
    for (let i = 0; i < MAX + 2; i++) assert.equal(await ask('fails'), 'command_failed');
    for (let i = 0; i < MAX + 2; i++) assert.equal(await ask('good'), 'completed');
    assert.deepEqual(await viewOf('fails'), FREE);
  });

  it('is not suspended for violations outside the window', async () => {
    await violate(MAX - 1);
    world.clock.advance(601_000);
    await violate(MAX - 1);
    assert.deepEqual(await viewOf('chatty'), FREE);
  });

  it('stays suspended in a task tree for any time, and that counts against it', async () => {
    await violate(MAX);
    world.clock.advance(30 * 86_400_000);
    assert.equal(await ask('chatty'), 'suspended');
    const second = await other('two');
    await violate(MAX, second);
    assert.equal(await ask('chatty', second), 'suspended');
    assert.match((await viewOf('chatty')).suspended!.reason, /6 violations in 2 task trees/);
  });

  it('stays suspended over a restart, until a person resumes it', async () => {
    const params = { name: 'site.chatty' };
    for (const trees of [1, 2]) {
      await violate(MAX);
      if (trees === 2) await violate(MAX, await other('two'));
      const before = await viewOf('chatty');
      await host.stop();
      await start();
      assert.deepEqual(await viewOf('chatty'), before);
      assert.equal(before.suspended === undefined, trees === 1);
      assert.equal(await ask('chatty'), 'suspended');
      assert.equal(
        await ask('chatty', await other('three')),
        trees === 1 ? 'bad_output' : 'suspended',
      );

      const { tool: view } = await host.operator.resumeTool({ params });
      assert.deepEqual([view.suspended, view.suspended_in], [undefined, undefined]);
      await violate(MAX - 1);
      assert.deepEqual(await viewOf('chatty'), FREE, 'counted from zero');
      await assert.rejects(host.operator.resumeTool({ params }), isCode('conflict'));
      world.clock.advance(601_000);
    }
    await allSent(world);
    const resumed = world.audit.events.filter(({ event }) => event === 'tool.resumed');
    assert.deepEqual(
      resumed.map(({ principal, tool: name }) => [principal, name]),
      Array.from({ length: 2 }, () => ['person:alice', 'site.chatty']),
    );
  });

  it('is suspended and resumed by people, as any other tool is', async () => {
    const params = { name: 'site.good' };
    await host.operator.suspendTool({ params, body: { reason: 'looks odd' } });
    for (const one of [run, await other('two')]) assert.equal(await ask('good', one), 'suspended');
    assert.deepEqual((await viewOf('good')).suspended, {
      since: '2026-06-29T18:00:00.000Z',
      by: 'person:alice',
      reason: 'looks odd',
    });
    assert.deepEqual(await scopes(), [['site.good', 'everybody', undefined]]);
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

  it('that a person suspends in addition to a task tree’s own is resumed in both', async () => {
    await violate(MAX);
    const params = { name: 'site.chatty' };
    await host.operator.suspendTool({ params, body: { reason: 'looks odd' } });
    const { error } = await callFull('chatty');
    assert.match(error!.message, /suspended for all agents: looks odd/);
    await host.operator.resumeTool({ params });
    await violate(1);
  });
});
