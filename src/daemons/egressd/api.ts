// Maps egressd's routes to the service.
import type { Handlers } from '../../platform/dispatch.ts';
import type { EraseCopies, ErasedCopies } from '../../wire/copies.ts';
import type { egressdRoutes } from '../../wire/egressd.ts';
import type { EgressdService } from './service.ts';
import type { EgressdStore } from './store.ts';

export function makeHandlers(
  service: EgressdService,
  store: Pick<EgressdStore, 'pruneRuns'>,
  eraseCopies: (order: EraseCopies) => Promise<ErasedCopies>,
): Handlers<typeof egressdRoutes> {
  return {
    putEgress: async ({ params, body }) => service.openEgress(params.id, body),
    dropEgress: async ({ params, query }) => ({
      dropped: await service.closeEgress(params.id, query.fence),
    }),
    getEgress: async ({ params }) => ({ egress: await service.getEgress(params.id) }),
    listEgress: async () => ({ egress: await service.listEgress() }),
    fetch: async ({ params, body, signal }) => service.fetch(params.id, body, signal),
    getFetch: async ({ params }) => service.getFetch(params.call_id),
    prune: async ({ body }) => ({ rows: await store.pruneRuns(body.run_ids), bytes: 0, left: 0 }),
    eraseCopies: ({ body }) => eraseCopies(body),
    forgetFetch: async ({ params }) => ({ forgotten: await service.forgetFetch(params.call_id) }),
  };
}
