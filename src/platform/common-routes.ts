// The routes that every daemon has: health, metrics, ids, reload and snapshots.
import * as z from 'zod';
import { DAEMONS, type DaemonName } from '../wire/daemons.ts';
import { type CallerKind, route, routes } from '../wire/route.ts';
import { type Dispatch, type Handlers, RawReply } from './dispatch.ts';
import { findIds, findIdsRoute, type IdSource } from './find-ids.ts';
import type { Log } from './log.ts';
import type { Metrics } from './metrics.ts';
import { type ReloadView, reloadRoute } from './reload-config.ts';
import { type Snapshots, snapshotRoutes } from './snapshots.ts';

const ALL_CALLERS: CallerKind[] = ['operator', ...DAEMONS];
export const commonRoutes = routes({
  health: route({
    method: 'GET',
    path: '/healthz',
    callers: ALL_CALLERS,
    output: z.object({
      daemon: z.string(),
      version: z.string(),
      pid: z.int(),
      status: z.enum(['ok', 'stopping']),
      in_flight: z.int(),
    }),
  }),
  metrics: route({ method: 'GET', path: '/metrics', callers: ['operator'], output: z.unknown() }),
  findIds: findIdsRoute,
  reload: reloadRoute,
  ...snapshotRoutes,
});

export function makeCommonHandlers(
  context: { name: DaemonName; version: string; metrics: Metrics; log: Log },
  parts: {
    snapshots: Snapshots;
    ids: IdSource | undefined;
    reload: () => ReloadView;
    isStopping: () => boolean;
    dispatch: () => Dispatch;
  },
): Handlers<typeof commonRoutes> {
  const { snapshots, isStopping, dispatch } = parts;
  return {
    ...snapshots.handlers,
    reload: async () => {
      const view = parts.reload();
      context.log.info('read the configuration again', view);
      return view;
    },
    findIds: async ({ caller, params }) => ({
      ids: await findIds(parts.ids, params.prefix, caller),
    }),
    health: async () => ({
      daemon: context.name,
      version: context.version,
      pid: process.pid,
      status: isStopping() ? 'stopping' : 'ok',
      in_flight: dispatch().inFlight(),
    }),
    metrics: async () =>
      new RawReply({
        status: 200,
        headers: { 'content-type': 'text/plain; version=0.0.4' },
        body: await context.metrics.text(),
      }),
  };
}
