// The rows of the routes that agentd calls at memoryd.
import assert from 'node:assert/strict';
import type { BriefedMemory } from '../../src/wire/memoryd/for-agentd.ts';
import type { KeptEpisode } from '../../src/wire/memoryd/retention.ts';
import type { IdleWorld } from '../support/callers.ts';
import { eraseCopiesRow } from './erasure-rows.ts';
import { rows, withBody } from './row.ts';

const about = ({ someRun }: IdleWorld) => ({
  agent: someRun.caller.agent,
  run_id: someRun.id,
  task_id: someRun.taskId,
  root_task_id: someRun.taskId,
  labels: [],
  owner: null,
  scopes: [`agent:${someRun.caller.agent}`],
});

const reader = { principal: 'person:tester', owner: null };

export const AGENTD_ROWS = rows({
  readInputMemories: {
    good: async (world) => {
      const body = { class: 'semantic', scope: 'project:wire', text: 'An input.' } as const;
      const { memory } = await world.memoryd.remember({ body });
      return { body: { ids: [memory.id], readers: [reader], labels: [] } };
    },
    check: ({ memories }: { memories: { text: string }[] }) =>
      assert.equal(memories[0]?.text, 'An input.'),
    bad: [
      ['an unknown memory', (g) => withBody(g, { ids: [`memory_${'0'.repeat(26)}`] }), 'not_found'],
      ['no id of a memory', (g) => withBody(g, { ids: ['mem_1'] }), 'bad_request'],
      [
        'an agent that may not read it',
        (g) => withBody(g, { readers: [reader, { principal: 'agent:helper', owner: null }] }),
        'denied',
      ],
    ],
  },
  recallForBriefing: {
    good: async (world) => ({ body: { ...about(world), query: 'zymurgy', max_tokens: 800 } }),
    check: ({ memories }: { memories: BriefedMemory[] }) => assert.deepEqual(memories, []),
    bad: [['no scope', (g) => withBody(g, { scopes: [] }), 'bad_request']],
  },
  keepEpisode: {
    good: async (world) => ({
      body: {
        ...about(world),
        occurred_at: '2026-01-01T00:00:00Z',
        structure: 'It took a second.',
        words: 'It was asked for ledgers.',
      },
    }),
    check: ({ ids }: { ids: string[] }) => assert.equal(ids.length, 2),
    bad: [['no words', (g) => withBody(g, { words: '' }), 'bad_request']],
  },
  listEpisodes: {
    good: async () => ({ query: { recorded_before: '2026-01-01T00:00:00Z', limit: 10 } }),
    check: ({ episodes }: { episodes: KeptEpisode[] }) => assert.ok(episodes.length <= 10),
  },
  listFullScopes: {
    good: async () => ({ query: { episodes_max: 1_000_000 } }),
    check: ({ scopes }: { scopes: object[] }) => assert.deepEqual(scopes, []),
  },
  pruneEpisodes: {
    good: async () => ({
      body: { ids: [`memory_${'0'.repeat(26)}`], by: 'service:agentd', cause: 'it is old' },
    }),
    check: ({ pruned }: { pruned: number }) => assert.equal(pruned, 0, 'there is none'),
    bad: [['no ids', (g) => withBody(g, { ids: [] }), 'bad_request']],
  },
  compactMemory: {
    good: async () => ({}),
    check: ({ compacted }: { compacted: boolean }) => assert.equal(compacted, false),
  },
  memorySizes: {
    good: async () => ({}),
    check: ({ scopes }: { scopes: object[] }) => assert.ok(Array.isArray(scopes)),
  },
  eraseCopies: eraseCopiesRow,
});
