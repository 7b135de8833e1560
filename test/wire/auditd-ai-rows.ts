// The rows of auditd-ai's routes.
import assert from 'node:assert/strict';
import type { CallerKind } from '../../src/wire/route.ts';
import { type Good, rows } from './row.ts';
import { madeCall } from './toold-rows.ts';

let made = 0;
const nothing = async (): Promise<Good> => ({});

const event = (source: CallerKind = 'agentd') => {
  const seq = ++made;
  return {
    id: `wire-${seq}`,
    ts: '2026-03-01T09:00:00Z',
    event: 'task.created',
    source,
    source_store: `wire-${seq}`,
    source_seq: seq,
  };
};
const append = (more: object) => () => ({ body: { events: [{ ...event(), ...more }] } });

export const ROWS = rows({
  append: {
    good: async (_, as) => ({ body: { events: [event(as)] } }),
    check: (response: { accepted: number }) => assert.equal(response.accepted, 1),
    bad: [
      ['no events', () => ({ body: { events: [] } }), 'bad_request'],
      ['an event of no kind', append({ event: 'x.y' }), 'bad_request'],
      ['content in an event', append({ data: { a: { b: 1 } } }), 'bad_request'],
      ['an event of another daemon', append({ source: 'toold' }), 'forbidden_caller'],
    ],
  },
  own: {
    unknownId: 'fine',
    good: async () => ({ params: { store: 'wire-0' }, query: { after: '0' } }),
    check: (response: { events: unknown[] }) => assert.deepEqual(response.events, []),
    bad: [
      ['a number below all', (g) => ({ ...g, query: { after: '-1' } }), 'bad_request'],
      ['no number', (g) => ({ ...g, query: {} }), 'bad_request'],
    ],
  },
  events: {
    cites: '[R299]',
    good: async () => ({ query: { limit: '3', order: 'desc' } }),
    check: (response: { events: unknown[] }) => assert.equal(response.events.length, 3),
    bad: [['an invalid cursor', (g) => ({ ...g, query: { cursor: 'garbage' } }), 'bad_request']],
  },
  task: {
    cites: '[R300]',
    unknownId: 'fine',
    good: async (world) => ({ params: { task_id: world.someRun.taskId } }),
    check: (response: { events: unknown[] }) => assert.ok(response.events.length > 0),
  },
  agent: {
    cites: '[R301]',
    unknownId: 'fine',
    good: async () => ({ params: { agent: 'worker' } }),
    check: (response: { events: unknown[] }) => assert.ok(response.events.length > 0),
  },
  tool: {
    cites: '[R302]',
    unknownId: 'fine',
    good: async (world) => {
      await madeCall(world);
      return { params: { tool: 'test.echo' } };
    },
    check: (response: { events: unknown[] }) => assert.ok(response.events.length > 0),
  },
  checkpoint: { good: nothing },
  holdLog: {
    good: async () => ({ body: { hold_ms: 1 } }),
    check: ({ hold }: { hold: { segments: unknown[]; checkpoint: { size: number } } }) =>
      assert.ok(hold.segments.length > 0 && hold.checkpoint.size > 0),
    bad: [['a hold that is too long', () => ({ body: { hold_ms: 2_001 } }), 'bad_request']],
  },
  releaseLog: {
    unknownId: 'fine',
    good: async () => ({ params: { id: '00000000-0000-4000-8000-000000000000' } }),
    check: (answer: { held: boolean }) => assert.equal(answer.held, false),
  },
  prove: {
    good: async (world) => ({ params: { id: `${world.someRun.taskId}.created` } }),
    check: (response: { index: number; size: number }) => assert.ok(response.index < response.size),
  },
  rotateKey: {
    good: nothing,
    check: (response: { vkey: string; previous: string }) =>
      assert.notEqual(response.vkey, response.previous),
  },
});
