// auditd-ai's routes.
import { type Handlers, RawReply } from '../../platform/dispatch.ts';
import { assertOperatorKey } from '../../platform/snapshots.ts';
import type { auditRoutes } from '../../wire/auditd-ai.ts';
import type { ArchiveSchedule } from './archive-schedule.ts';
import type { Archiving } from './archiving.ts';
import type { makeListForgotten } from './forgotten.ts';
import type { AuditService } from './service.ts';
import type { TailFilter } from './store/store.ts';

export function makeApi(
  service: AuditService,
  archiving: Archiving,
  schedule: ArchiveSchedule,
  listForgotten: ReturnType<typeof makeListForgotten>,
): Handlers<typeof auditRoutes> {
  return {
    append: async ({ body, caller }) =>
      service.append(body.events, caller.kind === 'daemon' ? caller.daemon : ''),
    own: async ({ params, query, caller }) => ({
      events: await service.own(
        { source: caller.kind === 'daemon' ? caller.daemon : '', source_store: params.store },
        query.after,
      ),
    }),
    forgotten: ({ query }) => listForgotten(query.before),
    async events({ query, signal }) {
      const { follow, after, order, event, root_task_id, run_id, limit, cursor } = query;
      if (follow === '1') {
        const body = service.follow({ event, root_task_id, run_id }, after, signal);
        return new RawReply({
          status: 200,
          headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' },
          body,
        });
      }
      const where: TailFilter[] = [];
      if (event !== undefined) where.push({ column: 'event', value: event });
      if (root_task_id !== undefined) where.push({ column: 'root_task_id', value: root_task_id });
      if (run_id !== undefined) where.push({ column: 'run_id', value: run_id });
      return service.list(where, { limit, cursor, after, order });
    },
    task: ({ params, query }) =>
      service.list([{ column: 'task_id', value: params.task_id }], query),
    agent: ({ params, query }) =>
      service.list([{ column: 'agent', value: params.agent.replace(/^agent:/, '') }], query),
    tool: ({ params, query }) => service.list([{ column: 'tool', value: params.tool }], query),
    checkpoint: () => service.checkpoint(),
    async holdLog({ caller, body }) {
      assertOperatorKey(caller);
      return { hold: service.hold(body.hold_ms) };
    },
    async releaseLog({ caller, params }) {
      assertOperatorKey(caller);
      return { held: service.release(params.id) };
    },
    prove: ({ params }) => service.prove(params.id),
    proveLine: ({ body }) => archiving.proveLine(body.event),
    listSegments: async ({ query }) => {
      const automatic = schedule.view();
      const page = archiving.listSegments(query);
      return automatic === undefined ? page : { ...page, automatic };
    },
    exportSegment: async ({ params, body }) =>
      new RawReply({
        status: 200,
        headers: { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' },
        body: await archiving.exportSegment(params.first_seq, body.checkpoint),
      }),
    archiveSegment: async ({ params, body, caller }) => ({
      segment: await archiving.archiveSegment(params.first_seq, body, caller.principal),
    }),
    rotateKey: ({ caller }) => service.rotateKey(caller.principal),
  };
}
