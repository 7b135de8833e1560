// The rows of the routes that every daemon has.
import assert from 'node:assert/strict';
import type { DaemonName } from '../../src/wire/daemons.ts';
import { callerOf, callLocal, type IdleWorld, TABLES } from '../support/callers.ts';
import { type Good, type Rows, rows } from './row.ts';

const nothing = async (): Promise<Good> => ({});

type Opened = { snapshot: { id: string; size_bytes: number } | null };

export function commonRows(daemon: DaemonName): Rows {
  const opened: string[] = [];
  const call = (world: IdleWorld, name: string, good: Good) =>
    callLocal(world, daemon, TABLES[daemon][name]!, good, callerOf('operator', world.someRun));
  /** A daemon keeps few that nobody reads. */
  const openOne = async (world: IdleWorld): Promise<Good> => {
    for (const id of opened.splice(0)) await call(world, 'dropSnapshot', { params: { id } });
    const outcome = await call(world, 'openSnapshot', { body: { hold_ms: 1 } });
    assert.ok(outcome.ok, JSON.stringify(outcome));
    const { snapshot } = outcome.value as Opened;
    opened.push(snapshot!.id);
    return { params: { id: snapshot!.id } };
  };
  return rows({
    health: {
      good: nothing,
      check: (response: { status: string }) => assert.equal(response.status, 'ok'),
    },
    metrics: {
      good: nothing,
      check: (response: string) =>
        assert.match(response, /^# TYPE agentd_requests_total counter$/m),
    },
    reload: {
      good: nothing,
      check: (view: object) => assert.deepEqual(view, { taken: [], waiting: [] }),
    },
    findIds: {
      unknownId: 'fine',
      good: async ({ someRun }) => ({ params: { prefix: someRun.taskId.slice(0, 12) } }),
      check: ({ ids }: { ids: string[] }) =>
        assert.ok(
          ids.every((id) => id.startsWith('task_')) && ids.length > 0 === (daemon === 'agentd'),
        ),
      bad: [
        [
          'a whole id',
          (good) => ({ ...good, params: { prefix: `task_${'0'.repeat(26)}` } }),
          'bad_request',
        ],
        ['no kind', (good) => ({ ...good, params: { prefix: '0123' } }), 'bad_request'],
      ],
    },
    openSnapshot: {
      good: async () => ({ body: { hold_ms: 1 } }),
      check({ snapshot }: Opened) {
        assert.ok(snapshot!.size_bytes > 0);
        opened.push(snapshot!.id);
      },
      bad: [['a hold that is too long', () => ({ body: { hold_ms: 2_001 } }), 'bad_request']],
    },
    releaseSnapshot: {
      unknownId: 'fine',
      good: openOne,
      check: (response: { held: boolean }) => assert.equal(typeof response.held, 'boolean'),
    },
    readSnapshot: {
      good: openOne,
      check: (response: string) => assert.ok(response.startsWith('SQLite format 3\0')),
    },
    dropSnapshot: {
      unknownId: 'fine',
      good: openOne,
      check: (response: { dropped: boolean }) => assert.equal(response.dropped, true),
    },
  });
}
