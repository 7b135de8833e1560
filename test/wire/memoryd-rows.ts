// The rows of memoryd's routes: for each, a request that succeeds and specific ones it must refuse.
import assert from 'node:assert/strict';
import type { MemoryView, NewMemory, RecalledMemory } from '../../src/wire/memoryd/records.ts';
import { memorydRoutes } from '../../src/wire/memoryd.ts';
import { callSocket, type IdleWorld, socketOf } from '../support/callers.ts';
import { rows, withBody } from './row.ts';

let made = 0;

const newMemory = (more: Partial<NewMemory> = {}): NewMemory => ({
  class: 'semantic',
  scope: 'project:wire',
  text: `Fact ${made++} about herons.`,
  ...more,
});

async function remembered(world: IdleWorld, more?: Partial<NewMemory>): Promise<MemoryView> {
  const headers = { authorization: `Bearer ${world.operatorKey}`, 'agentd-person': 'tester' };
  const path = socketOf(world, 'memoryd', 'operator', world.someRun)!;
  const request = { body: newMemory(more) };
  const outcome = await callSocket(path, memorydRoutes.remember, request, { headers });
  assert.ok(outcome.ok, JSON.stringify(outcome));
  return (outcome.value as { memories: MemoryView[] }).memories[0]!;
}

export const ROWS = rows({
  remember: {
    cites: '[R280] [R72]',
    good: async () => ({ body: newMemory() }),
    check: ({ memories }: { memories: MemoryView[] }, good) => {
      const { text, scope } = good.body as NewMemory;
      assert.deepEqual(
        memories.map((one) => [one.text, one.scope, one.status, one.by]),
        [[text, scope, 'active', 'person:tester']],
      );
    },
    bad: [
      ['a scope with ..', (g) => withBody(g, { scope: 'project:a/../b' }), 'bad_request'],
      ['a class of its own', (g) => withBody(g, { class: 'audit' }), 'bad_request'],
      ['the memory of a person', (g) => withBody(g, { scope: 'person:tester' }), 'denied'],
      [
        'a memory that ends before it begins',
        (g) =>
          withBody(g, { valid_from: '2026-01-02T00:00:00Z', valid_to: '2026-01-01T00:00:00Z' }),
        'bad_request',
      ],
      [
        'one that replaces an unknown one',
        (g) => withBody(g, { supersedes: [`memory_${'0'.repeat(26)}`] }),
        'not_found',
      ],
      ['an empty batch', () => ({ body: { memories: [] } }), 'bad_request'],
    ],
  },
  recall: {
    cites: '[R281] [R73]',
    good: async (world) => {
      await remembered(world);
      return { body: { scope: 'project:wire', query: 'herons', limit: 3 } };
    },
    check: ({ memories }: { memories: RecalledMemory[] }) => {
      assert.ok(memories.length > 0 && memories.length <= 3);
      assert.match(memories[0]!.text, /herons/);
    },
    bad: [
      ['a scope and scopes', (g) => withBody(g, { scopes: ['team'] }), 'bad_request'],
      ['the memory of a person', (g) => withBody(g, { scope: 'person:ann' }), 'denied'],
      ['too many', (g) => withBody(g, { limit: 101 }), 'bad_request'],
    ],
  },
  getMemory: {
    cites: '[R286]',
    good: async (world) => ({ params: { id: (await remembered(world)).id } }),
    check: ({ memory }: { memory: MemoryView }, good) =>
      assert.equal(memory.id, (good.params as { id: string }).id),
  },
  rebuildMemory: {
    good: async (world) => {
      await remembered(world);
      return {};
    },
    check: (response: { applied: number; problems: unknown[] }) => {
      assert.ok(response.applied > 0);
      assert.deepEqual(response.problems, []);
    },
  },
});
