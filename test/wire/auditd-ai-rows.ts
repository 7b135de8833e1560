// The rows of auditd-ai's routes.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { auditRoutes } from '../../src/wire/auditd-ai.ts';
import type { CallerKind } from '../../src/wire/route.ts';
import { callerOf, callLocal, type IdleWorld } from '../support/callers.ts';
import { type Good, rows, withBody } from './row.ts';
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

/** Two such batches do not fit into one segment. */
const SEALING = { batches: 3, events: 7 };
const PADDING = Object.fromEntries(
  Array.from({ length: 10 }, (_, i) => [`padding_${i}`, 'x'.repeat(1_000)]),
);

/** Fills a segment, and gives the requests that export and archive the oldest sealed one. */
async function sealSegment(world: IdleWorld) {
  const { dispatch } = world.hosted.get('auditd-ai')!;
  for (let n = 0; n < SEALING.batches; n++) {
    const events = Array.from({ length: SEALING.events }, () => event('toold'));
    const source_store = events[0]!.source_store;
    await dispatch.run({
      method: 'POST',
      path: '/v1/audit/append',
      query: {},
      body: { events: events.map((one) => ({ ...one, source_store, data: PADDING })) },
      caller: { kind: 'daemon', principal: 'service:toold', daemon: 'toold' },
    });
  }
  const { segments } = await world.audit.listSegments({ query: { limit: 1_000 } });
  const { first_seq } = segments.find(({ status }) => status === 'sealed')!;
  const { note: checkpoint } = await world.audit.checkpoint({});
  const exporting = { params: { first_seq }, body: { checkpoint } };
  const archiving = async (): Promise<Good> => {
    const operator = callerOf('operator', world.someRun);
    const { exportSegment } = auditRoutes;
    const exported = await callLocal(world, 'auditd-ai', exportSegment, exporting, operator);
    assert.ok(exported.ok);
    const content_sha256 = createHash('sha256').update(String(exported.value)).digest('hex');
    const archive = { location: '/elsewhere', name: 'x.gz', size_bytes: 1, sha256: '0'.repeat(64) };
    return { ...exporting, body: { checkpoint, content_sha256, archive } };
  };
  return { exporting, archiving };
}

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
  forgotten: {
    good: async () => ({ query: { before: '0' } }),
    check: (response: { events: unknown[]; next: unknown }) =>
      assert.deepEqual([response.events, response.next], [[], null]),
    bad: [['a number below all', (g) => ({ ...g, query: { before: '-1' } }), 'bad_request']],
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
  proveLine: {
    good: async (world) => {
      const { events } = await world.audit.events({ query: { limit: 1, order: 'desc' } });
      const { event: line } = await world.audit.prove({ params: { id: events[0]!.id } });
      return { body: { event: line } };
    },
    check: (response: { event: string }, good) =>
      assert.equal(response.event, (good.body as { event: string }).event),
    bad: [['a line of no log', () => ({ body: { event: '{"seq":0}' } }), 'bad_request']],
  },
  listSegments: {
    good: async () => ({ query: { limit: '100' } }),
    check: (response: { segments: { status: string }[] }) =>
      assert.equal(response.segments.at(-1)?.status, 'current'),
    bad: [['a cursor of nobody', (g) => ({ ...g, query: { cursor: 'garbage' } }), 'bad_request']],
  },
  exportSegment: {
    unknownId: 'fine',
    good: async (world) => (await sealSegment(world)).exporting,
    check: (response: string, good) => {
      const { first } = JSON.parse(response.slice(0, response.indexOf('\n'))) as { first: number };
      assert.equal(first, good.params?.first_seq);
    },
    bad: [
      ['a checkpoint of no log', (g) => ({ ...g, body: { checkpoint: 'x' } }), 'bad_request'],
      ['no segment', (g) => ({ ...g, params: { first_seq: 999_999_999 } }), 'not_found'],
    ],
  },
  archiveSegment: {
    unknownId: 'fine',
    good: async (world) => (await sealSegment(world)).archiving(),
    check: (response: { segment: { status: string } }) =>
      assert.equal(response.segment.status, 'archived'),
    bad: [
      [
        'the hash of other content',
        (g) => withBody(g, { content_sha256: 'f'.repeat(64) }),
        'conflict',
      ],
      ['no segment', (g) => ({ ...g, params: { first_seq: 999_999_999 } }), 'not_found'],
    ],
  },
  rotateKey: {
    good: nothing,
    check: (response: { vkey: string; previous: string }) =>
      assert.notEqual(response.vkey, response.previous),
  },
});
