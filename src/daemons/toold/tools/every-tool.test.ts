// Every tool declares what toold, policy and a person must know before it is used.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../../platform/clock.ts';
import { describeArguments } from '../../../policy/arguments.ts';
import { loadCedar } from '../../../policy/cedar.ts';
import { ToolView } from '../../../wire/toold.ts';
import { makeRegistry } from './registry.ts';
import type { AgentdClient } from './tool.ts';

const none = () => Promise.reject(new Error('none'));
const tools = makeRegistry({
  agentd: {} as AgentdClient,
  memoryd: { runRecall: none, runRemember: none, runMemories: none, runForget: none },
  maild: { previewExternal: none, sendExternal: none, findExternal: none, forgetExternal: none },
  egressd: { fetch: none, getFetch: none, forgetFetch: none },
  openHost: none,
  clock: systemClock(),
  tests: {},
  declared: () => [],
  appendLine: async () => {},
}).list();

test('every tool declares its risk, reversibility, level and schemas', () => {
  assert.ok(tools.length > 20, `${tools.length} tools`);
  for (const { name, view } of tools) {
    const parsed = ToolView.safeParse(view);
    assert.ok(parsed.success, `${name}: ${parsed.error}`);
    assert.equal(
      view.input_schema.additionalProperties,
      false,
      `${name} takes what it does not know`,
    );
  }
});

test('no tool that changes something claims to be read-only', () => {
  for (const { name, box, reversibility } of tools)
    if (box === 'write') assert.notEqual(reversibility, 'read-only', name);
  const of = (name: string) => tools.find((one) => one.name === name)?.reversibility;
  assert.equal(of('file.read'), 'read-only', 'control');
  assert.equal(of('file.delete'), 'irreversible');
});

test('properties that depend on the input are declared at their worst, and decided by the input', () => {
  const order = ['read-only', 'reversible', 'externally-reversible', 'irreversible'];
  const fetch = tools.find(({ name }) => name === 'http.fetch')!;
  const of = (method: string) =>
    fetch.assessReversibility!(fetch.input.parse({ url: 'https://a.test/', method }));
  assert.deepEqual(['GET', 'HEAD', 'POST', 'DELETE'].map(of), [
    'read-only',
    'read-only',
    'externally-reversible',
    'externally-reversible',
  ]);
  assert.equal(fetch.view.reversibility, 'externally-reversible');
  for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'])
    assert.ok(order.indexOf(of(method)) <= order.indexOf(fetch.reversibility));
});

test("[R25] [R94] tools that run programs or open files do so in their run's box", () => {
  for (const { name, box, level } of tools) {
    if (!/^(file|git|shell|tests|delete|logs)\./.test(name)) continue;
    assert.ok(box !== undefined, `${name} has no box`);
    assert.ok(level !== 'L0', name);
  }
});

test('rules can read the arguments of every tool, but for those of these types', async () => {
  const cedar = await loadCedar();
  const left: string[] = [];
  for (const { name, view } of tools) {
    const { type, known, leftOut } = describeArguments(view.input_schema);
    const rule = (argument: string) =>
      `forbid (principal, action == Action::"tool.call", resource == Tool::"${name}")
       when { context.arguments has ${argument} };`;
    const own = known.find((one) => !one.includes('.')) ?? 'none';
    assert.deepEqual(cedar.validate({ rule: rule(own) }, type).errors, [], name);
    left.push(...[...leftOut.keys()].map((argument) => `${name} ${argument}`));
  }
  assert.deepEqual(left.sort(), [
    'file.edit edits',
    'http.fetch headers',
    'skill.propose files',
    'task.delegate inputs',
    'timer.wait after_s',
  ]);
});
